// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/checkpoint/ops_verification.h"

#include <optional>
#include <string>

namespace headroom {

/// What `torch-headroom-record verify MODEL --memory-budget` found.
struct OpsReport
{
    std::string model;
    std::string gpu; ///< name of the card
    std::string deviceName; ///< for people
    std::string solver;
    std::string runtime;
    OpsPlan plan;
    OpsVerification device; ///< the step by the plan, on the device
    Bytes baselinePeak = 0;
    double stepFlops = 0;
    std::optional<OpsVerification> cpu; ///< the CPU's own step by a plan for the same fraction, when asked for
    std::optional<OpsValues> values; ///< of the GPU, or of the CPU beside a simulated one
    std::string noValues; ///< why they were not compared
};

/// The first thing that is not as it should be; empty when all is.
Status verdict(const OpsReport& report);

void printJson(const OpsReport& report, const Status& status);
void printText(const OpsReport& report);

} // namespace headroom
