// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/step_planner.h"

#include "core/base/elapsed.h"
#include "core/base/try.h"
#include "core/plan/plan_units.h"
#include "core/policy/part_arcs.h"
#include "core/policy/part_tree.h"
#include "core/policy/policy_maker.h"
#include "core/policy/shard_options.h"
#include "core/policy/step_solver.h"
#include "core/sac/step_statistics.h"
#include "core/trace/out_of_memory.h"
#include "core/trace/remarks.h"

#include <algorithm>
#include <map>
#include <mutex>

namespace headroom {

namespace {

/// Whether one StepSolver solves both requests.
bool haveSameOptions(const PlanRequest& a, const PlanRequest& b)
{
    return a.worldSize == b.worldSize && a.acUnits == b.acUnits && a.fsdpUnits == b.fsdpUnits && a.pins == b.pins
        && a.recompute == b.recompute;
}

} // namespace

struct StepPlanner::Model
{
    Model(StepModel recorded, PlanModules planned)
        : step(std::move(recorded))
        , effects(step)
        , events(*step.trace())
        , modules(std::move(planned))
    {
    }

    StepModel step;
    ModuleEffects effects;
    StorageEvents events;
    PlanModules modules;

    /// The options of a request. Those of the latest request are kept, since dragging a budget needs the same ones
    /// again and again. One thread at a time makes options while others wait. Error: stoppedMeasuring().
    Result<StepSolverPtr> options(const PlanRequest& request, const std::stop_token& stop) const;
    /// options() of a request that the step can be planned for. Errors: as StepPlanner::solve().
    Result<StepSolverPtr> checkedOptions(const PlanRequest& request, const std::stop_token& stop) const;
    Result<PlanAnswer> solve(const PlanRequest& request, const std::stop_token& stop, double limitMs) const;
    /// Why no plan fits: whyStepDoesNotFit(), and what else the step's modules say.
    Result<std::string> whyInfeasible(const Plan& plan, const StepSolver& options, const PlanRequest& request,
                                      const std::stop_token& stop) const;

    /// The modules that the request allows to checkpoint.
    Result<PartTree> parts(const PlanRequest& request) const;

private:
    Result<StepSolverPtr> makeOptions(const PlanRequest& request, const std::stop_token& stop) const;

