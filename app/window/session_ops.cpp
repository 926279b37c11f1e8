// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/session.h"

namespace headroom {

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
    opsFrontier_.reset();
    opsPoints_.reset();
    opsPolicy_.reset();
    whyNoOps_.clear();
    Q_EMIT opsChoiceChanged();
    Q_EMIT frontierChanged();
    if (mode_ == PlanMode::ops)
        Q_EMIT questionChanged();
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
    if (mode == PlanMode::ops && !whyNoOps_.isEmpty())
        refuseOps(whyNoOps_); // no answer will come
    else
        Q_EMIT questionChanged();
}

const FrontierPtr& Session::frontier() const noexcept
{
    return mode_ == PlanMode::ops ? opsPoints_ : frontier_;
}

bool Session::frontierIsFinal() const noexcept
{
    return mode_ == PlanMode::ops ? opsFrontier_ && opsFrontier_->complete : frontier_ && !frontierGrows_;
}

void Session::setOpsFrontier(const OpsFrontierPtr& frontier)
{
    opsFrontier_ = frontier;
    opsPoints_ = std::make_shared<const std::vector<FrontierPoint>>(frontier->points());
    Q_EMIT frontierChanged();
    if (mode_ == PlanMode::ops)
        Q_EMIT questionChanged(); // answers are plans of the frontier
}

void Session::refuseOps(const QString& why)
{
    whyNoOps_ = why;
    if (mode_ != PlanMode::ops)
        return;
    answer_.reset();
    Q_EMIT answerChanged();
}

void Session::setOpsPolicy(const OpsPolicyPtr& policy)
{
    opsPolicy_ = policy;
    Q_EMIT opsPolicyChanged();
}

const Policy* Session::policyOfOps() const noexcept
{
    const bool current = feasible() && opsPolicy_ && opsPolicy_->of == answer_->ops && opsPolicy_->whyNot.empty();
    return current ? &opsPolicy_->policy : nullptr;
}

std::optional<Policy> Session::policy() const
{
    const Policy* ofOps = policyOfOps();
    std::optional<Policy> policy;
    if (feasible() && !answer_->ops)
        policy = answer_->step.policy(step_->engine->model());
    else if (ofOps)
        policy = *ofOps;
    if (policy && verdict_ && verdict_->of == answer_)
        noteCard(*policy, *verdict_->card, verdict_->run, 0, cardChoice_.settings);
    else if (policy)
        policy->allocatorSettings = cardChoice_.settings.value_or("");
    return policy;
}

} // namespace headroom
