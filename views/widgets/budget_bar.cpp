// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/budget_bar.h"

#include "core/joint/ops_frontier.h"
#include "views/plot/number_text.h"
#include "views/theme/styles.h"
#include "views/theme/theme.h"

#include <QButtonGroup>
#include <QCheckBox>
#include <QFontMetrics>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QPainter>
#include <QPushButton>
#include <QToolButton>

#include <algorithm>
#include <utility>

namespace headroom {
namespace {

constexpr int captionHeight = 18;
constexpr int numberHeight = 28;
constexpr int restGap = 5;

} // namespace

ResultFigure::ResultFigure(const QString& caption, QWidget* parent)
    : QWidget(parent)
    , caption_(caption)
{
    setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Fixed);
    setValue(QStringLiteral("–"), {});
}

void ResultFigure::setValue(const QString& number, const QString& rest)
{
    if (number == number_ && rest == rest_)
        return;
    number_ = number;
    rest_ = rest;
    setAccessibleName(caption_ + QStringLiteral(": ") + number_ + QLatin1Char(' ') + rest_);
    const auto& theme = Theme::of(*this);
    const int needed = std::max(QFontMetrics(theme.body).horizontalAdvance(caption_),
                                QFontMetrics(theme.numberLarge).horizontalAdvance(number_) + restGap
                                    + QFontMetrics(theme.number).horizontalAdvance(rest_));
    if (needed > widest_) {
        widest_ = needed;
        updateGeometry();
    }
    update();
}

void ResultFigure::setMood(Mood mood)
{
    if (std::exchange(mood_, mood) != mood)
        update();
}

QSize ResultFigure::sizeHint() const
{
    return {std::max(widest_ + 4, 96), captionHeight + numberHeight};
}

void ResultFigure::paintEvent(QPaintEvent*)
{
    const auto& theme = Theme::of(*this);
    QPainter painter(this);
    painter.setFont(theme.body);
    painter.setPen(theme.secondText);
    painter.drawText(QRect(0, 0, width(), captionHeight), Qt::AlignLeft | Qt::AlignVCenter, caption_);
    const int baseline = captionHeight + QFontMetrics(theme.numberLarge).ascent() + 2;
    painter.setFont(theme.numberLarge);
    painter.setPen(mood_ == Mood::danger ? theme.danger : mood_ == Mood::old ? theme.secondText : theme.text);
    painter.drawText(QPoint(0, baseline), number_);
    const int x = QFontMetrics(theme.numberLarge).horizontalAdvance(number_) + restGap;
    painter.setFont(theme.number);
    painter.setPen(theme.secondText);
    painter.drawText(QPoint(x, baseline), rest_);
}

BudgetEdit::BudgetEdit(QWidget* parent)
    : QWidget(parent)
    , line_(new QLineEdit(this))
    , unit_(makeLabel(this))
{
    auto* row = makeLayout<QHBoxLayout>(this, {0, 0, 0, 0}, 4);
    row->addWidget(line_);
    row->addWidget(unit_, 0, Qt::AlignBottom);
    row->addStretch(1);
    unit_->setContentsMargins(0, 0, 0, 3);
    line_->setTextMargins(-2, 0, 0, 0); // QLineEdit insets the text by two pixels
    line_->setAccessibleName(tr("Budget value"));
    line_->installEventFilter(this);
    setUnitOf(GiB);
    setProblem({});
    connect(line_, &QLineEdit::textEdited, this, [this] { fitWidth(); });
    connect(line_, &QLineEdit::editingFinished, this, [this] { // by Return, too
        if (line_->isModified()) // the text of an unchanged value is rounded
            read();
    });
}

void BudgetEdit::setValue(Bytes value)
{
    const bool isTyped = line_->isModified() && line_->hasFocus() && problem_.isEmpty();
    if (const bool isOther = std::exchange(value_, value) != value; !line_->isModified() || (isOther && !isTyped))
        show();
}

void BudgetEdit::setUnitOf(Bytes largest)
{
    if (line_->isModified()) // a number in the former unit is being typed
        return;
    shownIn_ = byteUnitFor(static_cast<double>(largest));
    unit_->setText(QLatin1String(shownIn_.name));
    show();
}