    mutable std::mutex mutex_;
    mutable Turns turns_;
    mutable PlanRequest latestRequest_;
    mutable StepSolverPtr latestOptions_;
};

Result<StepSolverPtr> StepPlanner::Model::options(const PlanRequest& request, const std::stop_token& stop) const
{
    std::unique_lock lock(mutex_);
    if (!turns_.wait(lock, stop))
        return stoppedMeasuring();
    if (latestOptions_ != nullptr && haveSameOptions(latestRequest_, request))
        return latestOptions_;
    Result<StepSolverPtr> found = turns_.make(lock, [&] { return makeOptions(request, stop); });
    if (found) {
        latestRequest_ = request;
        latestOptions_ = *found;
    }
    return found;
}

Result<StepSolverPtr> StepPlanner::Model::checkedOptions(const PlanRequest& request, const std::stop_token& stop) const
{
    RETURN_IF_ERROR(plannable(*step.trace()));
    if (request.mayOffload())
        RETURN_IF_ERROR(offloadable(step));
    ASSIGN_OR_RETURN(StepSolverPtr found, options(request, stop));
    const Bytes pinned = found->minTimePlan().timeline->hostBytes;
    if (request.hostMemory > 0 && pinned > request.hostMemory)
        return Error{ErrorKind::infeasible,
                     "the modules that are pinned to be offloaded take " + formatBytes(pinned)
                         + " of pinned host memory, " + formatBytes(request.hostMemory)
                         + " are allowed: pin fewer, or allow more host memory"};
    return found;
}

Result<PartTree> StepPlanner::Model::parts(const PlanRequest& request) const
{
    ASSIGN_OR_RETURN(const std::vector<PlanUnit> units, planUnits(modules, request));
    PartTree tree = PartTree::create(step, modules, units);
    tree.recomputes = request.recompute;
    return tree;
}

Result<StepSolverPtr> StepPlanner::Model::makeOptions(const PlanRequest& request, const std::stop_token& stop) const
{
    RETURN_IF_ERROR(checkWorldSize(request));
    ASSIGN_OR_RETURN(const PartTree tree, parts(request));
    return StepSolver::create(step, events, tree, request.worldSize, stop);
}

Result<std::string> StepPlanner::Model::whyInfeasible(const Plan& plan, const StepSolver& options,
                                                      const PlanRequest& request, const std::stop_token& stop) const
{
    Bytes leastWithoutWishes = 0;
    if (!request.pins.empty() || !request.acUnits.empty() || !request.recompute) {
        PlanRequest free = request;
        free.recompute = true;
        free.pins.clear();
        free.acUnits.clear();
        const Result<StepSolverPtr> wider = makeOptions(free, stop);
        if (!wider && !stop.stop_requested())
            return wider.error();
        leastWithoutWishes = wider ? (*wider)->minMemoryPlan().timeline->peak : 0;
    }
    if (!request.recompute)
        return "No plan fits " + formatBytes(plan.budget)
            + " without recomputation; with recomputation alone plans exist from " + formatBytes(leastWithoutWishes)
            + " on.";
    std::string reason = whyStepDoesNotFit(*step.trace(), plan, *options.minMemoryPlan().timeline, leastWithoutWishes);
    const auto leftOut = std::ranges::find_if(modules.info->stats, [](const ModuleStats& stats) {
        return !stats.obstacle.empty() && hasSomethingToGive(stats);
    });
    if (leftOut != modules.info->stats.end())
        reason += " " + leftOut->fqn + " cannot be checkpointed: " + leftOut->obstacle + ".";
    if (const std::string note = noteOnCarriedGraph(*step.trace()); !note.empty())
        reason += " Beside that, " + note + ".";
    return reason;
}

bool hasSomethingToGive(const ModuleStats& stats)
{
    return !stats.isLeaf && (stats.activationForward > 0 || stats.saves);
}

Status plannable(const StepTrace& trace)
{
    if (!trace.info.policy.empty())
        return badInput("this step was recorded under the policy " + trace.info.policy
                        + ", and a plan would recompute modules that are checkpointed already: plan the same step "
                          "recorded without --policy");
    if (trace.info.source == "snapshot")
        return badInput("a memory snapshot does not tell what autograd saves for backward, so that no plan is "
                        "possible: record the step with torch-headroom record");
    if (trace.info.measured)
        return badInput(
            "a measured step does not tell what autograd alone holds, so that no plan is possible: plan the same step "
            "recorded with --device sim, with the measured times from torch-headroom calibrate");
    if (!trace.info.setting("compiled autograd").empty())
        return badInput("compiled autograd runs the backward of this step as a separate graph, and the effect of a "
                        "checkpoint on that graph is not known, so that no plan is possible: record the step without "
                        "compiled autograd (torch._dynamo.config.compiled_autograd), or let PyTorch's partitioner "
                        "recompute with --activation-memory-budget");
    return checkWhole(trace, "no plan is possible");
}

Status offloadable(const StepModel& model)
{
    if (!hasClock(*model.trace()))
        return badInput("the step tells too little about ops to time copies to the host (the shapes are missing, as in "
                        "a file of an older version): record the step again to plan with offload");
    const std::vector<CheckpointObstacle>& obstacles = model.index().obstaclesToOffload;
    if (!obstacles.empty() && std::ranges::find(obstacles, CheckpointObstacle::none) == obstacles.end())
        return badInput("no module of the step can be offloaded, since " + std::string(obstacleText(obstacles.front()))
                        + ": plan without offload");
    return {};
}

StepPlanner::StepPlanner(std::shared_ptr<const Model> model)
    : model_(std::move(model))
{
}

Result<ModuleInfo> modulesToPlan(const StepModel& model)
{
    Result<ModuleInfo> info = moduleInfo(*model.trace());
    if (!info)
        return info;
    const ModuleNames names = moduleNames(*model.trace());
    for (ModuleStats& stats : info->stats) {
        const ModuleId module = names.at(stats.fqn);
        stats.obstacle = obstacleText(model.index().obstacles[module.value]);
        stats.isWholeOnly = model.isWholeOnly(module);
        stats.obstacleToOffload = stats.isWholeOnly
            ? "ops of the module run inside of tensor subclasses, and such tensors stay on the device"
            : obstacleText(model.index().obstaclesToOffload[module.value]);
        stats.saves = std::ranges::any_of(model.index().callsOf[module.value],
                                          [&](CallId call) { return model.index().calls[call.value].saves(); });
    }
    return info;
}

Result<StepPlanner> StepPlanner::create(StepTracePtr trace)
{
    StepModel model(std::move(trace));
    ASSIGN_OR_RETURN(ModuleInfo info, modulesToPlan(model));
    ASSIGN_OR_RETURN(PlanModules modules, PlanModules::create(std::make_shared<const ModuleInfo>(std::move(info))));
    return StepPlanner(std::make_shared<const Model>(std::move(model), std::move(modules)));
}

Result<PlanAnswer> StepPlanner::solve(const PlanRequest& request, std::stop_token stop, double limitMs) const
{
    const auto begin = std::chrono::steady_clock::now();
    Result<PlanAnswer> answer = model_->solve(request, stop, limitMs);
    if (!answer && stop.stop_requested()) // before anything was found
        answer = PlanAnswer();
    if (!answer)
        return answer;
    if (stop.stop_requested())
        answer->plan.status = PlanStatus::stopped;
    answer->plan.solveMs = elapsedMs(begin);
    return answer;
}

Result<PlanAnswer> StepPlanner::Model::solve(const PlanRequest& request, const std::stop_token& stop,
                                             double limitMs) const
{
    if (request.budget < 1)
        return badInput("budget " + std::to_string(request.budget) + " B: expected 1 B or more");
    ASSIGN_OR_RETURN(const StepSolverPtr options, checkedOptions(request, stop));
    PlanAnswer found = options->minMemoryPlan();
    Bytes least = found.timeline->peak;
    bool fits = least <= request.budget;
    if (fits && !request.offload) {
        ASSIGN_OR_RETURN(found, options->best(request.budget, stop, limitMs));
    }
    if (request.offload) {
        fits = false;
        ASSIGN_OR_RETURN(std::optional<PlanAnswer> offloaded,
                         options->bestWithOffload(request.budget, request.hostMemory, stop, limitMs));
        if (offloaded) {
            found = *std::move(offloaded);
            fits = true;
            least = std::min(least, found.timeline->peak);
        }
        if (request.hostMemory == 0) { // what a limit of host memory leaves is not known
            ASSIGN_OR_RETURN(const Bytes possible, options->leastWithOffload(stop));
            least = std::min(least, possible);
        }
    }
    found.effects = effects.recorded();
    if (fits) {
        ASSIGN_OR_RETURN(found.effects, effects.of(found.regions));
    }
    found.plan.leastBudget = least;
    PlanAnswer answer = answerTo(request, step, std::move(found));
    if (!answer.fits()) {
        ASSIGN_OR_RETURN(answer.plan.reason, whyInfeasible(answer.plan, *options, request, stop));
        if (request.offload && request.hostMemory == 0)
            answer.plan.reason += " With offload" + std::string(request.recompute ? "" : " alone")
                + ", plans exist from " + formatBytes(least) + " on.";
        else if (request.offload)
            answer.plan.reason
                += " No plan with at most " + formatBytes(request.hostMemory) + " of pinned host memory was found.";
    }
    return answer;
}

Result<PlanAnswer> StepPlanner::withRegions(PlanAnswer answer, CheckpointPlan regions) const
{
    ASSIGN_OR_RETURN(Timeline timeline, model().predict(regions));
    ASSIGN_OR_RETURN(std::vector<ModuleEffect> changed, effects().of(regions));
    replacePlan(answer, model(), std::move(regions),
                std::make_shared<const Timeline>(perRank(std::move(timeline), answer.plan.worldSize)),
                std::move(changed));
    return answer;
}

Result<std::vector<FrontierPoint>> StepPlanner::frontier(const PlanRequest& request, int points, std::stop_token stop,
                                                         const FrontierWatch& grown) const
{
    const Result<StepSolverPtr> options = model_->checkedOptions(request, stop);
    Result<std::vector<FrontierPoint>> found
        = options ? breakPoints(**options, request, points, stop, grown) : options.error();
    if (!found && stop.stop_requested())
        found = std::vector<FrontierPoint>();
    return found;
}

Result<std::vector<ModuleOption>> StepPlanner::moduleOptions(ModuleId module) const
{
    RETURN_IF_ERROR(plannable(*trace()));
    ASSIGN_OR_RETURN(const PartTree tree, model_->parts({}));
    return headroom::moduleOptions(model_->step, model_->events, effects(), tree, module);
}

const StepModel& StepPlanner::model() const noexcept
{
    return model_->step;
}

const StepTracePtr& StepPlanner::trace() const noexcept
{
    return model().trace();
}

const ModuleInfoPtr& StepPlanner::moduleInfo() const noexcept
{
    return model_->modules.info;
}

const TimelinePtr& StepPlanner::recorded() const noexcept
{
    return model().recorded();
}

const ModuleEffects& StepPlanner::effects() const noexcept
{
    return model_->effects;
}

namespace {

Bytes bytesOf(const Timeline& timeline, Category category)
{
    return timeline.atPeak[static_cast<std::size_t>(category)];
}

/// "optimizer state 1.00 GiB, activation 512 MiB": the largest three categories.
std::string largestParts(const Timeline& timeline)
{
    std::vector<std::pair<Bytes, std::size_t>> parts;
    for (std::size_t category = 0; category < categoryCount; ++category)
        if (timeline.atPeak[category] > 0)
            parts.emplace_back(timeline.atPeak[category], category);
    std::ranges::sort(parts, std::greater<>());
    std::string text;
    for (std::size_t i = 0; i < std::min<std::size_t>(parts.size(), 3); ++i)
        text += (i == 0 ? "" : ", ") + std::string(categoryName(static_cast<Category>(parts[i].second))) + " "
            + formatBytes(parts[i].first);
    return text;
}

/// "; most activations are of Net.output (512 MiB) and Net.layers.0 (96 MiB)": the modules that made them.
std::string largestModules(const StepTrace& trace, const Timeline& timeline)
{
    const std::size_t count = timeline.peakChange == Timeline::npos ? 0 : timeline.peakChange + 1;
    std::map<ModuleId, Bytes> byModule;
    for (const LiveBlock& block : liveBlocks(trace, timeline, count))
        if (block.category == Category::activation && block.creator.valid())
            byModule[trace.ops.module[block.creator]] += block.bytes;
    std::vector<std::pair<Bytes, ModuleId>> largest;
    for (const auto& [module, bytes] : byModule)
        largest.emplace_back(bytes, module);
    std::ranges::sort(largest, std::greater<>());
    std::string text;
    for (std::size_t i = 0; i < std::min<std::size_t>(largest.size(), 2); ++i)
        text += (i == 0 ? "; most activations alive then are of " : " and ")
            + std::string(trace.moduleFqn(largest[i].second)) + " (" + formatBytes(largest[i].first) + ")";
    return text;
}

/// Whether graphs of torch.compile ran: their partitioner decides what they keep.
bool isCompiled(const StepInfo& info)
{
    return std::ranges::any_of(info.settings, [](const auto& setting) { return setting.first == "compiled graphs"; });
}

/// Bytes of temporary memory at the peak that an earlier backward pass or step left: gradients that are not reduced
/// yet.
Bytes waitingGradients(const StepTrace& trace, const Timeline& timeline)
{
    std::vector<bool> alive(trace.storages.size(), false);
    std::vector<bool> waits(trace.storages.size(), false);
    for (std::uint32_t event = 0; event < trace.events.size(); ++event) {
        const EventKind kind = trace.events.kind[EventIndex(event)];
        const std::uint32_t a = trace.events.a[EventIndex(event)];
        if (kind == EventKind::alloc || kind == EventKind::free)
            alive[a] = kind == EventKind::alloc;
        else if (kind == EventKind::mark
                 && (a == static_cast<std::uint32_t>(Mark::stepBegin)
                     || a == static_cast<std::uint32_t>(Mark::backwardEnd)))
            for (std::size_t storage = 0; storage < alive.size(); ++storage)
                waits[storage] = waits[storage] || alive[storage];
    }
    const std::size_t count = timeline.peakChange == Timeline::npos ? 0 : timeline.peakChange + 1;
    Bytes bytes = 0;
    for (const LiveBlock& block : liveBlocks(trace, timeline, count))
        if (block.category == Category::temporary && waits[block.storage.value])
            bytes += block.bytes;
    return bytes;
}

std::string whatWouldHelp(const StepTrace& trace, const Plan& plan, const Timeline& least, Bytes leastWithoutWishes)
{
    if (leastWithoutWishes > 0 && leastWithoutWishes <= plan.budget)
        return "without pins and AC units plans exist from " + formatBytes(leastWithoutWishes) + " on";
    if (isCompiled(trace.info))
        return "what runs inside of a graph of torch.compile is for PyTorch's partitioner to recompute, as `python -m "
               "torch_headroom.record --activation-memory-budget 0.25,0.5,0.75` with the script shows: a step and a "
               "peak for each fraction";
    const Bytes gradients = bytesOf(least, Category::gradient); // a rank's own are at most of its parameters' size
    const bool areWhole = trace.info.distributed && gradients > 2 * bytesOf(least, Category::parameter);
    const Bytes whole
        = bytesOf(least, Category::unshardedGradient) + waitingGradients(trace, least) + (areWhole ? gradients : 0);
    const Bytes state = bytesOf(least, Category::parameter) + bytesOf(least, Category::gradient)
        + bytesOf(least, Category::optimizer);
    const Bytes kept = state + whole - (areWhole ? gradients : 0);
    if (kept > least.peak / 2 && whole > kept / 2)
        return "most of that is gradients of whole parameters that wait for the reduction over the ranks (no_sync, "
               "set_requires_gradient_sync(False)): reduce gradients in each backward";
    if (state > least.peak / 2)
        return "most of that is state of the model: a larger world size, an optimizer with less state or parameters in "
               "a smaller dtype would lower the peak";
    return "a smaller batch or a shorter sequence would lower the peak";
}

} // namespace

std::string whyStepDoesNotFit(const StepTrace& trace, const Plan& plan, const Timeline& least, Bytes leastWithoutWishes)
{
    std::string where;
    if (!plan.binding.module.empty())
        where = " in " + plan.binding.module;
    if (!plan.binding.phase.empty())
        where += " (" + plan.binding.phase + ")";
    return "No plan fits " + formatBytes(plan.budget) + ": with all recomputed that may be, the step still takes "
        + formatBytes(least.peak) + " (" + groupedDigits(least.peak) + " B)" + where + ", of which "
        + largestParts(least) + largestModules(trace, least) + "; "
        + whatWouldHelp(trace, plan, least, leastWithoutWishes) + ".";
}

} // namespace headroom
