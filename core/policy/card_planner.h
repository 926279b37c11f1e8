// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/plan_answer.h"
#include "core/policy/step_planner.h"
#include "core/predict/step_model.h"

#include <cstdint>
#include <optional>
#include <stop_token>
#include <vector>

namespace headroom {

/// The plan with the checkpoints of alike modules (the layers of one list) in other orders: those that recompute most
/// first, last, and spread evenly. These plans take as long, and about as many bytes, but leave other gaps between the
/// blocks of the caching allocator. The plan itself is not among them; empty: no two alike modules differ in it.
std::vector<CheckpointPlan> arrangements(const StepModel& model, const CheckpointPlan& plan);

/// Whether planForCard() searches the least capacity of a card that runs the plan.
enum class LeastMemory { searched, left };

/// The work that a search gives to plans close to each other, in labels of the solver. Some 12 million labels take five
/// seconds; the work, not the time, is counted, so that the answer follows from the step.
struct Patience
{
    std::int64_t fine = 12'000'000; ///< plans 1/400 of the range apart, each in all orders
    std::int64_t coarse
        = 36'000'000; ///< then in the solver's order, and after that half of the way to the least budget
};

/// Plans a step for a card: what counts is not the bytes that the step allocates but that each step of training finds
/// room, from the first one on (runOnCard). Plans of lower peaks may fragment more, so the planner tries plans from the
/// largest budget downwards, as far apart as `patience` says, also in other orders (arrangements()), and takes the
/// first that runs. `request.budget` is not used. Stopped by `stop`, the plan has status `stopped`.
///
/// The answer has a verdict. If no plan runs, the answer is infeasible, and its reason says why. Otherwise
/// `plan.budget` is the card's memory for tensors, and boundMs is proven for all plans whose bytes fit, whether they
/// run or not; gap is to that. With LeastMemory::left, CardVerdict::leastMemory is 0, and where no plan runs the
/// run is that of the last plan that was tried. Errors: those of StepPlanner::solve().
Result<PlanAnswer> planForCard(const StepPlanner& planner, PlanRequest request, const CardPtr& card,
                               const std::stop_token& stop = {}, LeastMemory least = LeastMemory::searched,
                               const Patience& patience = {});

/// Looks whether the card of `found`, an answer of planForCard(), runs a plan of less time (of recomputation and
/// exposed copies), or one at all, with expandable segments or without splits of large blocks (max_split_size_mb), and
/// returns the best of these settings: expandable segments, unless another one is better by 1 % of the step's time.
/// nullopt: none is better than now by as much, or the bound of `found` says so. After the work of 15 seconds
/// (SearchLimit) no other settings are tried. Errors: those of planForCard().
Result<std::optional<BetterSettings>> betterSettings(const StepPlanner& planner, const PlanRequest& request,
                                                     const PlanAnswer& found, const std::stop_token& stop = {},
                                                     const Patience& patience = {});

/// planForCard(), with betterSettings() in the verdict, and planForCard()'s errors.
Result<PlanAnswer> planForCardAndSettings(const StepPlanner& planner, const PlanRequest& request, const CardPtr& card);

} // namespace headroom
