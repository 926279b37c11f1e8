// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/record/record_command.h"
#include "core/checkpoint/gradient_comparison.h"
#include "core/policy/verification_report.h"

#include <string>

namespace headroom {

/// Returns the report's values of a comparison on `device`, as "the CPU".
VerificationReport::Values valuesOf(const GradientComparison& compared, const std::string& device);

/// Prints a report. Returns the report's verdict. Error: what differs from the prediction.
Status print(const VerificationReport& report, bool json);

/// Returns why the values of a step are not computed on the CPU; empty: the step is small enough, or they are `wanted`
/// all the same. Of a large step that is wanted it says on stderr that it takes minutes.
std::string withoutCpu(Bytes peak, double flops, bool wanted);

/// Runs the step with and without the policy, or under a plan by op, and prints a comparison with the prediction. The
/// error says where they first differ. Calls `watch` with the progress.
Status runVerify(const RecordOptions& options, const ProgressReport& watch);

/// `torch-headroom-record verify MODEL --memory-budget FRACTION`: plans the step as `torch-headroom ops-plan` does,
/// runs it under the plan, and prints a comparison with the prediction. On a GPU, gradients are compared with those of
/// the plain step on the same GPU. For a simulated GPU this is done on the CPU, whose step has other ops and is planned
/// for the same fraction. The error says where something first differs. `onCpu`: runs on the CPU however large the step
/// is, and compares memory there too.
Status runVerifyOps(const StepRequest& request, const RecordOptions& options, bool onCpu,
                    const ProgressReport& progress);

} // namespace headroom
