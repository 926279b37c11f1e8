// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/views/block_engine.h"

#include "core/predict/predict.h"
#include "core/sac/step_statistics.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

namespace headroom {

BlockEngine::BlockEngine(StepModel model)
    : model_(std::move(model))
    , effects_(model_)
{
}

Result<StepEnginePtr> BlockEngine::create(StepTracePtr trace, std::shared_ptr<Control> control)
{
    const std::shared_ptr<BlockEngine> engine(new BlockEngine(trace));
    engine->control_ = control ? std::move(control) : std::make_shared<Control>();
    Result<ModuleInfo> info = headroom::moduleInfo(*trace);
    if (!info)
        return info.error();
    engine->info_ = std::make_shared<const ModuleInfo>(*std::move(info));
    for (std::uint32_t i = 0; i < trace->modules.size(); ++i) {
        if (trace->strings[trace->modules.type[ModuleId(i)]].ends_with("Block"))
            engine->blocks_.push_back(ModuleId(i));
    }
    return StepEnginePtr(engine);
}

bool BlockEngine::wait(const std::stop_token& stop) const
{
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(control_->solveMs);
    while (!stop.stop_requested() && (control_->hold || std::chrono::steady_clock::now() < end))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return !stop.stop_requested();
}

Result<std::vector<ModuleId>> BlockEngine::freeBlocks(const PlanRequest& request, std::vector<ModuleId>& forced) const
{
    std::vector<ModuleId> open = blocks_;
    for (const auto& [fqn, pin] : request.pins) {
        const auto found = std::find_if(blocks_.begin(), blocks_.end(),
                                        [&, &name = fqn](ModuleId block) { return trace()->moduleFqn(block) == name; });
        if (found == blocks_.end())
            return badInput("cannot pin `" + fqn + "`: it is no block");
        std::erase(open, *found);
        if (pin == Pin::recompute)
            forced.push_back(*found);
    }
    return open;
}

PlanAnswer BlockEngine::planned(const PlanRequest& request, const std::vector<ModuleId>& chosen) const
{
    PlanAnswer step;
    for (const ModuleId module : chosen)
        step.regions.push_back({module, {}});
    step.timeline = std::make_shared<const Timeline>(predict(*trace(), step.regions).value());
    step.effects = effects_.of(step.regions).value();
    for (const ModuleId module : chosen)
        step.plan.decisions.emplace(trace()->moduleFqn(module), discardedShare(step.effects[module.value]));
    step.plan.status = PlanStatus::optimal;
    step.plan.budget = request.budget;
    step.plan.peak = step.timeline->peak;
    step.plan.baselinePeak = recorded()->peak;
    step.plan.recomputeMs = step.timeline->recomputeMs;
    step.plan.boundMs = step.plan.recomputeMs;
    step.plan.stepMs = recorded()->durationMs;
    step.plan.solveMs = 1.1;
    return step;
}

Result<PlanAnswer> BlockEngine::solve(const PlanRequest& request, std::stop_token stop, double limitMs) const
{
    ++control_->solves;
    if (!wait(stop)) {
        ++control_->stopped;
        PlanAnswer none;
        none.plan.status = PlanStatus::stopped;
        return none;
    }
    std::vector<ModuleId> chosen;
    const Result<std::vector<ModuleId>> open = freeBlocks(request, chosen);
    if (!open)
        return open.error();
    Bytes least = recorded()->peak;
    for (std::size_t count = 0; count <= open->size(); ++count) {
        if (count > 0)
            chosen.push_back((*open)[count - 1]);
        PlanAnswer step = planned(request, chosen);
        if (step.plan.peak <= request.budget) {
            if (limitMs < control_->proofMs) {
                step.plan.status = PlanStatus::feasible;
                step.plan.gap = 0.25;
            }
            chosen.insert(chosen.end(), open->begin() + static_cast<std::ptrdiff_t>(count), open->end());
            step.plan.leastBudget = planned(request, chosen).plan.peak;
            return step;
        }
        least = std::min(least, step.plan.peak);
    }
    PlanAnswer none;
    none.effects = effects_.recorded();
    none.plan.status = PlanStatus::infeasible;
    none.plan.budget = request.budget;
    none.plan.baselinePeak = recorded()->peak;
    none.plan.stepMs = recorded()->durationMs;
    none.plan.solveMs = 1.7;
    none.plan.leastBudget = least;
    none.plan.binding = {"Transformer.output", "forward"};
    none.plan.reason = "With every block recomputed the step still takes " + formatBytes(least)
        + ", in the forward of Transformer.output.";
    return none;
}

Result<std::vector<FrontierPoint>> BlockEngine::frontier(const PlanRequest& request, int points, std::stop_token stop,
                                                         const FrontierWatch& grown) const
{
    std::vector<ModuleId> chosen;
    const Result<std::vector<ModuleId>> open = freeBlocks(request, chosen);
    if (!open)
        return open.error();
    std::vector<FrontierPoint> all;
    for (std::size_t count = 0; count == 0 || (count <= open->size() && !stop.stop_requested()); ++count) {
        if (count > 0)
            chosen.push_back((*open)[count - 1]);
        const Timeline timeline = predict(*trace(), planned(request, chosen).regions).value();
        if (all.empty() || timeline.peak < all.back().peak)
            all.push_back({timeline.peak, timeline.recomputeMs, 0});
    }
    std::reverse(all.begin(), all.end());
    if (control_ && control_->holdFrontier) {
        grown({all.front(), all.back()});
        while (control_->holdFrontier && !stop.stop_requested())
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (static_cast<int>(all.size()) > points)
        all.resize(static_cast<std::size_t>(points));
    return all;
}

Result<std::vector<ModuleOption>> BlockEngine::moduleOptions(ModuleId module) const
{
    if (std::ranges::find(blocks_, module) == blocks_.end())
        return std::vector<ModuleOption>();
    std::vector<ModuleOption> options;
    for (const CheckpointPlan& regions : {CheckpointPlan(), CheckpointPlan{{module, {}}}}) {
        const ModuleEffect effect = effects_.of(regions).value()[module.value];
        options.push_back({effect.kept, effect.recomputeMs, regions});
    }
    return options;
}

Result<PlanAnswer> BlockEngine::planForCard(const PlanRequest& request, const CardPtr& card, std::stop_token stop) const
{
    while (control_ && control_->holdCard && !stop.stop_requested())
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::vector<ModuleId> chosen;
    const Result<std::vector<ModuleId>> open = freeBlocks(request, chosen);
    if (!open)
        return open.error();
    PlanAnswer found;
    CardVerdict verdict{card, {}};
    for (std::size_t count = 0; count == 0 || (count <= open->size() && !stop.stop_requested()); ++count) {
        if (count > 0)
            chosen.push_back((*open)[count - 1]);
        found = planned(request, chosen);
        verdict.run = runOnCard(*card, *trace(), *found.timeline);
        if (verdict.run.runs)
            break;
    }
    verdict.leastMemory = leastMemory(*card, *trace(), *found.timeline);
    found.card = std::move(verdict);
    if (!found.runs()) {
        found.plan.status = PlanStatus::infeasible;
        found.plan.leastBudget = found.plan.peak;
        found.timeline = nullptr;
    }
    return found;
}

Result<std::optional<BetterSettings>> BlockEngine::betterSettings(const PlanRequest& request, const PlanAnswer& found,
                                                                  std::stop_token stop) const
{
    Card expandable = *found.card->card;
    expandable.rules.expandableSegments = true;
    const Result<PlanAnswer> other = planForCard(request, std::make_shared<const Card>(expandable), stop);
    const double before = found.plan.recomputeMs;
    if (!other || !other->runs() || (found.runs() && other->plan.recomputeMs >= before))
        return std::optional<BetterSettings>();
    const Plan& plan = other->plan;
    return std::optional(BetterSettings{"expandable_segments:True", plan.recomputeMs, plan.peak,
                                        found.runs() ? before - plan.recomputeMs : 0});
}

} // namespace headroom
