// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/solver_choice.h"

#include <QComboBox>
#include <QFormLayout>
#include <QLabel>
#include <QWheelEvent>

namespace headroom {
namespace {

/// A list that scrolling past does not change.
class CalmComboBox : public QComboBox
{
public:
    explicit CalmComboBox(QWidget* parent)
        : QComboBox(parent)
    {
        setFocusPolicy(Qt::StrongFocus);
        setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon); // the inspector is narrow
        setMinimumContentsLength(8);
    }

protected:
    void wheelEvent(QWheelEvent* event) override
    {
        if (hasFocus())
            QComboBox::wheelEvent(event);
        else
            event->ignore();
    }
};

} // namespace

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
    auto* box = new CalmComboBox(this);
    box->setObjectName(QLatin1String(name));
    box->setToolTip(tip);
    box->setAccessibleName(label);
    box->setAccessibleDescription(tip);
    auto* text = new QLabel(label, this);
    text->setProperty("second", true);
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
