// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/budget_bar.h"

#include "views/plot/number_text.h"
#include "views/theme/looks.h"
#include "views/theme/theme.h"
#include "views/widgets/budget_edit.h"
#include "views/widgets/budget_scale.h"

#include <QButtonGroup>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QToolButton>

#include <algorithm>

namespace headroom {
namespace {

// A solve usually takes a few ms, too short for grey figures to be more than a flicker.
constexpr int greyAfterMs = 150;

// The curve gets one pixel for each `curveShare` by which the window is higher than usual.
constexpr int usualWindow = 1000;
constexpr int curveShare = 11;
constexpr int mostMoreCurve = 110;

/// Made before the other widgets of the bar: widgets get the focus in the order in which they are made.
QButtonGroup* makeModes(BudgetBar* bar)
{
    auto* modes = new QButtonGroup(bar);
    const std::pair<QString, QString> words[]
        = {{BudgetBar::tr("by module"), BudgetBar::tr("Meet the budget with modules that are checkpointed")},
           {BudgetBar::tr("by op"),
            BudgetBar::tr("Meet the budget with single ops of the whole step, as torch.compile does")}};
    for (const auto& [text, tip] : words) {
        auto* button = makeSegment(text, bar);
        button->setToolTip(tip);
        button->setProperty("small", true);
        const int id = static_cast<int>(modes->buttons().size());
        button->setObjectName(id == 0 ? QStringLiteral("planModules") : QStringLiteral("planOps"));
        modes->addButton(button, id);
    }
    modes->button(0)->setChecked(true);
    return modes;
}

} // namespace

BudgetBar::BudgetBar(QWidget* parent)
    : QWidget(parent)
    , modes_(makeModes(this))
    , edit_(new BudgetEdit(this))
    , scale_(new BudgetScale(this))
    , peak_(new ResultFigure(tr("Planned peak"), this))
    , time_(new ResultFigure(tr("Step time added"), this))
    , modules_(new ResultFigure(tr("Modules recomputed"), this))
    , fraction_(new ResultFigure(tr("Fraction kept"), this))
    , ops_(new ResultFigure(tr("Ops run again"), this))
    , leastButton_(new QPushButton(this))
{
    auto* value = new QVBoxLayout;
    value->setSpacing(0);
    value->addStretch(1);
    value->addLayout(makeHead());
    value->addWidget(edit_);
    value->addStretch(1);
    auto* row = makeLayout<QHBoxLayout>(this, {18, 6, 18, 6}, 24);
    row->addLayout(value);
    row->addWidget(scale_, 1);
    for (auto* figure : {peak_, time_, modules_, fraction_, ops_})
        row->addWidget(figure, 0, Qt::AlignVCenter);
    row->insertWidget(3, leastButton_, 0, Qt::AlignVCenter);
    leastButton_->hide();
    leastButton_->setToolTip(tr("Set the smallest budget for which a plan exists"));
    grey_.setSingleShot(true);
    grey_.setInterval(greyAfterMs);
    connect(&grey_, &QTimer::timeout, this, [this] { setMood(ResultFigure::Mood::old); });
    connect(scale_, &BudgetScale::dragged, this, [this](Bytes bytes) {
        moved(bytes);
        Q_EMIT budgetDragged(bytes);
    });
    connect(scale_, &BudgetScale::committed, this, &BudgetBar::budgetCommitted);
    connect(edit_, &BudgetEdit::entered, this, [this](Bytes bytes) {
        setBudget(bytes);
        Q_EMIT budgetDragged(bytes);
        Q_EMIT budgetCommitted(bytes);
    });
    connect(edit_, &BudgetEdit::stepped, this, &BudgetBar::stepBy);
    connect(leastButton_, &QPushButton::clicked, this, &BudgetBar::leastBudgetWanted);
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    showFigures();
}

/// The caption, and the two kinds of plans.
QHBoxLayout* BudgetBar::makeHead()
{
    auto* caption = makeLabel(tr("Budget"), "second", this);
    caption->setBuddy(edit_->line());
    auto* head = new QHBoxLayout;
    head->setSpacing(0);
    head->addWidget(caption);
    head->addSpacing(6);
    for (QAbstractButton* button : modes_->buttons())
        head->addWidget(button);
    head->addStretch(1);
    connect(modes_, &QButtonGroup::idClicked, this, [this](int id) { Q_EMIT modeWanted(static_cast<PlanMode>(id)); });
    return head;
}

void BudgetBar::showFigures()
{
    const bool hasPlan = possible_ && !infeasible_;
    time_->setVisible(hasPlan);
    modules_->setVisible(hasPlan && mode_ == PlanMode::modules);
    fraction_->setVisible(hasPlan && mode_ == PlanMode::ops);
    ops_->setVisible(hasPlan && mode_ == PlanMode::ops);
}

void BudgetBar::moved(Bytes value)
{
    edit_->setValue(value);
    updateFeasible();
}

void BudgetBar::updateFeasible()
{
    edit_->setDanger(infeasible_ || scale_->value() < scale_->least());
}

void BudgetBar::setMood(ResultFigure::Mood mood)
{
    for (auto* figure : {time_, modules_, fraction_, ops_})
        figure->setMood(mood);
    peak_->setMood(infeasible_ && mood == ResultFigure::Mood::normal ? ResultFigure::Mood::danger : mood);
}

void BudgetBar::showNothing()
{
    for (auto* figure : {peak_, time_, modules_, fraction_, ops_})
        figure->setValue(QStringLiteral("–"), {});
    if (!possible_)
        peak_->setValue(tr("None possible"), {});
}

void BudgetBar::showPlan(const Plan& plan)
{
    if (infeasible_) {
        showNothing();
        peak_->setValue(tr("No plan fits"), {});
        leastButton_->setText(tr("Use %1, the least that fits").arg(bytesText(plan.leastBudget, 2)));
        return;
    }
    const ByteUnit unit = byteUnitFor(static_cast<double>(plan.peak));
    peak_->setValue(inUnit(plan.peak, unit, 2), QLatin1String(unit.name));
    const double share = plan.stepMs > 0 ? 100 * plan.recomputeMs / plan.stepMs : 0;
    time_->setValue(QLatin1Char('+') + QString::number(plan.recomputeMs, 'f', plan.recomputeMs < 10 ? 2 : 1),
                    plan.stepMs > 0 ? tr("ms (%1 %)").arg(QString::number(share, 'f', 1)) : tr("ms"));
    const auto count = std::count_if(plan.decisions.begin(), plan.decisions.end(),
                                     [](const auto& decision) { return decision.second > 0; });
    modules_->setValue(QString::number(count), {});
    scale_->setStepMs(plan.stepMs);
}

void BudgetBar::setRange(Bytes least, Bytes recordedPeak, Bytes axisMin, Bytes axisMax)
{
    scale_->setRange(least, recordedPeak, axisMin, axisMax);
    edit_->setUnitOf(axisMax);
    updateFeasible();
}

void BudgetBar::setCards(std::vector<CardStop> cards, std::vector<Bytes> failing)
{
    scale_->setCards(std::move(cards), std::move(failing));
}

void BudgetBar::setWindowHeight(int height)
{
    scale_->setCurveHeight(BudgetScale::leastCurveHeight
                           + std::clamp((height - usualWindow) / curveShare, 0, mostMoreCurve));
}

void BudgetBar::setFrontier(std::vector<FrontierPoint> frontier)
{
    scale_->setFrontier(std::move(frontier));
}

void BudgetBar::setBudget(Bytes budget)
{
    if (budget == scale_->value())
        return; // the bar emitted it
    scale_->setValue(budget);
    moved(scale_->value());
}

Bytes BudgetBar::budget() const
{
    return scale_->value();
}

void BudgetBar::setResult(const Plan* plan, bool busy)
{
    if (!busy) {
        grey_.stop();
        infeasible_ = plan && plan->status == PlanStatus::infeasible;
        leastButton_->setVisible(infeasible_ && plan->leastBudget > 0);
        if (plan)
            showPlan(*plan);
        else
            showNothing();
        showFigures();
        setMood(ResultFigure::Mood::normal);
        updateFeasible();
    } else if (!grey_.isActive()) {
        grey_.start();
    }
}

void BudgetBar::setMode(PlanMode mode)
{
    mode_ = mode;
    modes_->button(static_cast<int>(mode))->setChecked(true);
    showFigures();
}

void BudgetBar::setPossible(bool possible)
{
    possible_ = possible;
    for (QAbstractButton* button : modes_->buttons())
        button->setEnabled(possible);
    showFigures();
}

void BudgetBar::setOps(const std::optional<OpsFigures>& figures)
{
    if (!figures)
        return;
    fraction_->setValue(QString::number(figures->fraction, 'f', 3), tr("(%1)").arg(bytesText(figures->savedBytes, 2)));
    ops_->setValue(QString::number(figures->again), tr("of %1").arg(figures->ops));
}

Bytes BudgetBar::step() const
{
    return scale_->step();
}

void BudgetBar::stepBy(int steps)
{
    scale_->moveTo(scale_->value() + steps * scale_->step());
}

} // namespace headroom
