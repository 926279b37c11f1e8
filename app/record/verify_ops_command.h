// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/record/record_command.h"
#include "core/checkpoint/ops_verification.h"

#include <optional>
#include <string>

namespace headroom {

/// The result of `torch-headroom-record verify MODEL --memory-budget`.
struct OpsReport
{
    std::string model;
    std::string gpu; ///< name of the DeviceSpec
    std::string deviceName; ///< name of the device for the user
    std::string solver;
    std::string runtime;
    OpsPlan plan;
    OpsVerification device; ///< the step under the plan, on the device
    Bytes baselinePeak = 0;
    double stepFlops = 0;
    std::optional<OpsVerification> cpu; ///< the CPU's step under a plan for the same fraction, if requested
    std::optional<OpsValues> values; ///< values on the GPU, or on the CPU for a simulated GPU
    std::string noValues; ///< why values were not compared
};

/// The first difference as an error; success if there is none.
Status verdict(const OpsReport& report);

void printJson(const OpsReport& report, const Status& status);
void printText(const OpsReport& report);

/// `torch-headroom-record verify MODEL --memory-budget FRACTION`: plans the step as `torch-headroom ops-plan` does,
/// runs it under the plan, and prints a comparison with the prediction. On a GPU, gradients are compared with the
/// gradients of the plain step on the same GPU. For a simulated GPU, gradients are compared on the CPU: the CPU's step
/// has other ops and is planned for the same fraction. The error says where something first differs. `onCpu`: runs on
/// the CPU however large the step is, and compares memory there too.
Status runVerifyOps(const StepRequest& request, const RecordOptions& options, bool onCpu,
                    const ProgressReport& progress);

} // namespace headroom
