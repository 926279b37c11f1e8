// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/budget_bar.h"

#include "views/plot/number_text.h"
#include "views/theme/theme.h"
#include "views/widgets/budget_edit.h"
#include "views/widgets/budget_scale.h"
#include "views/widgets/result_figure.h"

#include <QButtonGroup>
#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>
#include <QTimer>
#include <QToolButton>

#include <algorithm>

namespace headroom {
namespace {

// A solve takes a few ms: the figures turn grey only when it takes longer than one can see.
constexpr int greyAfterMs = 150;

// Of a window that is higher than this so many pixels the curve gets one more.
constexpr int usualWindow = 1000;
constexpr int curveShare = 11;
constexpr int mostMoreCurve = 110;

} // namespace

class BudgetBar::Private
{
public:
    explicit Private(BudgetBar* bar);

    void moved(Bytes value);
    void showPlan(const Plan& plan);
    void showNothing();
    void setMood(ResultFigure::Mood mood);
    void updateFeasible();
    void showFigures();
    QHBoxLayout* makeHead();

    BudgetBar* q;
    BudgetEdit* edit;
    BudgetScale* scale;
    ResultFigure* peak;
    ResultFigure* time;
    ResultFigure* modules;
    ResultFigure* fraction; ///< this and the next in place of the modules, for plans of ops
    ResultFigure* ops;
    QButtonGroup* modes;
    QPushButton* leastButton;
    QTimer grey;
    bool infeasible = false;
    PlanMode mode = PlanMode::modules;
};

BudgetBar::Private::Private(BudgetBar* bar)
    : q(bar)
    , edit(new BudgetEdit(bar))
    , scale(new BudgetScale(bar))
    , peak(new ResultFigure(tr("Planned peak"), bar))
    , time(new ResultFigure(tr("Step time added"), bar))
    , modules(new ResultFigure(tr("Modules recomputed"), bar))
    , fraction(new ResultFigure(tr("Fraction kept"), bar))
    , ops(new ResultFigure(tr("Ops run again"), bar))
    , modes(new QButtonGroup(bar))
    , leastButton(new QPushButton(bar))
{
    auto* value = new QVBoxLayout;
    value->setSpacing(0);
    value->addStretch(1);
    value->addLayout(makeHead());
    value->addWidget(edit);
    value->addStretch(1);
    auto* row = new QHBoxLayout(bar);
    row->setContentsMargins(18, 6, 18, 6);
    row->setSpacing(24);
    row->addLayout(value);
    row->addWidget(scale, 1);
    for (auto* figure : {peak, time, modules, fraction, ops})
        row->addWidget(figure, 0, Qt::AlignVCenter);
    row->insertWidget(3, leastButton, 0, Qt::AlignVCenter);
    leastButton->hide();
    leastButton->setToolTip(tr("Set the smallest budget for which a plan exists"));
    grey.setSingleShot(true);
    grey.setInterval(greyAfterMs);
    connect(&grey, &QTimer::timeout, q, [this] { setMood(ResultFigure::Mood::old); });
    connect(scale, &BudgetScale::dragged, q, [this](Bytes bytes) {
        moved(bytes);
        Q_EMIT q->budgetDragged(bytes);
    });
    connect(scale, &BudgetScale::committed, q, &BudgetBar::budgetCommitted);
    connect(edit, &BudgetEdit::entered, q, [this](Bytes bytes) {
        q->setBudget(bytes);
        Q_EMIT q->budgetDragged(bytes);
        Q_EMIT q->budgetCommitted(bytes);
    });
    connect(edit, &BudgetEdit::stepped, q, [this](int steps) { q->stepBy(steps); });
    connect(leastButton, &QPushButton::clicked, q, &BudgetBar::leastBudgetWanted);
    showFigures();
}

/// "Budget", and what meets it.
QHBoxLayout* BudgetBar::Private::makeHead()
{
    auto* caption = new QLabel(tr("Budget"), q);
    caption->setProperty("second", true);
    caption->setBuddy(edit);
    auto* head = new QHBoxLayout;
    head->setSpacing(0);
    head->addWidget(caption);
    head->addSpacing(6);
    const std::pair<QString, QString> words[]
        = {{tr("by module"), tr("Meet the budget with modules that are checkpointed")},
           {tr("by op"), tr("Meet the budget with single ops of the whole step, as torch.compile does")}};
    for (const auto& [text, tip] : words) {
        auto* button = new QToolButton(q);
        button->setText(text);
        button->setToolTip(tip);
        button->setCheckable(true);
        button->setProperty("segment", true);
        button->setProperty("small", true);
        const int id = static_cast<int>(modes->buttons().size());
        button->setObjectName(id == 0 ? QStringLiteral("planModules") : QStringLiteral("planOps"));
        modes->addButton(button, id);
        head->addWidget(button);
    }
    modes->button(0)->setChecked(true);
    head->addStretch(1);
    connect(modes, &QButtonGroup::idClicked, q, [this](int id) { Q_EMIT q->modeWanted(static_cast<PlanMode>(id)); });
    return head;
}

void BudgetBar::Private::showFigures()
{
    time->setVisible(!infeasible);
    modules->setVisible(!infeasible && mode == PlanMode::modules);
    fraction->setVisible(!infeasible && mode == PlanMode::ops);
    ops->setVisible(!infeasible && mode == PlanMode::ops);
}

void BudgetBar::Private::moved(Bytes value)
{
    edit->setValue(value);
    updateFeasible();
}

void BudgetBar::Private::updateFeasible()
{
    edit->setDanger(infeasible || scale->value() < scale->least());
}

void BudgetBar::Private::setMood(ResultFigure::Mood mood)
{
    for (auto* figure : {time, modules, fraction, ops})
        figure->setMood(mood);
    peak->setMood(infeasible && mood == ResultFigure::Mood::normal ? ResultFigure::Mood::danger : mood);
}

void BudgetBar::Private::showNothing()
{
    for (auto* figure : {peak, time, modules, fraction, ops})
        figure->setValue(QStringLiteral("–"), {});
}

void BudgetBar::Private::showPlan(const Plan& plan)
{
    if (infeasible) {
        showNothing();
        peak->setValue(tr("No plan fits"), {});
        leastButton->setText(tr("Use %1, the least that fits").arg(bytesText(plan.leastBudget, 2)));
        return;
    }
    const ByteUnit unit = byteUnitFor(static_cast<double>(plan.peak));
    peak->setValue(inUnit(plan.peak, unit, 2), QLatin1String(unit.name));
    const double share = plan.stepMs > 0 ? 100 * plan.recomputeMs / plan.stepMs : 0;
    time->setValue(QLatin1Char('+') + QString::number(plan.recomputeMs, 'f', plan.recomputeMs < 10 ? 2 : 1),
                   plan.stepMs > 0 ? tr("ms (%1 %)").arg(QString::number(share, 'f', 1)) : tr("ms"));
    const auto count = std::count_if(plan.decisions.begin(), plan.decisions.end(),
                                     [](const auto& decision) { return decision.second > 0; });
    modules->setValue(QString::number(count), {});
    scale->setStepMs(plan.stepMs);
}

BudgetBar::BudgetBar(QWidget* parent)
    : QWidget(parent)
    , d_(std::make_unique<Private>(this))
{
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    setFocusProxy(d_->scale);
    setTabOrder(d_->modes->button(0), d_->modes->button(1));
    setTabOrder(d_->modes->button(1), d_->edit);
    setTabOrder(d_->edit, d_->scale);
    setTabOrder(d_->scale, d_->leastButton);
}

BudgetBar::~BudgetBar() = default;

void BudgetBar::setRange(Bytes least, Bytes recordedPeak, Bytes axisMin, Bytes axisMax)
{
    d_->scale->setRange(least, recordedPeak, axisMin, axisMax);
    d_->edit->setUnitOf(axisMax);
    d_->updateFeasible();
}

void BudgetBar::setStep(StepTracePtr step)
{
    d_->scale->setStep(std::move(step));
}

void BudgetBar::setWindowHeight(int height)
{
    d_->scale->setCurveHeight(BudgetScale::leastCurveHeight
                              + std::clamp((height - usualWindow) / curveShare, 0, mostMoreCurve));
}

void BudgetBar::setFrontier(std::vector<FrontierPoint> frontier)
{
    d_->scale->setFrontier(std::move(frontier));
}

void BudgetBar::setBudget(Bytes budget)
{
    if (budget == d_->scale->value())
        return; // it came from here
    d_->scale->setValue(budget);
    d_->moved(d_->scale->value());
}

Bytes BudgetBar::budget() const
{
    return d_->scale->value();
}

void BudgetBar::setResult(const Plan* plan, bool busy)
{
    if (!busy) {
        d_->grey.stop();
        d_->infeasible = plan && plan->status == PlanStatus::infeasible;
        d_->leastButton->setVisible(d_->infeasible && plan->leastBudget > 0);
        if (plan)
            d_->showPlan(*plan);
        else
            d_->showNothing();
        d_->showFigures();
        d_->setMood(ResultFigure::Mood::normal);
        d_->updateFeasible();
    } else if (!d_->grey.isActive()) {
        d_->grey.start();
    }
}

void BudgetBar::setMode(PlanMode mode)
{
    d_->mode = mode;
    d_->modes->button(static_cast<int>(mode))->setChecked(true);
    d_->showFigures();
}

void BudgetBar::setOps(const std::optional<OpsFigures>& figures)
{
    if (!figures)
        return;
    d_->fraction->setValue(QString::number(figures->fraction, 'f', 3),
                           tr("(%1)").arg(bytesText(figures->savedBytes, 2)));
    d_->ops->setValue(QString::number(figures->again), tr("of %1").arg(figures->ops));
}

Bytes BudgetBar::step() const
{
    return d_->scale->step();
}

void BudgetBar::stepBy(int steps)
{
    d_->scale->moveTo(d_->scale->value() + steps * d_->scale->step());
}

} // namespace headroom
