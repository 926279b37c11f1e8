// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/open_step.h"

#include "core/predict/step_model.h"
#include "views/plot/tradeoff_curve.h"

#include <QSignalBlocker>

#include <utility>

namespace headroom {

OpsRequest OpsChoice::request() const
{
    OpsRequest request;
    request.solver = solver;
    request.runtime = runtime;
    if (times)
        request.measuredMs = *times;
    return request;
}

namespace {

class PlannerEngine : public StepEngine
{
public:
    explicit PlannerEngine(StepPlanner planner)
        : planner_(std::move(planner))
    {
    }

    const StepModel& model() const noexcept override { return planner_.model(); }
    const ModuleInfoPtr& moduleInfo() const noexcept override { return planner_.moduleInfo(); }
    const ModuleEffects& effects() const noexcept override { return planner_.effects(); }

    Result<PlanAnswer> solve(const PlanRequest& request, std::stop_token stop, double limitMs) const override
    {
        const SearchLimit::ByClock whileDragged;
        return planner_.solve(request, std::move(stop), limitMs);
    }
    Result<std::vector<FrontierPoint>> frontier(const PlanRequest& request, int points, std::stop_token stop,
                                                const FrontierWatch& grown) const override
    {
        return planner_.frontier(request, points, std::move(stop), grown);
    }
    Result<std::vector<ModuleOption>> moduleOptions(ModuleId module) const override
    {
        return planner_.moduleOptions(module);
    }
    Result<PlanAnswer> planForCard(const PlanRequest& request, const CardPtr& card, std::stop_token stop) const override
    {
        return headroom::planForCard(planner_, request, card, stop);
    }
    Result<std::optional<BetterSettings>> betterSettings(const PlanRequest& request, const PlanAnswer& found,
                                                         std::stop_token stop) const override
    {
        return headroom::betterSettings(planner_, request, found, stop);
    }

private:
    StepPlanner planner_;
};

/// The engine of a step that is not plannable(): its only plan changes nothing.
class ViewEngine : public StepEngine
{
public:
    explicit ViewEngine(StepModel model)
        : model_(std::move(model))
        , moduleInfo_(std::make_shared<const ModuleInfo>())
        , effects_(model_)
    {
    }

    const StepModel& model() const noexcept override { return model_; }
    const ModuleInfoPtr& moduleInfo() const noexcept override { return moduleInfo_; }
    const ModuleEffects& effects() const noexcept override { return effects_; }