void BudgetEdit::setDanger(bool danger)
{
    if (danger == danger_)
        return;
    danger_ = danger;
    applyStyle();
}

void BudgetEdit::show()
{
    line_->setText(inUnit(value_, shownIn_, 2));
    line_->setModified(false);
    fitWidth();
    if (!problem_.isEmpty())
        setProblem({});
}

void BudgetEdit::setProblem(const QString& problem)
{
    problem_ = problem;
    line_->setToolTip(problem.isEmpty() ? tr("Type a size: 12.5 GiB, 800 MiB") : problem);
    line_->setAccessibleDescription(line_->toolTip());
    applyStyle();
}

// Fits the width to the text, so that the unit follows the number, with a usual number as the least.
void BudgetEdit::fitWidth()
{
    const QFontMetrics metrics(Theme::of(*this).numberLarge);
    const int text = metrics.horizontalAdvance(line_->text());
    line_->setFixedWidth(std::max(text, metrics.horizontalAdvance(QStringLiteral("00.00"))) + 5);
}

void BudgetEdit::read()
{
    QString text = line_->text().trimmed();
    bool plain = false;
    text.toDouble(&plain);
    if (plain)
        text += QLatin1Char(' ') + QLatin1String(shownIn_.name);
    const auto bytes = parseBytes(text.toStdString());
    if (!bytes) {
        setProblem(QString::fromStdString(bytes.error().message));
        WrappedToolTips::show(line_->mapToGlobal(line_->rect().bottomLeft()), problem_, line_);
        return;
    }
    value_ = *bytes;
    show();
    Q_EMIT entered(value_);
}

bool BudgetEdit::eventFilter(QObject* watched, QEvent* event)
{
    const bool isShortcut = event->type() == QEvent::ShortcutOverride;
    if (watched != line_ || (!isShortcut && event->type() != QEvent::KeyPress))
        return QWidget::eventFilter(watched, event);
    const auto* key = static_cast<QKeyEvent*>(event);
    if (isShortcut) {
        if (line_->isModified() || !(key->matches(QKeySequence::Undo) || key->matches(QKeySequence::Redo)))
            return QWidget::eventFilter(watched, event);
        event->ignore(); // of the window, not of the text
        return true;
    }
    switch (key->key()) {
    case Qt::Key_Up:
        Q_EMIT stepped(+1);
        return true;
    case Qt::Key_Down:
        Q_EMIT stepped(-1);
        return true;
    case Qt::Key_PageUp:
        Q_EMIT stepped(+16);
        return true;
    case Qt::Key_PageDown:
        Q_EMIT stepped(-16);
        return true;
    case Qt::Key_Escape:
        if (!line_->isModified())
            return false;
        show();
        return true;
    default:
        return false;
    }
}

void BudgetEdit::changeEvent(QEvent* event)
{
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange)
        applyStyle();
}

void BudgetEdit::applyStyle()
{
    const auto& theme = Theme::of(*this);
    const bool red = danger_ || !problem_.isEmpty();
    fitWidth();
    // Flat until used, so that the field reads as a number first.
    line_->setStyleSheet(QStringLiteral("QLineEdit { font-family: Roboto; font-size: 20px; font-weight: 500; color: %1;"
                                        " background: transparent; border: none; border-bottom: 1px solid transparent;"
                                        " border-radius: 0; padding: 0; }"
                                        "QLineEdit:hover { border-bottom-color: %2; }"
                                        "QLineEdit:focus { border-bottom-color: %3; }")
                             .arg((red ? theme.danger : theme.text).name(), theme.hatch.name(), theme.text.name()));
    unit_->setStyleSheet(QStringLiteral("QLabel { font-size: 12px; color: %1; }").arg(theme.secondText.name()));
}

