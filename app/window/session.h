// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/open_step.h"
#include "core/compare/peak_comparison.h"
#include "core/compare/step_comparison.h"

#include <QObject>
#include <QUndoStack>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace headroom {

/// Which plans by modules of a frontier run on a card. Immutable.
struct CardPoints
{
    CardPtr card;
    FrontierPtr of;
    std::vector<Bytes> failing; ///< peaks of the points whose plans run out of memory, ascending
};
using CardPointsPtr = std::shared_ptr<const CardPoints>;

/// The open document: one recorded step, the request to the planner (budget, pins and more, with undo), and the last
/// answer. All state of the document is here; everything that it returns is immutable. It is independent of threads and
/// widgets: it emits requestChanged(), and setAnswer() takes the result.
class Session : public QObject
{
    Q_OBJECT
public:
    explicit Session(QObject* parent = nullptr);

    void open(const OpenStepPtr& step, Bytes budget, PlanMode mode = PlanMode::modules, const std::string& card = {},
              const OffloadChoice& offload = {});
    void close();
    /// Replaces the open step by one of the same model at other sizes. Budget, pins and selection stay, if modules of
    /// these names exist, and the card unless `card` has another one. One undo step; so many replaced steps can be
    /// undone, since each takes memory.
    static constexpr int mostUndoneSteps = 8;
    void replaceStep(const OpenStepPtr& step, const QString& text, const std::optional<std::string>& card = {});

    bool isOpen() const noexcept { return step_ != nullptr; }
    const OpenStepPtr& step() const noexcept { return step_; }
    const PlanRequest& request() const noexcept { return request_; }
    Bytes budget() const noexcept { return request_.budget; }
    std::optional<Pin> pin(const std::string& fqn) const;
    bool hasPins() const noexcept { return !request_.pins.empty(); }

    /// Sets the budget during a drag, without an undo step.
    void dragBudget(Bytes budget);
    /// Sets the budget; one undo step, back to the budget before the drag.
    void commitBudget(Bytes budget);
    bool dragging() const noexcept { return dragStart_.has_value(); }
    void suggestBudget(Bytes budget); ///< sets the window's own choice, without an undo step

    void setPin(const std::string& fqn, std::optional<Pin> pin); ///< nullopt: the plan decides; one undo step
    void clearPins(); ///< one undo step

    /// Sets the number of GPUs over which FSDP shards parameters, gradients and optimizer state. One undo step.
    void setWorldSize(int worldSize);
    int worldSize() const noexcept { return request_.worldSize; }

    void setOffload(const OffloadChoice& choice); ///< one undo step
    /// The choice, also while the step or the number of GPUs leaves no offload; request() tells what is planned.
    const OffloadChoice& offloadChoice() const noexcept { return offload_; }
    bool mayOffload() const; ///< whether plans of the step by modules can move saved tensors to the host

    /// Plans by modules or by op. One undo step.
    void setMode(PlanMode mode);
    PlanMode mode() const noexcept { return mode_; }

    /// Sets the settings of plans by op. One undo step.
    void setOpsChoice(const OpsChoice& choice);
    const OpsChoice& opsChoice() const noexcept { return opsChoice_; }

    void chooseCard(const std::string& card); ///< as CardChoice::card; one undo step
    /// As CardChoice::settings, and as long as they are valid. One undo step; while they are typed it is the same one.
    void chooseAllocator(const std::optional<std::string>& settings);
    const CardChoice& cardChoice() const noexcept { return cardChoice_; }
    const CardPtr& card() const noexcept { return card_; } ///< null: none is chosen or known
    /// Replaces the answer by the same one with a verdict of the card.
    void setVerdict(const PlanAnswerPtr& judged);
    const CardVerdict* verdict() const noexcept; ///< of the shown plan on the card; null: not known yet
    void setCardPlan(const PlanAnswerPtr& plan);
    /// The plan by modules for the card and the pins, whatever the budget; null: not known yet. It has a verdict.
    const PlanAnswerPtr& cardPlan() const noexcept { return cardPlan_; }
    Bytes cardBudget() const noexcept; ///< the peak of cardPlan(); 0: no plan runs, or not known yet
    void setCardPoints(const CardPointsPtr& points);
    const CardPointsPtr& cardPoints() const noexcept; ///< of the card and the frontier; null: not known yet
    /// The plan for the card if the request is for its budget: it may be in an order that the planner does not choose.
    PlanAnswerPtr plannedForCard() const noexcept;

