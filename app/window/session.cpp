// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/session.h"

#include <utility>

namespace headroom {

Session::Session(QObject* parent)
    : QObject(parent)
{
    connect(&undo_, &QUndoStack::cleanChanged, this, [this] { Q_EMIT dirtyChanged(dirty()); });
}

void Session::pushChange(const QString& text, std::function<void()> redo, std::function<void()> undo, int kind)
{
    undo_.push(new UndoStep(text, std::move(redo), std::move(undo), kind));
}

void Session::open(const OpenStepPtr& step, Bytes budget, PlanMode mode, const std::string& card,
                   const OffloadChoice& offload)
{
    Q_EMIT stepAboutToChange();
    undo_.clear();
    step_ = step;
    peakBefore_ = 0;
    request_ = {};
    request_.budget = budget;
    offload_ = offload;
    askForOffload();
    mode_ = mode;
    cardChoice_ = {card, {}};
    forgetAnswers();
    findCard();
    selected_ = {};
    Q_EMIT stepChanged();
    if (isOpen())
        Q_EMIT requestChanged();
}

void Session::setComparison(const StepComparisonPtr& comparison, const PeakTablesPtr& peaks, const TimelinePtr& beside,
                            const QString& file, const std::optional<FileStamp>& stamp)
{
    if (comparison == comparison_ && peaks == peaks_)
        return;
    comparison_ = comparison;
    peaks_ = peaks;
    beside_ = beside;
    comparedFile_ = file;
    comparedStamp_ = stamp;
    Q_EMIT comparisonChanged();
}

void Session::close()
{
    open(nullptr, 0);
}

void Session::replaceStep(const OpenStepPtr& step, const QString& text, const std::optional<std::string>& card)
{
    if (!isOpen())
        return;
    forgetOldSteps(undo_, mostUndoneSteps - 1);
    pushChange(
        text,
        [this, step, pins = request_.pins, card = card.value_or(cardChoice_.card)] { applyStep(step, pins, card); },
        [this, step = step_, pins = request_.pins, card = cardChoice_.card] { applyStep(step, pins, card); },
        UndoStep::step);
}

void Session::applyStep(const OpenStepPtr& step, const std::map<std::string, Pin>& pins, const std::string& card)
{
    Q_EMIT stepAboutToChange();
    const std::string selected = selectedFqn();
    peakBefore_ = recordedPeak();
    step_ = step;
    askForOffload();
    request_.pins.clear();
    for (const auto& [fqn, pin] : pins) {
        if (moduleNamed(step_->trace(), fqn).valid() && (pin != Pin::offload || mayOffload()))
            request_.pins.emplace(fqn, pin);
    }
    cardChoice_.card = card;
    forgetAnswers();
    findCard();
    selected_ = moduleNamed(step_->trace(), selected);
    Q_EMIT stepChanged();
    Q_EMIT pinsChanged();
    Q_EMIT requestChanged();
}

void Session::forgetAnswers()
{
    answer_.reset();
    frontier_.reset();
    recomputeFrontier_.reset();
    byOp_ = {};
    cardPlan_.reset();
    cardPoints_.reset();
    options_.reset();
    opsChoice_.times.reset(); // times of the previous step
    opsChoice_.timesFile.clear();
    dragStart_.reset();
}

std::optional<Pin> Session::pin(const std::string& fqn) const
{
    const auto found = request_.pins.find(fqn);
    return found == request_.pins.end() ? std::nullopt : std::optional(found->second);
}

void Session::dragBudget(Bytes budget)
{
    if (!isOpen())
        return;
    if (!dragStart_)
        dragStart_ = request_.budget;
    if (budget == *dragStart_)
        dragStart_.reset(); // the drag is back where it began, as after Esc
    applyBudget(budget);
}

void Session::commitBudget(Bytes budget)
{
    if (!isOpen())
        return;
    const Bytes from = std::exchange(dragStart_, std::nullopt).value_or(request_.budget);
    if (from == budget)
        applyBudget(budget);
    else
        pushChange(tr("budget %1").arg(QString::fromStdString(formatBytes(budget))), &Session::setBudget, from, budget);
}

void Session::suggestBudget(Bytes budget)
{
    if (isOpen() && undo_.count() == 0)
        setBudget(budget);
}

void Session::setBudget(Bytes budget)
{
    dragStart_.reset();
    applyBudget(budget);
}

void Session::applyBudget(Bytes budget)
{
    if (request_.budget == budget)
        return;
    request_.budget = budget;
    Q_EMIT budgetChanged(budget);
    Q_EMIT requestChanged();
}

void Session::setPin(const std::string& fqn, std::optional<Pin> pin)
{
    if (!isOpen() || pin == this->pin(fqn))
        return;
    std::map<std::string, Pin> pins = request_.pins;
    if (pin)
        pins.insert_or_assign(fqn, *pin);
    else
        pins.erase(fqn);
    const QString name = QString::fromStdString(fqn);
    const QString text = !pin  ? tr("leave %1 to the plan")
        : *pin == Pin::save    ? tr("keep %1")
        : *pin == Pin::offload ? tr("offload %1")
                               : tr("recompute %1");
    pushChange(text.arg(name), &Session::applyPins, request_.pins, std::move(pins));
}

void Session::clearPins()
{
    if (hasPins())
        pushChange(tr("leave all modules to the plan"), &Session::applyPins, request_.pins, {});
}

void Session::applyPins(const std::map<std::string, Pin>& pins)
{
    request_.pins = pins;
    cardPlan_.reset();
    Q_EMIT pinsChanged();
    Q_EMIT requestChanged();
}

void Session::setWorldSize(int worldSize)
{
    if (!isOpen() || worldSize < 1 || worldSize == request_.worldSize)
        return;
    std::map<std::string, Pin> pins = request_.pins;
    if (worldSize > 1) // sharded steps are not planned with offload
        std::erase_if(pins, [](const auto& pin) { return pin.second == Pin::offload; });
    const auto set = [this](int ranks, const std::map<std::string, Pin>& withPins) {
        if (request_.pins != withPins) {
            request_.pins = withPins;
            Q_EMIT pinsChanged();
        }
        applyWorldSize(ranks);
    };
    pushChange(
        worldSize == 1 ? tr("one GPU") : tr("%1 GPUs").arg(worldSize), [=] { set(worldSize, pins); },
        [=, ranks = request_.worldSize, before = request_.pins] { set(ranks, before); });
}

void Session::applyWorldSize(int worldSize)
{
    request_.worldSize = worldSize;
    askForOffload();
    Q_EMIT worldSizeChanged(worldSize);
    Q_EMIT offloadChanged();
    Q_EMIT requestChanged();
}

bool Session::mayOffload() const
{
    return isOpen() && request_.worldSize == 1 && step_->engine->offloadable();
}

/// Asks for plans with offload if they are chosen and possible.
void Session::askForOffload()
{
    request_.offload = offload_.allowed && mayOffload();
    request_.hostMemory = request_.offload ? offload_.hostMemory : 0;
    byOp_.hosted.reset();
    byOp_.hostedIsFinal = false;
}

void Session::setOffload(const OffloadChoice& choice)
{
    if (isOpen() && choice != offload_)
        pushChange(!choice.allowed         ? tr("no offload")
                       : !offload_.allowed ? tr("offload to the host")
                       : choice.hostMemory > 0
                       ? tr("%1 of host memory").arg(QString::fromStdString(formatBytes(choice.hostMemory)))
                       : tr("any host memory"),
                   &Session::applyOffload, offload_, choice);
}

void Session::applyOffload(const OffloadChoice& choice)
{
    offload_ = choice;
    askForOffload();
    cardPlan_.reset();
    Q_EMIT offloadChanged();
    Q_EMIT frontierChanged();
    Q_EMIT requestChanged();
}

void Session::setAnswer(const PlanAnswerPtr& answer)
{
    answer_ = answer;
    Q_EMIT answerChanged();
}

TimelinePtr Session::shownTimeline() const
{
    return answer_ ? answer_->shown().timeline : nullptr;
}

bool Session::feasible() const noexcept
{
    return answer_ && answer_->fits();
}

bool Session::budgetSeemsEnough() const
{
    return answerIsCurrent() ? feasible() : leastBudget() == 0 || budget() >= leastBudget();
}

bool Session::answerIsForSettings() const
{
    if (!answer_ || answer_->mode() != mode_)
        return false;
    PlanRequest request = answer_->request;
    request.budget = request_.budget;
    if (mode_ == PlanMode::ops) // plans by op depend on neither pins nor GPUs
        return request.offload == request_.offload && request.hostMemory == request_.hostMemory
            && answer_->ops->frontier == byOp_.frontier;
    return request == request_;
}

void Session::setFrontier(const FrontierPtr& frontier, const FrontierPtr& recompute, bool isFinal)
{
    frontier_ = frontier;
    recomputeFrontier_ = recompute;
    frontierGrows_ = !isFinal;
    Q_EMIT frontierChanged();
}

Bytes Session::leastBudget() const
{
    const Bytes ofAnswer = answer_ && answer_->mode() == mode_ ? answer_->plan.leastBudget : 0;
    if (!frontier() || frontier()->empty() || (answerIsCurrent() && !feasible()))
        return ofAnswer;
    // While the frontier grows, an answer may know a leaner plan.
    const Bytes least = frontier()->front().peak;
    return answerIsForSettings() && ofAnswer > 0 ? std::min(least, ofAnswer) : least;
}

Bytes Session::recordedPeak() const noexcept
{
    return isOpen() ? step_->engine->recorded()->peak : 0;
}

double Session::msPerGiB() const
{
    return feasible() ? answer_->plan.msPerGiB : 0;
}

void Session::setOptions(const OptionsOfModulePtr& options)
{
    if (options && options->module != selected_)
        return; // another module was selected meanwhile
    options_ = options;
    Q_EMIT optionsChanged();
}

void Session::select(ModuleId module)
{
    if (selected_ == module)
        return;
    selected_ = module;
    options_.reset();
    Q_EMIT selectionChanged();
}

std::string Session::selectedFqn() const
{
    return isOpen() ? std::string(step_->trace().moduleFqn(selected_)) : std::string();
}

bool Session::dirty() const
{
    return isOpen() && !undo_.isClean();
}

void Session::markExported()
{
    undo_.setClean();
}

void Session::setOpsChoice(const OpsChoice& choice)
{
    if (isOpen() && !(choice == opsChoice_))
        pushChange(tr("how ops are planned"), &Session::applyOpsChoice, opsChoice_, choice);
}

void Session::applyOpsChoice(const OpsChoice& choice)
{
    opsChoice_ = choice;
    // The times are of the step at another size.
    if (opsChoice_.times && opsChoice_.times->size() != step_->trace().ops.size()) {
        opsChoice_.times.reset();
        opsChoice_.timesFile.clear();
    }
    byOp_ = {};
    Q_EMIT opsChoiceChanged();
    Q_EMIT frontierChanged();
    if (mode_ == PlanMode::ops)
        Q_EMIT requestChanged();
}

void Session::setMode(PlanMode mode)
{
    if (isOpen() && mode != mode_)
        pushChange(mode == PlanMode::ops ? tr("planning by op") : tr("planning by module"), &Session::applyMode, mode_,
                   mode);
}

void Session::applyMode(PlanMode mode)
{
    mode_ = mode;
    Q_EMIT modeChanged(mode);
    Q_EMIT frontierChanged();
    if (mode == PlanMode::ops && !byOp_.whyNot.isEmpty())
        refuseOps(byOp_.whyNot); // no answer will come
    else
        Q_EMIT requestChanged();
}

const FrontierPtr& Session::frontier() const noexcept
{
    return mode_ != PlanMode::ops ? frontier_ : byOp_.hosted ? byOp_.hosted : byOp_.points;
}

bool Session::frontierIsFinal() const noexcept
{
    if (mode_ == PlanMode::modules)
        return frontier_ && !frontierGrows_;
    return byOp_.frontier && byOp_.frontier->complete && (byOp_.hostedIsFinal || !request_.offload);
}

void Session::setOpsFrontier(const OpsFrontierPtr& frontier)
{
    byOp_.frontier = frontier;
    byOp_.points = std::make_shared<const std::vector<FrontierPoint>>(frontier->points());
    Q_EMIT frontierChanged();
    if (mode_ == PlanMode::ops)
        Q_EMIT requestChanged(); // answers are plans of the frontier
}

void Session::setHostedFrontier(const FrontierPtr& frontier, bool isFinal)
{
    byOp_.hosted = frontier;
    byOp_.hostedIsFinal = isFinal;
    Q_EMIT frontierChanged();
}

void Session::refuseOps(const QString& why)
{
    byOp_.whyNot = why;
    if (mode_ != PlanMode::ops)
        return;
    answer_.reset();
    Q_EMIT answerChanged();
}

void Session::setOpsPolicy(const OpsPolicyPtr& policy)
{
    byOp_.policy = policy;
    Q_EMIT opsPolicyChanged();
}

const Policy* Session::policyOfOps() const noexcept
{
    const bool current = feasible() && byOp_.policy && byOp_.policy->of == answer_->ops && byOp_.policy->whyNot.empty();
    return current ? &byOp_.policy->policy : nullptr;
}

std::optional<Policy> Session::policy() const
{
    const Policy* ofOps = policyOfOps();
    std::optional<Policy> policy;
    if (feasible() && !answer_->ops)
        policy = answer_->policy(step_->engine->model());
    else if (ofOps)
        policy = *ofOps;
    if (policy && answer_->card && answer_->card->card == card_)
        noteCard(*policy, *card_, answer_->card->run, 0, cardChoice_.settings);
    else if (policy)
        policy->allocatorSettings = cardChoice_.settings.value_or("");
    return policy;
}

void Session::chooseCard(const std::string& card)
{
    if (isOpen() && card != cardChoice_.card)
        pushChange(tr("the card"), &Session::applyCard, cardChoice_, CardChoice{card, cardChoice_.settings});
}

void Session::chooseAllocator(const std::optional<std::string>& settings)
{
    if (isOpen() && settings != cardChoice_.settings && withAllocatorSettings({}, settings.value_or(std::string())))
        pushChange(
            tr("settings of the allocator"), [this, to = CardChoice{cardChoice_.card, settings}] { applyCard(to); },
            [this, from = cardChoice_] { applyCard(from); }, UndoStep::typing);
}

void Session::applyCard(const CardChoice& choice)
{
    cardChoice_ = choice;
    cardPlan_.reset();
    findCard();
    Q_EMIT cardChanged();
}

void Session::findCard()
{
    card_ = isOpen() ? cardOf(cardChoice_, step_->trace()) : nullptr;
}

void Session::setVerdict(const PlanAnswerPtr& judged)
{
    answer_ = judged;
    Q_EMIT verdictChanged();
}

const CardVerdict* Session::verdict() const noexcept
{
    const bool current = answerIsCurrent() && answer_->card && answer_->card->card == card_;
    return current ? &*answer_->card : nullptr;
}

void Session::setCardPlan(const PlanAnswerPtr& plan)
{
    cardPlan_ = plan;
    Q_EMIT cardPlanChanged();
    // The budget was there before the plan, and has another plan of as many bytes.
    const PlanAnswerPtr planned = plannedForCard();
    if (planned && !planned->regions.empty() && answer_ && answer_->timeline != planned->timeline)
        Q_EMIT requestChanged();
}

Bytes Session::cardBudget() const noexcept
{
    return cardPlan_ && cardPlan_->runs() ? cardPlan_->plan.peak : 0;
}

void Session::setCardPoints(const CardPointsPtr& points)
{
    cardPoints_ = points;
    Q_EMIT cardPointsChanged();
}

const CardPointsPtr& Session::cardPoints() const noexcept
{
    static const CardPointsPtr unknown;
    const bool current = cardPoints_ && cardPoints_->card == card_ && cardPoints_->of == frontier();
    return current ? cardPoints_ : unknown;
}

PlanAnswerPtr Session::plannedForCard() const noexcept
{
    const bool isIt = cardPlan_ && cardBudget() == request_.budget && request_.worldSize == 1;
    return isIt ? cardPlan_ : nullptr;
}

} // namespace headroom
