// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/joint/ops_plan.h"

#include <QString>
#include <QWidget>

class QComboBox;
class QFormLayout;

namespace headroom {

/// The cost of running an op again, for plans by op.
enum class OpCost {
    time, ///< the op times of the step
    flops,
    timesOfFile, ///< op times from a file of measurements
};

/// Combo boxes for the solver and the cost of plans by op. Shows the given choice; a change by the user emits a signal.
class SolverChoice : public QWidget
{
    Q_OBJECT
public:
    explicit SolverChoice(QWidget* parent = nullptr);

    /// `file`: name of the file of measured times; empty: none.
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