    void setAnswer(const PlanAnswerPtr& answer);
    const PlanAnswerPtr& answer() const noexcept { return answer_; } ///< null: none yet
    TimelinePtr shownTimeline() const; ///< timeline of the plan, or of PlanAnswer::closest; null: neither
    bool feasible() const noexcept; ///< there is a plan, and it fits
    bool answerIsCurrent() const ///< the answer is of the current request
    {
        return answerIsForSettings() && answer_->request.budget == request_.budget;
    }
    /// Whether a plan fits the budget, by the current answer, else by the frontier as far as it is known.
    bool budgetSeemsEnough() const;

    /// `recompute` is the frontier without offload if the request allows offload; without `isFinal`, more points
    /// follow.
    void setFrontier(const FrontierPtr& frontier, const FrontierPtr& recompute = {}, bool isFinal = true);
    const FrontierPtr& frontier() const noexcept; ///< frontier of the current mode; null: not known yet
    bool frontierIsFinal() const noexcept; ///< the frontier is not being computed any more
    /// The frontier without offload, as far as known; null: by modules, and the request allows no offload.
    const FrontierPtr& recomputeFrontier() const noexcept
    {
        return mode_ == PlanMode::ops ? byOp_.points : recomputeFrontier_;
    }
    void setOpsFrontier(const OpsFrontierPtr& frontier);
    const OpsFrontierPtr& opsFrontier() const noexcept { return byOp_.frontier; } ///< null: not known yet
    /// Sets the frontier by op of a request that allows offload, as far as known.
    void setHostedFrontier(const FrontierPtr& frontier, bool isFinal);
    void refuseOps(const QString& why); ///< sets why the step cannot be planned by op
    const QString& whyNoOps() const noexcept { return byOp_.whyNot; } ///< empty: no reason is known
    void setOpsPolicy(const OpsPolicyPtr& policy); ///< policy of the shown plan by op
    const OpsPolicyPtr& opsPolicy() const noexcept { return byOp_.policy; } ///< null: not known yet
    const Policy* policyOfOps() const noexcept; ///< opsPolicy()->policy; null: there is none, or not yet
    /// Makes the policy of the answer; nullopt: there is no answer yet.
    std::optional<Policy> policy() const;
    Bytes leastBudget() const; ///< 0: not known yet
    Bytes recordedPeak() const noexcept;
    Bytes peakBefore() const noexcept { return peakBefore_; } ///< peak of the step that this one replaced; 0: none
    /// The price of memory at the answer's budget, Plan::msPerGiB; 0: none.
    double msPerGiB() const;

    void setOptions(const OptionsOfModulePtr& options); ///< options of the selected module
    const OptionsOfModulePtr& options() const noexcept { return options_; } ///< null: not known yet
    /// Sets what the open step is compared with, until the open step changes. `comparison`: a measured step that lies
    /// over the prediction; null: none. `peaks`: the peaks beside each other; null: none, as of a trace without memory.
    /// `beside`: memory of the compared step on the time axis of the open one; null: none. `stamp`: of the file when
    /// it was read.
    void setComparison(const StepComparisonPtr& comparison, const PeakTablesPtr& peaks, const TimelinePtr& beside,
                       const QString& file, const std::optional<FileStamp>& stamp = {});
    const StepComparisonPtr& comparison() const noexcept { return comparison_; }
    const PeakTablesPtr& peaks() const noexcept { return peaks_; }
    const TimelinePtr& beside() const noexcept { return beside_; }
    bool isComparing() const noexcept { return comparison_ || peaks_; }
    const QString& comparedFile() const noexcept { return comparedFile_; }
    const std::optional<FileStamp>& comparedStamp() const noexcept { return comparedStamp_; }

