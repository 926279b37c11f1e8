// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan.h"
#include "core/policy/card.h"
#include "core/policy/policy.h"
#include "core/predict/module_memory.h"
#include "core/predict/step_clock.h"
#include "core/sac/module_info.h"
#include "core/timeline/timeline.h"

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

struct OpsDecisions; // core/joint/ops_frontier.h

using CardPtr = std::shared_ptr<const Card>;

/// Settings of the allocator with which a card needs less recomputation.
struct BetterSettings
{
    std::string settings; ///< the value of PYTORCH_CUDA_ALLOC_CONF
    double recomputeMs = 0; ///< of the plan with these settings
    Bytes peak = 0; ///< of that plan
    double savedMs = 0; ///< less than the plan without these settings takes; 0: without these settings no plan runs
};

/// Whether training under a plan runs on a card.
struct CardVerdict
{
    CardPtr card; ///< never null
    CardRun run; ///< of the plan; if no plan runs, of the plan with the least memory
    Bytes leastMemory = 0; ///< least capacity of a card on which that plan runs; 0: not known
    std::optional<BetterSettings> better = {}; ///< nullopt: none, or not looked for
    int tried = 0; ///< number of plans that were run on the card to find this plan
};

/// The answer to a request for a plan: the plan, and all that is predicted of the step under the plan. Every planner
/// answers with this type, by modules or by op; window, command line and Python API read it. Bytes are of one rank of
/// the request, times are ms of the step's time model. The timeline is shared and never copied, so that answers move
/// between threads at no cost.
///
/// No plan fits: `plan.status` is infeasible, `plan.reason` says why, and `timeline` is null. A planner that cannot
/// answer (a step that is not plannable(), a pin that is none) returns an Error instead.
struct PlanAnswer
{
    PlanRequest request;
    Plan plan; ///< the figures: status, peak, recompute time, bound and gap, least budget; optimizer state included
    CheckpointPlan regions; ///< the modules to checkpoint; empty: nothing is recomputed, or the plan is by op
    TimelinePtr timeline; ///< the step under the plan; null: no plan fits, or no step was given
    std::vector<ModuleEffect> effects; ///< by ModuleId: effect of the plan; as recorded if no plan fits
    std::optional<StepClock> clock = {}; ///< of the step under the plan; nullopt: not asked for, or hasClock() is false
    std::vector<ModuleOffload> offloads = {}; ///< what each module moves to the host; empty: nothing, or not asked for
    std::optional<CardVerdict> card = {}; ///< nullopt: no card is known, or the plan did not run there yet
    std::shared_ptr<const PlanAnswer> closest = {}; ///< if no plan fits: the answer to the least budget, if asked for
    std::shared_ptr<const OpsDecisions> ops = {}; ///< what happens to each op; null: a plan by modules
    bool preliminary = false; ///< a later answer proves this plan, finds a better one, or knows more of the card

    PlanMode mode() const noexcept { return ops ? PlanMode::ops : PlanMode::modules; }
    bool fits() const noexcept { return timeline != nullptr; } ///< of a step; else `plan.status` tells
    bool runs() const noexcept { return card && card->run.runs; } ///< on the card
    /// The answer whose plan can be shown: this one, or `closest`. Its timeline is null if there is neither.
    const PlanAnswer& shown() const noexcept { return closest ? *closest : *this; }

    Policy policy(const StepModel& model) const; ///< makes the policy for PyTorch; replays the step
};
using PlanAnswerPtr = std::shared_ptr<const PlanAnswer>;

/// Makes the answer of any planner. `found` has what the search knows: regions or ops, effects, the timeline of the
/// plan, or of the plan with the lowest peak, and in `plan` status, recomputeMs, bound and gap, leastBudget and what
/// the search took. This function fills the rest from the request and the step. A timeline above the budget makes the
/// answer infeasible.
PlanAnswer answerTo(const PlanRequest& request, const StepModel& step, PlanAnswer found);

/// Whether a plan offloads a module, or results of ops.
bool offloads(const CheckpointPlan& plan);
/// Sets Plan::offload of regions that were predicted as `timeline`. The times are 0 without hasClock().
void setOffload(const StepModel& step, const CheckpointPlan& regions, const Timeline& timeline, Plan& plan);

/// Replaces the plan of an answer by other regions with their effects and timeline; bound and status stay.
void replacePlan(PlanAnswer& answer, const StepModel& step, CheckpointPlan regions, TimelinePtr timeline,
                 std::vector<ModuleEffect> effects);

/// A module whose checkpoints are restricted, and why.
struct Obstacle
{
    std::string_view module;
    std::string_view reason;
};
/// Modules that no plan may checkpoint, although that would free memory.
std::vector<Obstacle> notCheckpointable(const ModuleInfo& info);
/// Modules that a plan recomputes as a whole or not at all.
std::vector<Obstacle> wholeOnly(const ModuleInfo& info);
/// Adds the modules as `key`, if there are any.
void addObstacles(nlohmann::ordered_json& document, const char* key, std::span<const Obstacle> modules);

/// Adds what a plan moves to the host as "offload", if the plan moves anything.
void addOffload(nlohmann::ordered_json& document, const StepTrace& step, const PlanAnswer& answer);

/// The document of `torch-headroom plan --json`, without the step's clock. `step` is null for a plan of a ModuleInfo
/// alone; `exact` is the formulation.
nlohmann::ordered_json toJson(const PlanAnswer& answer, const StepTrace* step, const ModuleInfo& info, bool exact);

} // namespace headroom
