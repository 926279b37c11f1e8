// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/solver_choice.h"

#include "views/theme/looks.h"

#include <QComboBox>
#include <QFormLayout>
#include <QLabel>

namespace headroom {

SolverChoice::SolverChoice(QWidget* parent)
    : QWidget(parent)
    , rows_(new QFormLayout(this))
{
    setObjectName(QStringLiteral("solverChoice"));
    rows_->setContentsMargins(0, 4, 0, 2);
    rows_->setHorizontalSpacing(8);
    rows_->setVerticalSpacing(6);
    rows_->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
    rows_->setLabelAlignment(Qt::AlignLeft);
    solver_ = addRow("opsSolver", tr("Chosen by"),
                     tr("How the ops to keep are chosen under the cap, as torch.compile's "
                        "activation_memory_budget_solver"));
    solver_->addItem(tr("exact search (dp)"));
    solver_->addItem(tr("greedy"));
    solver_->addItem(tr("integer programme (ilp)"));
    cost_ = addRow("opsCost", tr("An op costs"),
                   tr("What running an op a second time counts as, as torch.compile's "
                      "activation_memory_budget_runtime_estimator"));
    cost_->addItem(tr("its time in the step"));
    cost_->addItem(tr("its flops"));
    cost_->addItem({});
    connect(solver_, &QComboBox::activated, this,
            [this](int index) { Q_EMIT solverWanted(static_cast<OpsSolver>(index)); });
    connect(cost_, &QComboBox::activated, this, [this](int index) { Q_EMIT costWanted(static_cast<OpCost>(index)); });
    setChoice(OpsSolver::dp, OpCost::time, {});
}

QComboBox* SolverChoice::addRow(const char* name, const QString& label, const QString& tip)
{
    auto* box = new Calm<QComboBox>(this);
    box->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon); // the inspector is narrow
    box->setMinimumContentsLength(8);
    box->setObjectName(QLatin1String(name));
    box->setToolTip(tip);
    box->setAccessibleName(label);
    box->setAccessibleDescription(tip);
    auto* text = makeLabel(label, "second", this);
    text->setBuddy(box);
    rows_->addRow(text, box);
    return box;
}

void SolverChoice::setChoice(OpsSolver solver, OpCost cost, const QString& file)
{
    solver_->setCurrentIndex(static_cast<int>(solver));
    cost_->setItemText(static_cast<int>(OpCost::timesOfFile), file.isEmpty() ? tr("times of a file…") : file);
    cost_->setCurrentIndex(static_cast<int>(cost));
}

} // namespace headroom
