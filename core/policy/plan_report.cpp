// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/plan_report.h"

#include "core/base/try.h"
#include "core/trace/phase_times.h"
#include "core/trace/remarks.h"

#include <nlohmann/json.hpp>

namespace headroom {
namespace {

constexpr std::string_view wholeOnlyReason
    = "ops run inside of tensor subclasses there, where PyTorch's selective checkpointing keeps no single ones";

nlohmann::ordered_json toJson(const OnCard& on, const StepTrace& step)
{
    nlohmann::ordered_json json = cardRunJson(on.card, step, on.run);
    if (on.leastMemory > 0)
        json["least_capacity_bytes"] = on.leastMemory;
    if (on.better)
        json["better_settings"] = {{"settings", on.better->settings}, {"recompute_ms", on.better->recomputeMs}};
    return json;
}

} // namespace

PlanReport reportOf(const StepPlanner& planner, PlannedStep planned, bool needsPolicy)
{
    PlanReport answer;
    answer.scriptRecomputeMs = recomputedMs(*planner.trace());
    answer.plan = planned.plan;
    if (planned.timeline) {
        answer.predictedPeak = planned.timeline->peak;
        if (needsPolicy)
            answer.policy = planned.policy(planner.model());
    }
    answer.regions = std::move(planned.regions);
    return answer;
}

Result<PlanReport> reportForCard(const StepPlanner& planner, const PlanRequest& request, Card card, bool needsPolicy)
{
    ASSIGN_OR_RETURN(PlanOnCard found, planForCard(planner, request, card));
    ASSIGN_OR_RETURN(std::optional<BetterSettings> better, betterSettings(planner, request, card, found));
    PlanReport answer = reportOf(planner, std::move(found.planned), needsPolicy);
    answer.card = OnCard{std::move(card), std::move(found.run), found.leastMemory, std::move(better)};
    return answer;
}

std::vector<Obstacle> notCheckpointable(const ModuleInfo& info)
{
    std::vector<Obstacle> found;
    for (const ModuleStats& stats : info.stats)
        if (hasSomethingToGive(stats) && !stats.obstacle.empty())
            found.push_back({stats.fqn, stats.obstacle});
    return found;
}

std::vector<Obstacle> wholeOnly(const ModuleInfo& info)
{
    std::vector<Obstacle> found;
    for (const ModuleStats& stats : info.stats)
        if (hasSomethingToGive(stats) && stats.obstacle.empty() && stats.isWholeOnly)
            found.push_back({stats.fqn, wholeOnlyReason});
    return found;
}

void addObstacles(nlohmann::ordered_json& document, const char* key, std::span<const Obstacle> modules)
{
    for (const auto& [module, reason] : modules)
        document[key].push_back({{"module", module}, {"reason", reason}});
}

nlohmann::ordered_json toJson(const PlanReport& answer, const StepTrace* step, const ModuleInfo& info, bool exact)
{
    const Plan& plan = answer.plan;
    nlohmann::ordered_json json;
    json["status"] = planStatusName(plan.status);
    json["budget_bytes"] = plan.budget;
    const bool isRank = step != nullptr && step->info.distributed;
    json["world_size"] = isRank ? step->info.distributed->worldSize : plan.worldSize;
    json["peak_bytes"] = plan.peak;
    json["baseline_peak_bytes"] = plan.baselinePeak;
    json["recompute_ms"] = plan.recomputeMs;
    json["step_ms"] = plan.stepMs;
    if (answer.scriptRecomputeMs > 0)
        json["script_recompute_ms"] = answer.scriptRecomputeMs;
    json["gap"] = plan.gap;
    json["bound_ms"] = plan.boundMs;
    json["solve_ms"] = plan.solveMs;
    json["decisions"] = nlohmann::ordered_json::object();
    for (const auto& [fqn, ratio] : plan.decisions)
        json["decisions"][fqn] = ratio;
    json["least_budget_bytes"] = plan.leastBudget;
    json["binding"] = {{"module", plan.binding.module}, {"phase", plan.binding.phase}};
    json["reason"] = plan.reason;
    if (answer.card)
        json["card"] = toJson(*answer.card, *step);
    if (step != nullptr) {
        json["predicted_peak_bytes"] = answer.predictedPeak;
        json["remarks"] = planRemarks(*step);
        addObstacles(json, "not_checkpointable", notCheckpointable(info));
        addObstacles(json, "whole_only", wholeOnly(info));
    }
    if (exact) {
        json["nodes"] = plan.nodes;
        json["ms_per_gib"] = plan.msPerGiB;
    }
    return json;
}

} // namespace headroom
