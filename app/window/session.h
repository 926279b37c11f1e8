// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/open_step.h"
#include "core/compare/step_comparison.h"

#include <QObject>
#include <QUndoStack>

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace headroom {

/// The open document: one recorded step, what is asked of the planner for it (budget and pins, with undo), and the last
/// answer. The only state right of a StepTrace; everything it hands out is immutable. Knows no thread and no widget:
/// it says when the question has changed, and is told the answer.
class Session : public QObject
{
    Q_OBJECT
public:
    explicit Session(QObject* parent = nullptr);

    void open(const OpenStepPtr& step, Bytes budget, PlanMode mode = PlanMode::modules);
    void close();
    /// The same model at other sizes in place of the open step. Budget, pins and selection stay, as far as there are
    /// modules of these names. One undo step.
    void replaceStep(const OpenStepPtr& step, const QString& text);

    bool isOpen() const noexcept { return step_ != nullptr; }
    const OpenStepPtr& step() const noexcept { return step_; }
    const PlanRequest& request() const noexcept { return request_; }
    Bytes budget() const noexcept { return request_.budget; }
    std::optional<Pin> pin(const std::string& fqn) const;
    bool hasPins() const noexcept { return !request_.pins.empty(); }

    /// A handle moves: the budget follows, nothing is to undo yet.
    void dragBudget(Bytes budget);
    /// The budget from here on. One undo step, from where the drag began.
    void commitBudget(Bytes budget);
    bool dragging() const noexcept { return dragStart_.has_value(); }
    void suggestBudget(Bytes budget); ///< the window's own choice: nothing to undo

    void setPin(const std::string& fqn, std::optional<Pin> pin); ///< nullopt: the plan decides. One undo step
    void clearPins(); ///< one undo step

    /// FSDP over so many GPUs: parameters, gradients and optimizer state are divided among them. One undo step.
    void setWorldSize(int worldSize);
    int worldSize() const noexcept { return request_.worldSize; }

    /// Whether modules or single ops meet the budget. One undo step.
    void setMode(PlanMode mode);
    PlanMode mode() const noexcept { return mode_; }

    /// How ops are planned. One undo step.
    void setOpsChoice(const OpsChoice& choice);
    const OpsChoice& opsChoice() const noexcept { return opsChoice_; }

    void setAnswer(const PlanAnswerPtr& answer);
    const PlanAnswerPtr& answer() const noexcept { return answer_; } ///< null: none yet
    TimelinePtr shownTimeline() const; ///< of the plan, or of what comes closest to one; null: neither
    bool feasible() const noexcept; ///< there is a plan, and it fits
    bool answerIsCurrent() const noexcept; ///< the answer is to the question as it stands
    /// Whether the budget fits, or will by what is known so far: the answer to it, else the frontier.
    bool budgetSeemsEnough() const noexcept;

    void setFrontier(const FrontierPtr& frontier);
    void growFrontier(const FrontierPtr& frontier); ///< there is more to come
    const FrontierPtr& frontier() const noexcept; ///< of the mode; null: not known yet
    bool frontierIsFinal() const noexcept; ///< nothing more is computed of it
    void setOpsFrontier(const OpsFrontierPtr& frontier);
    const OpsFrontierPtr& opsFrontier() const noexcept { return opsFrontier_; } ///< null: not known yet
    void refuseOps(const QString& why); ///< the step cannot be planned op by op
    const QString& whyNoOps() const noexcept { return whyNoOps_; } ///< empty: nothing is known against it
    void setOpsPolicy(const OpsPolicyPtr& policy); ///< of the answer that is shown
    const OpsPolicyPtr& opsPolicy() const noexcept { return opsPolicy_; } ///< null: not known yet
    const Policy* policyOfOps() const noexcept; ///< of the plan of ops that is shown; null: there is none, or not yet
    /// What training applies, of the answer, made when asked for; without a value where there is none yet.
    std::optional<Policy> policy() const;
    Bytes leastBudget() const noexcept; ///< 0: not known yet
    Bytes recordedPeak() const noexcept;
    Bytes peakBefore() const noexcept { return peakBefore_; } ///< of the step that this one replaced; 0: none
    /// The price of memory at the answer's budget, Plan::msPerGiB; 0: there is none.
    double msPerGiB() const;

    void setWays(const WaysOfModulePtr& ways); ///< of the selected module
    const WaysOfModulePtr& ways() const noexcept { return ways_; } ///< null: not known yet
    /// A measured step beside the open one; null: none. It goes with the step.
    void setComparison(const StepComparisonPtr& comparison, const QString& file);
    const StepComparisonPtr& comparison() const noexcept { return comparison_; }
    const QString& comparedFile() const noexcept { return comparedFile_; }

    void select(ModuleId module); ///< invalid: none
    ModuleId selected() const noexcept { return selected_; }
    std::string selectedFqn() const;

    QUndoStack& undoStack() noexcept { return undo_; }
    bool dirty() const; ///< budget or pins changed since the last export
    void markExported();

Q_SIGNALS:
    void stepAboutToChange(); ///< what is asked of the step that is open is no longer of interest
    void stepChanged(); ///< another step, or none
    void budgetChanged(headroom::Bytes budget);
    void pinsChanged();
    void worldSizeChanged(int worldSize);
    void modeChanged(headroom::PlanMode mode);
    void opsChoiceChanged(); ///< the plans of ops that were known are of no use any more
    void opsPolicyChanged();
    void questionChanged(); ///< budget, pins or GPUs: the planner must be asked
    void answerChanged();
    void frontierChanged();
    void comparisonChanged();
    void selectionChanged();
    void waysChanged();
    void dirtyChanged(bool dirty);

private:
    /// One undo step; what it does is done at once. Both say all that they set, whatever was done in between.
    void pushChange(const QString& text, std::function<void()> redo, std::function<void()> undo);
    void pushPins(const QString& text, std::map<std::string, Pin> pins);
    void applyStep(const OpenStepPtr& step, const std::map<std::string, Pin>& pins);
    void setBudget(Bytes budget);
    void applyBudget(Bytes budget);
    void applyPins(std::map<std::string, Pin> pins);
    void applyWorldSize(int worldSize);
    void applyMode(PlanMode mode);
    void applyOpsChoice(const OpsChoice& choice);
    void forgetAnswers();

    OpenStepPtr step_;
    PlanRequest request_;
    PlanAnswerPtr answer_;
    FrontierPtr frontier_;
    bool frontierGrows_ = false;
    PlanMode mode_ = PlanMode::modules;
    OpsChoice opsChoice_;
    OpsFrontierPtr opsFrontier_;
    FrontierPtr opsPoints_; ///< of opsFrontier_
    OpsPolicyPtr opsPolicy_;
    QString whyNoOps_;
    std::optional<Bytes> dragStart_;
    StepComparisonPtr comparison_;
    QString comparedFile_;
    ModuleId selected_;
    WaysOfModulePtr ways_;
    Bytes peakBefore_ = 0;
    QUndoStack undo_;
};

/// The module of that name, with or without the root's class in front; invalid: there is none.
ModuleId moduleNamed(const StepTrace& trace, const std::string& name);

/// The budget that a step opens with: the memory of its GPU when the step does not fit there, else 70 % of the recorded
/// peak, a saving that is worth looking at; that of a step of which no plan can be made is its peak. In whole steps of
/// 64 MiB where the step is large enough.
Bytes firstBudget(const StepTrace& trace, Bytes recordedPeak);

} // namespace headroom
