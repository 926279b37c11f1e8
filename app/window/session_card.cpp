// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/session.h"

#include "core/allocator/replay.h"

namespace headroom {

void Session::chooseCard(const std::string& card)
{
    if (isOpen() && card != cardChoice_.card)
        pushChange(tr("the card"), &Session::applyCard, cardChoice_, CardChoice{card, cardChoice_.settings});
}

void Session::chooseAllocator(const std::optional<std::string>& settings)
{
    constexpr int typing = 1;
    if (isOpen() && settings != cardChoice_.settings && withAllocatorSettings({}, settings.value_or(std::string())))
        pushChange(
            tr("settings of the allocator"), [this, to = CardChoice{cardChoice_.card, settings}] { applyCard(to); },
            [this, from = cardChoice_] { applyCard(from); }, typing);
}

void Session::applyCard(const CardChoice& choice)
{
    cardChoice_ = choice;
    verdict_.reset();
    cardPlan_.reset();
    findCard();
    Q_EMIT cardChanged();
}

void Session::findCard()
{
    card_ = isOpen() ? cardOf(cardChoice_, step_->trace()) : nullptr;
}

void Session::setVerdict(const CardVerdictPtr& verdict)
{
    verdict_ = verdict;
    Q_EMIT verdictChanged();
}

const CardVerdictPtr& Session::verdict() const noexcept
{
    static const CardVerdictPtr unknown;
    const bool current = verdict_ && verdict_->card == card_ && verdict_->of == answer_ && answerIsCurrent();
    return current ? verdict_ : unknown;
}

void Session::setCardPlan(const CardPlanPtr& plan)
{
    cardPlan_ = plan;
    Q_EMIT cardPlanChanged();
    // The budget was there before the plan, and has another plan of as many bytes.
    const PlannedStep* planned = plannedForCard();
    if (planned && !planned->regions.empty() && answer_ && answer_->step.timeline != planned->timeline)
        Q_EMIT questionChanged();
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

const PlannedStep* Session::plannedForCard() const noexcept
{
    const bool isIt = cardPlan_ && cardPlan_->budget() == request_.budget && request_.worldSize == 1;
    return isIt ? &cardPlan_->found.planned : nullptr;
}

CardPtr cardOf(const CardChoice& choice, const StepTrace& step)
{
    const std::string& name = choice.card.empty() ? step.info.gpu : choice.card;
    if (name == CardChoice::none)
        return nullptr;
    const Result<Card> card = cardFor(name, step, choice.settings);
    return card ? std::make_shared<const Card>(*card) : nullptr;
}

} // namespace headroom
