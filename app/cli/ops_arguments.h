// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/cli/arguments.h"
#include "app/cli/command.h"
#include "core/cost/step_times.h"
#include "core/joint/ops_planner.h"
#include "core/policy/plan_answer.h"

#include <span>
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
    OffloadArguments toHost;
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

/// Whether training under the plan runs on the card.
CardVerdict verdictOf(const Card& card, const StepTrace& step, const PlanAnswer& answer);

/// A policy by op with results that may go to the host, and the policy of the plan without offload.
struct HostedComparison
{
    PlanAnswer hosted; ///< with a verdict if a card is given
    CheckpointPlan plain;
    Timeline plainTimeline;
};

/// The policy of `plans` of least time with results on the host, within the peak of the policy of `plan` without
/// offload; `forCard`: on the card. Error: a wrong --host-memory; no such policy.
Result<HostedComparison> hostedOf(const OpsInput& input, const OpsArguments& arguments, const OpsPlan& plan,
                                  std::span<const OpsPlan> plans, std::span<const ModuleId> modules, bool forCard);
/// The figures of the policy, without offload beside.
Json policyJson(const StepTrace& trace, const HostedComparison& found);

} // namespace headroom::cli
