// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/session.h"

#include <QUndoCommand>

#include <utility>

namespace headroom {

/// The budget is met with single ops instead of modules, or the other way.
class ModeCommand : public QUndoCommand
{
public:
    ModeCommand(Session& session, PlanMode to)
        : QUndoCommand(to == PlanMode::ops ? Session::tr("planning by op") : Session::tr("planning by module"))
        , session_(session)
        , to_(to)
    {
    }
    void undo() override { session_.applyMode(to_ == PlanMode::ops ? PlanMode::modules : PlanMode::ops); }
    void redo() override { session_.applyMode(to_); }

private:
    Session& session_;
    PlanMode to_;
};

/// Ops are planned in another way.
class OpsChoiceCommand : public QUndoCommand
{
public:
    OpsChoiceCommand(Session& session, OpsChoice to)
        : QUndoCommand(Session::tr("how ops are planned"))
        , session_(session)
        , from_(session.opsChoice())
        , to_(std::move(to))
    {
    }
    void undo() override { session_.applyOpsChoice(from_); }
    void redo() override { session_.applyOpsChoice(to_); }

private:
    Session& session_;
    OpsChoice from_;
    OpsChoice to_;
};

void Session::setOpsChoice(const OpsChoice& choice)
{
    if (isOpen() && !(choice == opsChoice_))
        undo_.push(new OpsChoiceCommand(*this, choice));
}

void Session::applyOpsChoice(const OpsChoice& choice)
{
    opsChoice_ = choice;
    // Times are of one step, which another size of it is not.
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
        undo_.push(new ModeCommand(*this, mode));
}

void Session::applyMode(PlanMode mode)
{
    mode_ = mode;
    Q_EMIT modeChanged(mode);
    Q_EMIT frontierChanged();
    if (mode == PlanMode::ops && !whyNoOps_.isEmpty())
        refuseOps(whyNoOps_); // nobody will answer
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
        Q_EMIT questionChanged(); // the answer comes from there
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

const Policy* Session::policy() const noexcept
{
    if (!feasible())
        return nullptr;
    if (!answer_->ops)
        return &answer_->step.policy;
    return opsPolicy_ && opsPolicy_->of == answer_->ops && opsPolicy_->whyNot.empty() ? &opsPolicy_->policy : nullptr;
}

} // namespace headroom
