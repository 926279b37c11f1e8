// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/cli/arguments.h"
#include "core/cost/step_times.h"
#include "core/joint/ops_planner.h"

#include <string>

namespace CLI {
class App;
}

namespace headroom::cli {

/// The arguments that `ops-plan` and `ops-frontier` share.
struct OpsArguments
{
    std::string stepFile;
    std::string solver = "dp";
    std::string runtime = "flops";
    std::string opTimes; ///< file of measured times
    std::string hostBandwidth; ///< as addHostBandwidth(); empty: the GPU's
    TimeChoice times;
    CardArguments onCard;
    bool json = false;
};
void addOpsArguments(CLI::App& command, OpsArguments& arguments);

/// The planner of a recorded step, the request without a fraction, and the card of --card.
struct OpsInput
{
    OpsPlanner planner;
    OpsRequest request;
    std::optional<Card> card;
};
/// Reads the input. Error: a wrong or contradictory option, or a file that cannot be read or planned by op.
Result<OpsInput> readOpsInput(const OpsArguments& arguments);

} // namespace headroom::cli
