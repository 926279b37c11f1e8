// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/joint/ops_plan.h"

#include <QString>
#include <QWidget>

class QComboBox;
class QFormLayout;

namespace headroom {

/// What running an op again counts as when ops are planned.
enum class OpCost {
    time, ///< as the step says: of the roofline, or measured
    flops,
    timesOfFile, ///< measured elsewhere
};

/// How a plan of single ops is chosen: the solver, and what running an op again costs it. Shows what it is given;
/// choosing something else is a wish.
class SolverChoice : public QWidget
{
    Q_OBJECT
public:
    explicit SolverChoice(QWidget* parent = nullptr);

    /// `file`: the name of the file of measured times, empty where there is none.
    void setChoice(OpsSolver solver, OpCost cost, const QString& file);

    QComboBox* solvers() const noexcept { return solver_; }
    QComboBox* costs() const noexcept { return cost_; }

Q_SIGNALS:
    void solverWanted(headroom::OpsSolver solver);
    void costWanted(headroom::OpCost cost);

private:
    QComboBox* addRow(const char* name, const QString& label, const QString& tip);

    QFormLayout* rows_;
    QComboBox* solver_;
    QComboBox* cost_;
};

} // namespace headroom
