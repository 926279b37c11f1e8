// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

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

} // namespace headroom