namespace {

constexpr int fieldWidth = 84; // of "128 GiB" with its margins

// A solve usually takes a few ms, too short for grey figures to be more than a flicker.
constexpr int greyAfterMs = 150;

// The curve gets a pixel for each `curveShare` by which the window is higher than usual.
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

OffloadRow::OffloadRow(QWidget* parent)
    : QWidget(parent)
    , box_(new QCheckBox(tr("Allow offload to the host"), this))
    , field_(new QLineEdit(this))
{
    auto* row = makeLayout<QHBoxLayout>(this, {0, 0, 0, 0}, 6);
    row->addWidget(box_);
    row->addWidget(field_);
    row->addStretch(1);
    field_->setPlaceholderText(tr("no limit"));
    field_->setAccessibleName(tr("Most pinned host memory"));
    field_->setFixedWidth(fieldWidth);
    field_->setProperty("small", true);
    box_->setToolTip(
        tr("Plans may move saved tensors to pinned host memory after forward, and back for backward, beside "
           "recomputation"));
    setChoice(false, 0);
    setPossible({});
    connect(box_, &QCheckBox::clicked, this, [this](bool allowed) { Q_EMIT wanted(allowed, hostMemory_); });
    connect(field_, &QLineEdit::editingFinished, this, &OffloadRow::read);
    connect(field_, &QLineEdit::textEdited, this, [this] { setProblem({}); });
}

void OffloadRow::setChoice(bool allowed, Bytes hostMemory)
{
    box_->setChecked(allowed);
    field_->setVisible(allowed);
    if (hostMemory != hostMemory_ || !field_->isModified()) {
        hostMemory_ = hostMemory;
        show();
    }
}

void OffloadRow::setPossible(const QString& whyNot)
{
    setEnabled(whyNot.isEmpty());
    headroom::setPossible(*box_, whyNot);
}

void OffloadRow::show()
{
    field_->setText(hostMemory_ > 0 ? bytesText(hostMemory_, 2) : QString());
    field_->setModified(false);
    setProblem({});
}

void OffloadRow::setProblem(const QString& problem)
{
    field_->setToolTip(problem.isEmpty() ? tr("The most pinned host memory: 64 GiB, 800 MiB; empty: any") : problem);
    setStyleProperty(*field_, "wrong", !problem.isEmpty());
}

void OffloadRow::read()
{
    if (!field_->isModified())
        return;
    const QString text = field_->text().trimmed();
    const Result<Bytes> bytes = text.isEmpty() ? Result<Bytes>(0) : parseBytes(text.toStdString());
    if (!bytes) {
        setProblem(QString::fromStdString(bytes.error().message));
        WrappedToolTips::show(field_->mapToGlobal(field_->rect().bottomLeft()), field_->toolTip(), field_);
        return;
    }
    hostMemory_ = *bytes;
    show();
    Q_EMIT wanted(box_->isChecked(), hostMemory_);
}

BudgetBar::BudgetBar(QWidget* parent)
    : QWidget(parent)
    , modes_(makeModes(this))
    , edit_(new BudgetEdit(this))
    , offload_(new OffloadRow(this))
    , scale_(new BudgetScale(this))
    , peak_(new ResultFigure(tr("Planned peak"), this))
    , time_(new ResultFigure(tr("Step time added"), this))
    , modules_(new ResultFigure(tr("Modules recomputed"), this))
    , fraction_(new ResultFigure(tr("Fraction kept"), this))
    , ops_(new ResultFigure(tr("Ops run again"), this))
    , host_(new ResultFigure(tr("To the host"), this))
    , leastButton_(new QPushButton(this))
{
    auto* value = new QVBoxLayout;
    value->setSpacing(0);
    value->addStretch(1);
    value->addLayout(makeHead());
    value->addWidget(edit_);
    value->addWidget(offload_);
    value->addStretch(1);
    auto* row = makeLayout<QHBoxLayout>(this, {18, 6, 18, 6}, 24);
    row->addLayout(value);
    row->addWidget(scale_, 1);
    for (auto* figure : {peak_, time_, modules_, fraction_, ops_, host_})
        row->addWidget(figure, 0, Qt::AlignVCenter);
    row->insertWidget(3, leastButton_, 0, Qt::AlignVCenter);
    leastButton_->hide();
    leastButton_->setToolTip(tr("Set the smallest budget that has a plan"));
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
    fraction_->setVisible(hasPlan && mode_ == PlanMode::ops && !offloading_); // policies that offload have none
    ops_->setVisible(hasPlan && mode_ == PlanMode::ops);
    host_->setVisible(hasPlan && offloading_);
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
    for (auto* figure : {time_, modules_, fraction_, ops_, host_})
        figure->setMood(mood);
    peak_->setMood(infeasible_ && mood == ResultFigure::Mood::normal ? ResultFigure::Mood::danger : mood);
}

void BudgetBar::showNothing()
{
    for (auto* figure : {peak_, time_, modules_, fraction_, ops_, host_})
        figure->setValue(QStringLiteral("–"), {});
    if (!possible_)
        peak_->setValue(tr("None possible"), {});
}

void BudgetBar::showPlan(const PlanAnswer& answer)
{
    const Plan& plan = answer.plan;
    if (infeasible_) {
        showNothing();
        peak_->setValue(tr("No plan fits"), {});
        leastButton_->setText(tr("Use %1, the least that fits").arg(bytesText(plan.leastBudget, 2)));
        return;
    }
    const ByteUnit unit = byteUnitFor(static_cast<double>(plan.peak));
    peak_->setValue(inUnit(plan.peak, unit, 2), QLatin1String(unit.name));
    const double addedMs = plan.costMs();
    const double share = plan.stepMs > 0 ? 100 * addedMs / plan.stepMs : 0;
    time_->setValue(QLatin1Char('+') + QString::number(addedMs, 'f', addedMs < 10 ? 2 : 1),
                    plan.stepMs > 0 ? tr("ms (%1 %)").arg(QString::number(share, 'f', 1)) : tr("ms"));
    const auto count = std::count_if(plan.decisions.begin(), plan.decisions.end(),
                                     [](const auto& decision) { return decision.second > 0; });
    modules_->setValue(QString::number(count), {});
    const ByteUnit moved = byteUnitFor(static_cast<double>(plan.offload.moved));
    host_->setValue(inUnit(plan.offload.moved, moved, 2), QLatin1String(moved.name));
    scale_->setStepMs(plan.stepMs);
    if (answer.ops)
        showOps(*answer.ops);
}

/// Shows what stands for the number of modules in a plan by op.
void BudgetBar::showOps(const OpsDecisions& decisions)
{
    const OpsPlan& plan = decisions.plan();
    const auto& phases = decisions.frontier->planner.model().trace()->ops.phase;
    fraction_->setValue(QString::number(plan.fraction, 'f', 3), tr("(%1)").arg(bytesText(plan.savedBytes, 2)));
    ops_->setValue(QString::number(std::ranges::count(decisions.decisions, OpDecision::recomputed)),
                   tr("of %1").arg(std::count(phases.begin(), phases.end(), Phase::forward)));
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

void BudgetBar::setFrontier(std::vector<FrontierPoint> frontier, std::vector<FrontierPoint> recompute)
{
    scale_->setFrontier(std::move(frontier), std::move(recompute));
}

void BudgetBar::setOffloading(bool offloading)
{
    offloading_ = offloading;
    showFigures();
}

void BudgetBar::setBudget(Bytes budget)
{
    if (budget == scale_->value())
        return; // emitted by the bar
    scale_->setValue(budget);
    moved(scale_->value());
}

Bytes BudgetBar::budget() const
{
    return scale_->value();
}

void BudgetBar::setResult(const PlanAnswer* answer, bool busy)
{
    if (!busy) {
        grey_.stop();
        infeasible_ = answer && answer->plan.status == PlanStatus::infeasible;
        leastButton_->setVisible(infeasible_ && answer->plan.leastBudget > 0);
        if (answer)
            showPlan(*answer);
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

void BudgetBar::setPossible(const QString& whyNot)
{
    possible_ = whyNot.isEmpty();
    for (QAbstractButton* button : modes_->buttons())
        headroom::setPossible(*button, whyNot);
    showFigures();
}

void BudgetBar::stepBy(int steps)
{
    scale_->moveTo(scale_->value() + steps * scale_->step());
}

} // namespace headroom
