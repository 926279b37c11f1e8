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

/// The figures of a plan by op, shown in place of the number of modules.
struct OpsFigures
{
    double fraction = 1; ///< share of the memory that torch.compile saves by default
    Bytes savedBytes = 0;
    int again = 0; ///< number of ops that run again
    int ops = 0; ///< number of ops of forward
};

/// The budget and its cost: value, slider over the cost curve, planned peak, added time, and number of recomputed
/// modules. Budgets below the least feasible one are hatched; memory sizes of common GPUs are stops.
class BudgetBar : public QWidget
{
    Q_OBJECT
public:
    explicit BudgetBar(QWidget* parent = nullptr);
    ~BudgetBar() override;

    /// `least` is the smallest feasible budget (0: not known yet). From `recordedPeak` on nothing is recomputed.
    void setRange(Bytes least, Bytes recordedPeak, Bytes axisMin, Bytes axisMax);
    void setStep(StepTracePtr step); ///< whose communicators take memory of the cards; before setRange()
    void setWindowHeight(int height); ///< the curve's height is a share of it
    void setFrontier(std::vector<FrontierPoint> frontier); ///< peak ascending; empty: not known yet
    void setBudget(Bytes budget); ///< emits nothing
    Bytes budget() const;
    /// `plan` null: no answer yet. While `busy`, the numbers of the previous plan stay, in grey.
    void setResult(const Plan* plan, bool busy);
    void setMode(PlanMode mode); ///< emits nothing
    void setOps(const std::optional<OpsFigures>& figures); ///< nullopt: no plan

    Bytes step() const; ///< step in bytes of the keys Left and Right
    void stepBy(int steps);

Q_SIGNALS:
    void budgetDragged(headroom::Bytes budget); ///< while dragging
    void budgetCommitted(headroom::Bytes budget); ///< released, typed, or moved by a key
    void modeWanted(headroom::PlanMode mode);
    void leastBudgetWanted(); ///< the button shown when no plan fits was clicked

private:
    class Private;
    std::unique_ptr<Private> d_;
};

} // namespace headroom
