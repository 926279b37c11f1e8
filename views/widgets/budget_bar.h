// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan.h"
#include "core/plan/plan_mode.h"
#include "core/policy/step_planner.h"
#include "views/plot/budget_steps.h"
#include "views/widgets/result_figure.h"

#include <QTimer>
#include <QWidget>

#include <optional>
#include <vector>

class QButtonGroup;
class QHBoxLayout;
class QPushButton;

namespace headroom {

class BudgetEdit;
class BudgetScale;

/// The figures of a plan by op, shown in place of the number of modules.
struct OpsFigures
{
    double fraction = 1; ///< share of the memory that torch.compile saves by default
    Bytes savedBytes = 0;
    int again = 0; ///< number of ops that run again
    int ops = 0; ///< number of ops of forward
};

/// The budget and its cost: value, slider over the cost curve, planned peak, added time, and number of recomputed
/// modules. Budgets below the least feasible one are hatched; plans for cards are stops.
class BudgetBar : public QWidget
{
    Q_OBJECT
public:
    explicit BudgetBar(QWidget* parent = nullptr);

    /// `least` is the smallest feasible budget (0: not known yet). From `recordedPeak` on nothing is recomputed.
    void setRange(Bytes least, Bytes recordedPeak, Bytes axisMin, Bytes axisMax);
    /// Stops at which a plan runs on a card, and the peaks of plans of the frontier that do not run there, ascending.
    void setCards(std::vector<CardStop> cards, std::vector<Bytes> failing = {});
    void setWindowHeight(int height); ///< the curve's height is a share of it
    void setFrontier(std::vector<FrontierPoint> frontier); ///< peak ascending; empty: not known yet
    void setBudget(Bytes budget); ///< emits nothing
    Bytes budget() const;
    /// `plan` null: no answer yet. While `busy`, the numbers of the previous plan stay, in grey.
    void setResult(const Plan* plan, bool busy);
    void setMode(PlanMode mode); ///< emits nothing
    void setPossible(bool possible); ///< false: no plan of the step is possible, whatever the budget
    void setOps(const std::optional<OpsFigures>& figures); ///< nullopt: no plan

    Bytes step() const; ///< step in bytes of the keys Left and Right
    void stepBy(int steps);

Q_SIGNALS:
    void budgetDragged(headroom::Bytes budget); ///< while dragging
    void budgetCommitted(headroom::Bytes budget); ///< released, typed, or moved by a key
    void modeWanted(headroom::PlanMode mode);
    void leastBudgetWanted(); ///< the button shown when no plan fits was clicked

private:
    QHBoxLayout* makeHead();
    void moved(Bytes value);
    void showPlan(const Plan& plan);
    void showNothing();
    void showFigures();
    void setMood(ResultFigure::Mood mood);
    void updateFeasible();

    QButtonGroup* modes_;
    BudgetEdit* edit_;
    BudgetScale* scale_;
    ResultFigure* peak_;
    ResultFigure* time_;
    ResultFigure* modules_;
    ResultFigure* fraction_; ///< this and the next replace the number of modules for plans by op
    ResultFigure* ops_;
    QPushButton* leastButton_;
    QTimer grey_; ///< runs while the figures are of the previous plan, before they turn grey
    bool infeasible_ = false;
    bool possible_ = true;
    PlanMode mode_ = PlanMode::modules;
};

} // namespace headroom
