// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/inspector_parts.h"

#include "views/plot/number_text.h"
#include "views/plot/text_line.h"
#include "views/plot/tradeoff_curve.h"
#include "views/theme/styles.h"
#include "views/theme/theme.h"

#include <QComboBox>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QLocale>
#include <QPainter>
#include <QProgressBar>
#include <QPushButton>
#include <QStringList>
#include <QVBoxLayout>

#include <algorithm>
#include <utility>

namespace headroom {
namespace {

constexpr int optionHeight = 40;
constexpr int radius = 6;
constexpr int textLeft = 30;
constexpr int textRight = 8;

} // namespace

OptionButton::OptionButton(const QString& title, QWidget* parent)
    : QRadioButton(title, parent)
{
    setAttribute(Qt::WA_Hover);
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

void OptionButton::setDetails(const QString& kept, const QString& cost)
{
    if (kept == kept_ && cost == cost_)
        return;
    kept_ = kept;
    cost_ = cost;
    setAccessibleDescription(cost.isEmpty() ? kept : kept + QStringLiteral(", ") + cost);
    update();
}

QSize OptionButton::sizeHint() const
{
    return {240, optionHeight};
}

QSize OptionButton::minimumSizeHint() const
{
    return {120, optionHeight};
}

bool OptionButton::hitButton(const QPoint& position) const
{
    return rect().contains(position);
}

void OptionButton::paintEvent(QPaintEvent*)
{
    const Theme& theme = Theme::of(*this);
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    const QRectF frame = QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5);
    painter.setPen(hasFocus() ? QPen(theme.text, 1) : QPen(Qt::NoPen));
    if (isChecked())
        painter.setBrush(theme.accentSoft);
    else if (underMouse() && isEnabled())
        painter.setBrush(theme.hover);
    painter.drawRoundedRect(frame, radius, radius);

    const QPointF circle(16, height() / 2.0);
    painter.setPen(QPen(isChecked() ? theme.accent : theme.secondText, 1.4));
    painter.setBrush(Qt::NoBrush);
    painter.drawEllipse(circle, 5, 5);
    if (isChecked()) {
        painter.setPen(Qt::NoPen);
        painter.setBrush(theme.accent);
        painter.drawEllipse(circle, 2.6, 2.6);
    }

    const QRect top(textLeft, 4, width() - textLeft - textRight, height() / 2 - 4);
    const QRect bottom(textLeft, height() / 2, top.width(), height() / 2 - 4);
    painter.setFont(isChecked() ? theme.bodyStrong : theme.body);
    painter.setPen(!isEnabled() ? theme.secondText : isChecked() ? theme.accent : theme.text);
    paintElided(painter, top, Qt::AlignLeft | Qt::AlignVCenter, text(), Qt::ElideRight);
    painter.setFont(theme.numberCaption);
    painter.setPen(theme.secondText);
    const int costWidth = qRound(lineWidth(theme.numberCaption, cost_));
    paintLine(painter, bottom, Qt::AlignRight | Qt::AlignVCenter, cost_);
    paintElided(painter, bottom.adjusted(0, 0, -costWidth - 8, 0), Qt::AlignLeft | Qt::AlignVCenter, kept_,
                Qt::ElideRight);
}

namespace {

constexpr int peakBarHeight = 8;
constexpr int barGap = 4;
constexpr int headHeight = 24;
constexpr int categoryHeight = 22;
constexpr int numberColumn = 52;
constexpr int swatch = 8;

} // namespace

PeakTable::PeakTable(QWidget* parent)
    : QWidget(parent)
{
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

void PeakTable::setPeaks(const CategoryBytes& recorded, const std::optional<CategoryBytes>& planned)
{
    if (recorded == recorded_ && planned == planned_)
        return;
    const std::size_t before = shownCategories().size();
    recorded_ = recorded;
    planned_ = planned;
    QStringList lines;
    for (const Category category : shownCategories()) {
        const auto i = static_cast<std::size_t>(category);
        lines << tr("%1: recorded %2, plan %3")
                     .arg(categoryTitle(category), bytesText(recorded_[i], 2),
                          planned_ ? bytesText((*planned_)[i], 2) : tr("none"));
    }
    setAccessibleDescription(lines.join(QStringLiteral("; ")));
    if (shownCategories().size() != before)
        updateGeometry();
    update();
}

std::vector<Category> PeakTable::shownCategories() const
{
    std::vector<Category> shown(stackOrder.rbegin(), stackOrder.rend());
    std::erase_if(shown, [this](Category category) {
        const auto i = static_cast<std::size_t>(category);
        return recorded_[i] == 0 && (!planned_ || (*planned_)[i] == 0);
    });
    return shown;
}

QSize PeakTable::sizeHint() const
{
    const int rows = static_cast<int>(shownCategories().size()) + 1; // and the sum
    return {240, 2 * peakBarHeight + barGap + headHeight + rows * categoryHeight + 6};
}

void PeakTable::paintBar(QPainter& painter, double top, const CategoryBytes& bytes, bool pale) const
{
    const Theme& theme = Theme::of(*this);
    const Bytes most = std::max({total(recorded_), planned_ ? total(*planned_) : 0, Bytes(1)});
    double left = 0;
    for (const Category category : stackOrder) {
        const double length
            = width() * static_cast<double>(bytes[static_cast<std::size_t>(category)]) / static_cast<double>(most);
        if (length <= 0)
            continue;
        const QRectF part(left, top, length > 2 ? length - 1 : length,
                          peakBarHeight); // 1 px of card parts two categories
        if (pale)
            theme.paintPale(painter, part, category);
        else
            painter.fillRect(part, theme.color(category));
        left += length;
    }
}

void PeakTable::paintEvent(QPaintEvent*)
{
    const Theme& theme = Theme::of(*this);
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    paintBar(painter, 0, recorded_, true);
    if (planned_)
        paintBar(painter, peakBarHeight + barGap, *planned_, false);

    const double largest = static_cast<double>(std::max(total(recorded_), planned_ ? total(*planned_) : 0));
    const ByteUnit unit = byteUnitFor(largest);
    int top = 2 * peakBarHeight + barGap;
    const auto cell = [&](int column) {
        return QRect(width() - (2 - column) * numberColumn, top, numberColumn, column < 0 ? 0 : categoryHeight);
    };
    const auto numbers = [&](Bytes recorded, std::optional<Bytes> planned) {
        painter.setFont(theme.number);
        painter.setPen(theme.secondText);
        paintLine(painter, cell(0), Qt::AlignRight | Qt::AlignVCenter, inUnit(recorded, unit, 2));
        painter.setFont(theme.numberStrong);
        painter.setPen(theme.text);
        paintLine(painter, cell(1), Qt::AlignRight | Qt::AlignVCenter,
                  planned ? inUnit(*planned, unit, 2) : QStringLiteral("–"));
    };

    painter.setFont(theme.caption);
    painter.setPen(theme.secondText);
    paintLine(painter, cell(0).adjusted(0, 2, 0, 2), Qt::AlignRight | Qt::AlignVCenter, tr("Recorded"));
    paintLine(painter, cell(1).adjusted(0, 2, 0, 2), Qt::AlignRight | Qt::AlignVCenter, tr("Plan"));
    top += headHeight;
    for (const Category category : shownCategories()) {
        const auto i = static_cast<std::size_t>(category);
        painter.setPen(Qt::NoPen);
        painter.setBrush(theme.color(category));
        painter.drawRoundedRect(QRectF(0, top + (categoryHeight - swatch) / 2.0, swatch, swatch), 1.5, 1.5);
        painter.setFont(theme.body);
        painter.setPen(theme.text);
        // A long name takes the rest of the column beside the number.
        const int number = qRound(lineWidth(theme.number, inUnit(recorded_[i], unit, 2)));
        const QRect name(swatch + 8, top, width() - numberColumn - number - 6 - (swatch + 8), categoryHeight);
        paintElided(painter, name, Qt::AlignLeft | Qt::AlignVCenter, categoryTitle(category), Qt::ElideRight);
        numbers(recorded_[i], planned_ ? std::optional((*planned_)[i]) : std::nullopt);
        top += categoryHeight;
    }
    painter.setPen(theme.line);
    painter.drawLine(QPointF(0, top + 1.5), QPointF(width(), top + 1.5));
    top += 4;
    painter.setFont(theme.bodyStrong);
    painter.setPen(theme.text);
    paintLine(painter, QRect(0, top, width() - 2 * numberColumn, categoryHeight), Qt::AlignLeft | Qt::AlignVCenter,
              tr("Total"));
    numbers(total(recorded_), planned_ ? std::optional(total(*planned_)) : std::nullopt);
}

namespace {

constexpr int curveRowHeight = 20;

QString shareText(const TradeOffPoint& point)
{
    if (point.ratio <= 0)
        return CurveTable::tr("keeps everything");
    if (point.ratio >= 1)
        return CurveTable::tr("discards everything");
    // Near both ends a digit more, so that nothing but all is "everything".
    const double percent = std::clamp(100 * point.ratio, 0.1, 99.9);
    const int digits = percent < 1 || percent > 99 ? 1 : 0;
    return CurveTable::tr("discards %1 %").arg(QLocale::c().toString(percent, 'f', digits));
}

QString costText(const TradeOffPoint& point)
{
    return point.ms > 0 ? CurveTable::tr("+%1 ms").arg(QLocale::c().toString(point.ms, 'f', 2))
                        : CurveTable::tr("no recompute");
}

} // namespace

CurveTable::CurveTable(QWidget* parent)
    : QWidget(parent)
{
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

void CurveTable::setPoints(std::vector<TradeOffPoint> points, int chosen)
{
    if (points == points_ && chosen == chosen_)
        return;
    const bool resized = points.size() != points_.size();
    points_ = std::move(points);
    chosen_ = chosen;
    QStringList lines;
    for (std::size_t i = 0; i < points_.size(); ++i)
        lines << tr("%1, %2%3")
                     .arg(shareText(points_[i]), costText(points_[i]),
                          static_cast<int>(i) == chosen_ ? tr(", chosen by the plan") : QString());
    setAccessibleDescription(lines.join(QStringLiteral("; ")));
    if (resized)
        updateGeometry();
    update();
}

QSize CurveTable::sizeHint() const
{
    return {240, static_cast<int>(points_.size()) * curveRowHeight};
}

void CurveTable::paintEvent(QPaintEvent*)
{
    const Theme& theme = Theme::of(*this);
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    for (std::size_t i = 0; i < points_.size(); ++i) {
        const bool chosen = static_cast<int>(i) == chosen_;
        const int top = static_cast<int>(i) * curveRowHeight;
        const QRect row(textLeft, top, width() - textLeft - textRight, curveRowHeight);
        paintDot(painter, QPointF(16, top + curveRowHeight / 2.0), 3, chosen ? theme.accent : theme.card,
                 chosen ? theme.accent : theme.secondText, 1.2);
        painter.setPen(chosen ? theme.accent : theme.secondText);
        painter.setFont(theme.caption);
        paintLine(painter, row, Qt::AlignLeft | Qt::AlignVCenter, shareText(points_[i]));
        painter.setFont(theme.numberCaption);
        paintLine(painter, row, Qt::AlignRight | Qt::AlignVCenter, costText(points_[i]));
    }
}

VerifyRow::VerifyRow(QWidget* parent)
    : QWidget(parent)
    , button_(new QPushButton(tr("Verify"), this))
    , progress_(makeProgressBar(this))
    , text_(makeLabel(this))
{
    setObjectName(QStringLiteral("verifyRow"));
    button_->setObjectName(QStringLiteral("verifyButton"));
    text_->setObjectName(QStringLiteral("verifyText"));
    text_->setWordWrap(true);
    text_->setTextInteractionFlags(Qt::TextSelectableByMouse);
    progress_->setAccessibleName(tr("Share of the verification that is done"));
    auto* row = new QHBoxLayout;
    row->setSpacing(8);
    row->addWidget(button_);
    row->addWidget(progress_, 1);
    row->addStretch(0);
    auto* column = makeLayout<QVBoxLayout>(this, {0, 4, 0, 4}, 4);
    column->addLayout(row);
    column->addWidget(text_);
    connect(button_, &QPushButton::clicked, this, [this] {
        if (running_)
            Q_EMIT cancelWanted();
        else
            Q_EMIT wanted();
    });
    setVerdict(Verdict::none, {});
}

void VerifyRow::setOffer(bool possible, const QString& why)
{
    button_->setEnabled(possible || running_);
    button_->setToolTip(why);
    button_->setAccessibleDescription(why);
}

void VerifyRow::setProgress(double share, const QString& stage)
{
    running_ = true;
    verdict_ = Verdict::none;
    button_->setText(tr("Cancel"));
    button_->setEnabled(true);
    progress_->show();
    showShare(*progress_, share);
    setDanger(*text_, false);
    text_->setText(tr("Verifying: %1").arg(stage));
    text_->show();
}

void VerifyRow::setVerdict(Verdict verdict, const QString& text)
{
    running_ = false;
    verdict_ = verdict;
    button_->setText(tr("Verify"));
    progress_->hide();
    text_->setText(verdict == Verdict::kept ? QStringLiteral("✓ %1").arg(text) : text);
    text_->setVisible(!text.isEmpty());
    setDanger(*text_, verdict == Verdict::broken);
}

QString VerifyRow::text() const
{
    return text_->text();
}

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
    cost_ = addRow(
        "opsCost", tr("An op costs"),
        tr("Cost of running an op a second time, as in torch.compile's activation_memory_budget_runtime_estimator"));
    cost_->addItem(tr("time in the step"));
    cost_->addItem(tr("flops"));
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
