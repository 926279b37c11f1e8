// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/card_planner.h"
#include "core/policy/policy.h"
#include "core/policy/step_planner.h"
#include "core/sac/module_info.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace headroom {

/// A training run under a plan on a card.
struct OnCard
{
    Card card;
    CardRun run;
    Bytes leastMemory = 0; ///< 0: not known
    std::optional<BetterSettings> better;
};

/// The answer to the request for a plan and, for a recorded step, the memory and time of executing it.
struct PlanReport
{
    Plan plan;
    std::optional<OnCard> card; ///< nullopt: no card is known
    std::optional<Policy> policy; ///< of a feasible plan for a step, if it is needed
    Bytes predictedPeak = -1; ///< of the step under that policy; -1: not predicted
    double scriptRecomputeMs = 0; ///< time that the step recomputes without the plan
    CheckpointPlan regions; ///< of the policy
};

/// The answer of a planned step, with its policy if one is needed.
PlanReport reportOf(const StepPlanner& planner, PlannedStep planned, bool needsPolicy);
/// Plans for a card, as planForCard(), and looks for better settings of its allocator.
Result<PlanReport> reportForCard(const StepPlanner& planner, const PlanRequest& request, Card card, bool needsPolicy);

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

/// The document of `torch-headroom plan --json`, without the step's clock. `step` is null for a plan of a ModuleInfo
/// alone; `exact` is the formulation.
nlohmann::ordered_json toJson(const PlanReport& answer, const StepTrace* step, const ModuleInfo& info, bool exact);

} // namespace headroom