    void select(ModuleId module); ///< invalid: none
    ModuleId selected() const noexcept { return selected_; }
    std::string selectedFqn() const;

    QUndoStack& undoStack() noexcept { return undo_; }
    bool dirty() const; ///< budget or pins changed since the last export
    void markExported();

Q_SIGNALS:
    void stepAboutToChange(); ///< pending requests for the open step are obsolete
    void stepChanged(); ///< another step, or none
    void budgetChanged(headroom::Bytes budget);
    void pinsChanged();
    void worldSizeChanged(int worldSize);
    void offloadChanged(); ///< the choice, or whether the step has plans with offload
    void modeChanged(headroom::PlanMode mode);
    void opsChoiceChanged(); ///< known plans by op are obsolete
    void opsPolicyChanged();
    void cardChanged(); ///< another card, or other settings of its allocator
    void verdictChanged();
    void cardPlanChanged();
    void cardPointsChanged();
    void requestChanged(); ///< budget, pins, offload or world size changed: a new plan is needed
    void answerChanged();
    void frontierChanged();
    void comparisonChanged();
    void selectionChanged();
    void optionsChanged();
    void dirtyChanged(bool dirty);

private:
    bool answerIsForSettings() const; ///< the answer is of the current request, or of the same with another budget
    /// Adds one undo step and calls `redo` at once. Each function must set everything that it changes, whatever
    /// happened in between.
    void pushChange(const QString& text, std::function<void()> redo, std::function<void()> undo,
                    int kind = UndoStep::single);
    /// Adds one undo step that applies `to`, and takes it back by applying `from`.
    template <typename Value>
    void pushChange(const QString& text, void (Session::*apply)(Value), std::decay_t<Value> from,
                    std::decay_t<Value> to)
    {
        pushChange(
            text, [this, apply, to = std::move(to)] { (this->*apply)(to); },
            [this, apply, from = std::move(from)] { (this->*apply)(from); });
    }
    void applyStep(const OpenStepPtr& step, const std::map<std::string, Pin>& pins, const std::string& card);
    void applyCard(const CardChoice& choice);
    void findCard();
    void setBudget(Bytes budget);
    void applyBudget(Bytes budget);
    void applyPins(const std::map<std::string, Pin>& pins);
    void applyOffload(const OffloadChoice& choice);
    void askForOffload();
    void applyWorldSize(int worldSize);
    void applyMode(PlanMode mode);
    void applyOpsChoice(const OpsChoice& choice);
    void forgetAnswers();

    OpenStepPtr step_;
    PlanRequest request_;
    PlanAnswerPtr answer_;
    FrontierPtr frontier_;
    FrontierPtr recomputeFrontier_;
    bool frontierGrows_ = false;
    PlanMode mode_ = PlanMode::modules;
    OffloadChoice offload_;
    OpsChoice opsChoice_;
    struct
    {
        OpsFrontierPtr frontier;
        FrontierPtr points; ///< of `frontier`
        FrontierPtr hosted; ///< as setHostedFrontier(); null: not known yet, or the request allows no offload
        bool hostedIsFinal = false;
        OpsPolicyPtr policy;
        QString whyNot;
    } byOp_; ///< what is known of plans by op
    CardChoice cardChoice_;
    CardPtr card_;
    PlanAnswerPtr cardPlan_;
    CardPointsPtr cardPoints_;
    std::optional<Bytes> dragStart_;
    StepComparisonPtr comparison_;
    PeakTablesPtr peaks_;
    TimelinePtr beside_;
    QString comparedFile_;
    std::optional<FileStamp> comparedStamp_;
    ModuleId selected_;
    OptionsOfModulePtr options_;
    Bytes peakBefore_ = 0;
    QUndoStack undo_;
};

} // namespace headroom