    Result<PlanAnswer> solve(const PlanRequest& request, std::stop_token, double) const override
    {
        PlanAnswer found;
        found.timeline = recorded();
        found.effects = effects_.recorded();
        found.plan.status = PlanStatus::optimal;
        found.plan.leastBudget = recorded()->peak;
        PlanAnswer answer = answerTo(request, model_, std::move(found));
        if (!answer.fits())
            answer.plan.reason = plannable(*trace()).error().message;
        return answer;
    }
    Result<std::vector<FrontierPoint>> frontier(const PlanRequest&, int, std::stop_token,
                                                const FrontierWatch&) const override
    {
        return std::vector{FrontierPoint{recorded()->peak, 0, 0}};
    }
    Result<std::vector<ModuleOption>> moduleOptions(ModuleId) const override { return std::vector<ModuleOption>(); }
    Result<PlanAnswer> planForCard(const PlanRequest&, const CardPtr&, std::stop_token) const override
    {
        return plannable(*trace()).error();
    }
    Result<std::optional<BetterSettings>> betterSettings(const PlanRequest&, const PlanAnswer&,
                                                         std::stop_token) const override
    {
        return plannable(*trace()).error();
    }

private:
    StepModel model_;
    ModuleInfoPtr moduleInfo_;
    ModuleEffects effects_;
};

} // namespace

Result<StepEnginePtr> makePlannerEngine(StepTracePtr trace)
{
    // A step that was recorded under a policy cannot be planned either, but StepPlanner knows its modules.
    if (!plannable(*trace) && trace->info.policy.empty())
        return StepEnginePtr(std::make_shared<const ViewEngine>(std::move(trace)));
    Result<StepPlanner> planner = StepPlanner::create(std::move(trace));
    if (!planner)
        return planner.error();
    return StepEnginePtr(std::make_shared<const PlannerEngine>(*std::move(planner)));
}

ModuleId moduleNamed(const StepTrace& trace, const std::string& name)
{
    if (name.empty() || trace.modules.size() == 0)
        return {};
    const std::string fromRoot = std::string(trace.moduleFqn(ModuleId(0))) + '.' + name;
    for (std::uint32_t i = 0; i < trace.modules.size(); ++i) {
        const std::string_view candidate = trace.moduleFqn(ModuleId(i));
        if (candidate == name || candidate == fromRoot)
            return ModuleId(i);
    }
    return {};
}

Bytes firstBudget(const StepTrace& trace, Bytes recordedPeak, bool cardIsKnown)
{
    if (cardIsKnown || !plannable(trace))
        return recordedPeak;
    const Bytes wanted = recordedPeak / 10 * 7;
    const Bytes step = wanted >= 2 * GiB ? 64 * MiB : wanted >= 64 * MiB ? MiB : allocationGranularity;
    return wanted / step * step;
}

ModuleId firstCandidate(const ModuleInfo& info, const StepTrace& trace)
{
    ModuleId leaf;
    for (std::uint32_t i = 1; i < trace.modules.size(); ++i) {
        const ModuleStats* stats = findModule(info, trace.moduleFqn(ModuleId(i)));
        if (stats && !stats->isLeaf)
            return ModuleId(i);
        if (stats && !leaf.valid())
            leaf = ModuleId(i);
    }
    return leaf;
}

CardPtr cardOf(const CardChoice& choice, const StepTrace& step)
{
    const std::string& name = choice.card.empty() ? step.info.gpu : choice.card;
    if (name == CardChoice::none)
        return nullptr;
    const Result<Card> card = cardFor(name, step, choice.settings);
    return card ? std::make_shared<const Card>(*card) : nullptr;
}

UndoStep::UndoStep(const QString& text, std::function<void()> redo, std::function<void()> undo, int kind)
    : QUndoCommand(text)
    , redo_(std::move(redo))
    , undo_(std::move(undo))
    , kind_(kind)
{
}

UndoStep::UndoStep(const UndoStep& done)
    : QUndoCommand(done.text())
    , redo_(done.redo_)
    , undo_(done.undo_)
    , kind_(done.kind_)
    , done_(true)
{
}

bool UndoStep::mergeWith(const QUndoCommand* later)
{
    if (kind_ != typing)
        return false;
    redo_ = static_cast<const UndoStep*>(later)->redo_;
    return true;
}

void UndoStep::redo()
{
    if (!std::exchange(done_, false))
        redo_();
}

// QUndoStack forgets its oldest steps only by their number, which is set while the stack is empty.
void forgetOldSteps(QUndoStack& stack, int most)
{
    const auto at = [&](int index) { return static_cast<const UndoStep*>(stack.command(index)); };
    int first = stack.index();
    for (int held = 0; first > 0 && (at(first - 1)->id() != UndoStep::step || ++held <= most);)
        --first;
    if (first == 0)
        return;
    const int clean = stack.cleanIndex() - first;
    std::vector<std::unique_ptr<UndoStep>> kept;
    for (int i = first; i < stack.index(); ++i)
        kept.push_back(std::make_unique<UndoStep>(*at(i)));
    const QSignalBlocker quiet(stack); // the caller pushes the next step, and the stack tells its state
    stack.clear();
    if (clean != 0)
        stack.resetClean();
    for (auto& change : kept) {
        stack.push(change.release());
        if (stack.index() == clean)
            stack.setClean();
    }
}

} // namespace headroom
