// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/plan_answer.h"

#include "core/policy/policy_maker.h"
#include "core/policy/shard_options.h"
#include "core/policy/step_planner.h"
#include "core/trace/phase_times.h"
#include "core/trace/remarks.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace headroom {
namespace {

constexpr std::string_view wholeOnlyReason = "ops run inside of tensor subclasses there, and PyTorch's selective "
                                             "checkpointing keeps no single ops of subclasses";

nlohmann::ordered_json toJson(const CardVerdict& verdict, const StepTrace& step)
{
    nlohmann::ordered_json json = cardRunJson(*verdict.card, step, verdict.run);
    if (verdict.leastMemory > 0)
        json["least_capacity_bytes"] = verdict.leastMemory;
    if (verdict.better)
        json["better_settings"]
            = {{"settings", verdict.better->settings}, {"recompute_ms", verdict.better->recomputeMs}};
    return json;
}

/// Sets Plan::binding to the place of highest memory.
void setBinding(const StepTrace& trace, const Timeline& timeline, Plan& plan)
{
    if (timeline.peakChange == Timeline::npos)
        return;
    const double when = timeline.changes[timeline.peakChange].ms;
    const auto span
        = std::ranges::find_if(timeline.phases, [&](const PhaseSpan& phase) { return when <= phase.endMs; });
    if (span != timeline.phases.end())
        plan.binding.phase = phaseName(span->phase);
    for (std::size_t i = timeline.peakChange + 1; i-- > 0;)
        if (const OpId op = timeline.changes[i].op; op.valid()) {
            plan.binding.module = trace.moduleFqn(trace.ops.module[op]);
            return;
        }
}

/// Takes the plan away, of which the figures that explain the refusal stay.
void makeInfeasible(PlanAnswer& answer)
{
    answer.plan.status = PlanStatus::infeasible;
    answer.plan.recomputeMs = answer.plan.boundMs = answer.plan.gap = 0;
    answer.regions.clear();
    answer.timeline = nullptr;
    answer.clock.reset();
}

} // namespace

bool offloads(const CheckpointPlan& plan)
{
    return std::ranges::any_of(plan, [](const CheckpointRegion& region) { return region.offload || region.hosted; });
}

void setOffload(const StepModel& step, const CheckpointPlan& regions, const Timeline& timeline, Plan& plan)
{
    plan.offload = {};
    if (!offloads(regions))
        return;
    plan.offload.moved = timeline.movedBytes;
    plan.offload.host = timeline.hostBytes;
    if (!hasClock(*step.trace()))
        return;
    if (const Result<StepClock> clock = clockOf(*step.trace(), step.index(), regions)) {
        plan.offload.copyMs = clock->copyMs;
        plan.offload.exposedMs = clock->exposedCopyMs;
    }
}

PlanAnswer answerTo(const PlanRequest& request, const StepModel& step, PlanAnswer found)
{
    const StepTrace& trace = *step.trace();
    const int ranks = found.mode() == PlanMode::ops ? 1 : request.worldSize; // ops are planned for one GPU
    found.request = request;
    Plan& plan = found.plan;
    plan.budget = request.budget;
    plan.worldSize = ranks;
    plan.baselinePeak = ranks > 1 ? perRank(*step.recorded(), ranks).peak : step.recorded()->peak;
    plan.stepMs = forwardBackwardMs(trace);
    if (found.timeline)
        setBinding(trace, *found.timeline, plan);
    if (!found.timeline || found.timeline->peak > request.budget) {
        makeInfeasible(found);
        return found;
    }
    plan.peak = found.timeline->peak;
    plan.decisions = decisionsOf(trace, found.regions, found.effects);
    setOffload(step, found.regions, *found.timeline, plan);
    return found;
}

void replacePlan(PlanAnswer& answer, const StepModel& step, CheckpointPlan regions, TimelinePtr timeline,
                 std::vector<ModuleEffect> effects)
{
    answer.regions = std::move(regions);
    answer.timeline = std::move(timeline);
    answer.effects = std::move(effects);
    answer.plan.peak = answer.timeline->peak;
    answer.plan.recomputeMs = answer.timeline->recomputeMs;
    answer.plan.decisions = decisionsOf(*step.trace(), answer.regions, answer.effects);
    setBinding(*step.trace(), *answer.timeline, answer.plan);
    setOffload(step, answer.regions, *answer.timeline, answer.plan);
}

Policy PlanAnswer::policy(const StepModel& model) const
{
    return policyOf(model, regions, plan);
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

void addOffload(nlohmann::ordered_json& document, const StepTrace& step, const PlanAnswer& answer)
{
    const auto modules = offloadByModule(step, answer.regions);
    if (!modules || modules->empty())
        return;
    const auto& offload = answer.plan.offload;
    nlohmann::ordered_json& json = document["offload"];
    json = {{"moved_bytes", offload.moved},
            {"host_bytes", offload.host},
            {"copy_ms", offload.copyMs},
            {"exposed_ms", offload.exposedMs}};
    for (const ModuleOffload& module : *modules) {
        nlohmann::ordered_json& own = json["modules"][std::string(step.moduleFqn(module.module))];
        own = {{"wait", module.when.wait}, {"ahead", module.when.ahead}};
        if (module.when.prefetch != Offload::all)
            own["prefetch"] = module.when.prefetch;
        if (module.when.afterUnpacks > 0)
            own["after_unpacks"] = module.when.afterUnpacks;
        own["moves"] = module.what();
        own["moved_bytes"] = module.copies.bytes;
        own["copy_ms"] = module.copies.copyMs;
        own["exposed_ms"] = module.copies.exposedMs;
    }
}

nlohmann::ordered_json toJson(const PlanAnswer& answer, const StepTrace* step, const ModuleInfo& info, bool exact)
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
    if (const double ms = step != nullptr ? recomputedMs(*step) : 0; ms > 0)
        json["script_recompute_ms"] = ms;
    json["gap"] = plan.gap;
    json["bound_ms"] = plan.boundMs;
    json["solve_ms"] = plan.solveMs;
    json["decisions"] = nlohmann::ordered_json::object();
    for (const auto& [fqn, ratio] : plan.decisions)
        json["decisions"][fqn] = ratio;
    if (step != nullptr)
        addOffload(json, *step, answer);
    json["least_budget_bytes"] = plan.leastBudget;
    json["binding"] = {{"module", plan.binding.module}, {"phase", plan.binding.phase}};
    json["reason"] = plan.reason;
    if (answer.card)
        json["card"] = toJson(*answer.card, *step);
    if (step != nullptr) {
        json["predicted_peak_bytes"] = answer.timeline ? answer.timeline->peak : -1;
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
