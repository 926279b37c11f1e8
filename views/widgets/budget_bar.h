// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan.h"
#include "core/plan/plan_mode.h"
#include "core/policy/step_planner.h"

#include <QWidget>

#include <memory>
#include <optional>
#include <vector>

namespace headroom {

/// What a plan of single ops is called by: shown in place of the modules.
struct OpsFigures
{
    double fraction = 1; ///< of what torch.compile keeps by default
    Bytes savedBytes = 0;
    int again = 0; ///< ops that run again
    int ops = 0; ///< of forward
};

/// The budget, and what it costs: value, slider over its own cost curve, and the planned peak, time added and modules
/// recomputed. Budgets below the least feasible one are hatched; usual card sizes are stops.
class BudgetBar : public QWidget
{
    Q_OBJECT
public:
    explicit BudgetBar(QWidget* parent = nullptr);
    ~BudgetBar() override;

    /// `least`: the smallest feasible budget (0: not known yet); `recordedPeak`: from here nothing is recomputed.
    void setRange(Bytes least, Bytes recordedPeak, Bytes axisMin, Bytes axisMax);
    void setWindowHeight(int height); ///< of which the curve above the slider takes its share
    void setFrontier(std::vector<FrontierPoint> frontier); ///< peak ascending; empty: not known yet
    void setBudget(Bytes budget); ///< emits nothing
    Bytes budget() const;
    /// `plan` null: no answer yet. While busy, the numbers of the plan before stay, in grey.
    void setResult(const Plan* plan, bool busy);
    void setMode(PlanMode mode); ///< emits nothing
    void setOps(const std::optional<OpsFigures>& figures); ///< nullopt: no plan
    void setModuleCount(int candidates); ///< of "96 of 96"; 0: only the number

    Bytes step() const; ///< of Left and Right, fitting the range
    void stepBy(int steps);
    void toBreakPoint(int direction); ///< next (> 0) or previous (< 0) point of the frontier

Q_SIGNALS:
    void budgetDragged(headroom::Bytes budget); ///< while dragging
    void budgetCommitted(headroom::Bytes budget); ///< released, typed, or moved by a key
    void modeWanted(headroom::PlanMode mode);
    void leastBudgetWanted(); ///< the button that is there when nothing fits

private:
    class Private;
    std::unique_ptr<Private> d_;
};

} // namespace headroom
