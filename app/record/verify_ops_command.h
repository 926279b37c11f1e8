// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/record/record_command.h"

namespace headroom {

/// `torch-headroom-record verify MODEL --memory-budget FRACTION`: plans the step as `torch-headroom ops-plan` does,
/// runs it under the plan, and prints a comparison with the prediction. On a GPU, gradients are compared with those of
/// the plain step on the same GPU. For a simulated GPU this is done on the CPU, whose step has other ops and is planned
/// for the same fraction. The error says where something first differs. `onCpu`: runs on the CPU however large the step
/// is, and compares memory there too.
Status runVerifyOps(const StepRequest& request, const RecordOptions& options, bool onCpu,
                    const ProgressReport& progress);

} // namespace headroom
