// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/tradeoff_view.h"

#include "views/plot/axis_map.h"
#include "views/plot/legend.h"
#include "views/plot/number_text.h"
#include "views/plot/text_line.h"
#include "views/theme/styles.h"

#include <QChart>
#include <QKeyEvent>
#include <QPainter>
#include <QToolTip>
#include <QVBoxLayout>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

namespace headroom {
namespace {

constexpr double leftMargin = 58;
constexpr double topMargin = 10;
constexpr double rightMargin = 18;
constexpr double bottomMargin = 44;
constexpr double roomBelowZero = 9; ///< pixels
constexpr double roomOfTitle = 8; ///< pixels above and below
constexpr double cornerReach = 9; ///< pixels
// Pixels that are painted around a point of the plan: the dot, and a count beside.
constexpr double dotReach = 8;
constexpr double countHeight = 20;
constexpr double countWidth = 76;

} // namespace

TradeOffChart::TradeOffChart(QWidget* parent)
    : PlotChart(tr("Trade-off of the selected module"), parent)
{
    connect(chart()->scene(), &QGraphicsScene::changed, this, [this] { scenery_.forget(); });
}

void TradeOffChart::setPicture(const TradeOffPicture& picture, double msPerGiB, const QString& empty)
{
    if (picture.selected != picture_.selected || current_ >= static_cast<int>(picture.curve.size()))
        current_ = -1;
    if (picture.others != picture_.others || picture.estimate != picture_.estimate)
        scenery_.forget();
    const bool sameCurves = !picture.curve.empty() && picture.selected == picture_.selected
        && picture.curve == picture_.curve && picture.others == picture_.others
        && picture.estimate == picture_.estimate;
    const auto shown = [this] {
        const TradeOffPlane at = plane();
        return std::tuple(at.kept.data.begin, at.kept.data.end, at.ms.data.begin, at.ms.data.end);
    };
    const auto before = shown();
    QRectF changed = planRect();
    picture_ = picture;
    msPerGiB_ = msPerGiB;
    empty_ = empty;
    const bool any = !picture_.curve.empty();
    xAxis().setVisible(any);
    yAxis().setVisible(any);
    updateAxes(Theme::of(*this));
    setAccessibleDescription(any && picture_.hasPlan ? tr("The plan: %1").arg(words(picture_.chosen)) : empty_);
    changed |= planRect();
    if (sameCurves && shown() == before)
        viewport()->update(changed.toAlignedRect());
    else
        viewport()->update();
}

/// The rectangle that a plan changes: choices, counts, and the line of the price.
QRectF TradeOffChart::planRect() const
{
    const auto plane = this->plane();
    QRectF rect;
    const auto add = [&](const TradeOffPoint& point) {
        const QPointF at = plane.at(point);
        rect |= QRectF(at.x() - dotReach, at.y() - countHeight, countWidth, countHeight + dotReach);
    };
    for (const auto& choice : picture_.choices)
        add(choice.point);
    if (!picture_.hasPlan)
        return rect;
    add(picture_.chosen);
    if (msPerGiB_ > 0) {
        const TangentPiece piece = tangent(picture_, msPerGiB_);
        add({0, piece.keptBegin, piece.msBegin});
        add({0, piece.keptEnd, piece.msEnd});
    }
    return rect;
}

namespace {

void setTitle(QValueAxis& axis, const QString& title)
{
    if (axis.titleText() != title)
        axis.setTitleText(title);
}

} // namespace

void TradeOffChart::updateAxes(const Theme& theme)
{
    setAxisStyle(theme);
    // The ranges leave room below zero, so that dots on an axis are whole, and after the last point for the count.
    const auto range = [](double most, double pixels, double above) {
        const double perPixel = most / std::max(pixels - roomBelowZero - above, 1.0);
        return AxisRange{-roomBelowZero * perPixel, most + above * perPixel};
    };
    const auto plot = chart()->plotArea();
    const ByteUnit bytes = picture_.keptUnit();
    const TimeUnit time = picture_.timeUnit();
    const QString timeName = QString::fromUtf8(time.name);
    const QString title = tr("Recompute, %1").arg(timeName);
    const bool fits = QFontMetricsF(theme.caption).horizontalAdvance(title) + roomOfTitle <= plot.height();
    setTitle(yAxis(), fits ? title : timeName);
    setTitle(xAxis(), tr("Activation memory kept, %1").arg(QLatin1String(bytes.name)));
    const auto kept = range(picture_.keptEnd() / bytes.bytes, plot.width(), 36);
    const auto ms = range(picture_.msEnd() / time.ms, plot.height(), 18);
    const auto ticks = [](AxisRange shown, double mostSteps) {
        return niceTicks({0, shown.end}, std::max(2, static_cast<int>(mostSteps)));
    };
    setAxis(xAxis(), kept, ticks(kept, plot.width() / 80));
    setAxis(yAxis(), ms, ticks(ms, plot.height() / 36));
}

void TradeOffChart::place()
{
    const QRectF canvas(QPointF(0, 0), QSizeF(viewport()->size()));
    const auto plot = canvas.adjusted(leftMargin, topMargin, -rightMargin, -bottomMargin);
    if (plot.width() < 10 || plot.height() < 10)
        return;
    setPlotArea(plot);
    updateAxes(Theme::of(*this));
}

void TradeOffChart::resizeEvent(QResizeEvent* event)
{
    QChartView::resizeEvent(event);
    place();
}

TradeOffPlane TradeOffChart::plane() const
{
    const auto plot = chart()->plotArea();
    const auto rangeOf = [](const QValueAxis& axis, double unit) {
        return AxisRange{axis.min() * unit, axis.max() * unit};
    };
    return {{rangeOf(xAxis(), picture_.keptUnit().bytes), plot.left(), plot.right()},
            {rangeOf(yAxis(), picture_.timeUnit().ms), plot.bottom(), plot.top()}};
}

void TradeOffChart::paintEvent(QPaintEvent*)
{
    const auto& theme = Theme::of(*this);
    QPainter painter(viewport());
    scenery_.paint(painter, *viewport(), [&](QPainter& into) {
        into.setRenderHint(QPainter::Antialiasing);
        chart()->scene()->render(&into, viewport()->rect(), viewport()->rect());
        paintOtherCurves(into, picture_, plane(), theme);
    });
    painter.setRenderHint(QPainter::Antialiasing);
    paintPlan(painter, theme);
}

void TradeOffChart::paintPlan(QPainter& painter, const Theme& theme) const
{
    if (picture_.curve.empty()) {
        painter.setFont(theme.body);
        painter.setPen(theme.secondText);
        painter.drawText(QRectF(viewport()->rect()).adjusted(24, 0, -24, 0), Qt::AlignCenter | Qt::TextWordWrap,
                         withBreakPoints(empty_));
        return;
    }
    const auto plane = this->plane();
    paintChoices(painter, picture_, msPerGiB_, plane, theme);
    painter.setFont(theme.numberCaption);
    painter.setPen(theme.accent);
    std::vector<QRectF> counts; // drawn so far
    for (const auto& choice : picture_.choices) {
        const QString count = QStringLiteral("×%1").arg(choice.modules);
        const auto at = plane.at(choice.point);
        const QRectF box(at.x() + 8, at.y() - 20, painter.fontMetrics().horizontalAdvance(count) + 2, 16);
        if (choice.modules <= 1
            || std::ranges::any_of(counts, [&](const QRectF& other) { return other.intersects(box); }))
            continue;
        counts.push_back(box);
        painter.drawText(box, Qt::AlignLeft | Qt::AlignVCenter, count);
    }
    if (current_ >= 0) {
        painter.setBrush(Qt::NoBrush);
        painter.setPen(QPen(theme.text, 1.5));
        painter.drawEllipse(plane.at(picture_.curve[static_cast<std::size_t>(current_)]), 8, 8);
    }
}

QString TradeOffChart::words(const TradeOffPoint& point) const
{
    return tr("keeps %1, recomputes %2 % in %3")
        .arg(bytesText(static_cast<Bytes>(point.kept)), QString::number(100 * point.ratio, 'f', 0), msText(point.ms));
}

int TradeOffChart::cornerAt(QPointF position) const
{
    int best = -1;
    double nearest = cornerReach;
    const auto plane = this->plane();
    for (std::size_t i = 0; i < picture_.curve.size(); ++i) {
        const auto away = plane.at(picture_.curve[i]) - position;
        const double distance = std::hypot(away.x(), away.y());
        if (distance < nearest) {
            nearest = distance;
            best = static_cast<int>(i);
        }
    }
    return best;
}

void TradeOffChart::mouseMoveEvent(QMouseEvent* event)
{
    const int corner = cornerAt(event->position());
    if (corner != current_) {
        current_ = corner;
        viewport()->update();
    }
    viewport()->setCursor(corner >= 0 ? Qt::PointingHandCursor : Qt::ArrowCursor);
    if (corner >= 0)
        WrappedToolTips::show(event->globalPosition().toPoint(),
                              words(picture_.curve[static_cast<std::size_t>(corner)]), this);
    else
        QToolTip::hideText();
}

void TradeOffChart::mousePressEvent(QMouseEvent* event)
{
    const int corner = event->button() == Qt::LeftButton ? cornerAt(event->position()) : -1;
    if (corner >= 0)
        Q_EMIT pointChosen(picture_.curve[static_cast<std::size_t>(corner)].ratio);
}

void TradeOffChart::keyPressEvent(QKeyEvent* event)
{
    const int last = static_cast<int>(picture_.curve.size()) - 1;
    const auto go = [&](int to) {
        current_ = std::clamp(to, 0, last);
        setAccessibleDescription(words(picture_.curve[static_cast<std::size_t>(current_)]));
        viewport()->update();
    };
    if (last < 0)
        return event->ignore();
    switch (event->key()) {
    case Qt::Key_Left: // less is kept: further along the curve
        return go(current_ < 0 ? 0 : current_ + 1);
    case Qt::Key_Right:
        return go(current_ < 0 ? last : current_ - 1);
    case Qt::Key_Return:
    case Qt::Key_Enter:
        if (current_ >= 0)
            Q_EMIT pointChosen(picture_.curve[static_cast<std::size_t>(current_)].ratio);
        return;
    default:
        event->ignore();
    }
}

void TradeOffChart::focusInEvent(QFocusEvent* event)
{
    QChartView::focusInEvent(event);
    if (event->reason() != Qt::MouseFocusReason && current_ < 0 && !picture_.curve.empty())
        current_ = 0;
    viewport()->update();
}

void TradeOffChart::focusOutEvent(QFocusEvent* event)
{
    QChartView::focusOutEvent(event);
    current_ = -1;
    viewport()->update();
}

void TradeOffChart::wheelEvent(QWheelEvent* event)
{
    event->ignore();
}

namespace {

enum ColumnOf { discardedColumn, keptColumn, recomputeColumn, chosenColumn, columns };

} // namespace

void TradeOffTable::setPicture(const TradeOffPicture& picture)
{
    beginResetModel();
    rows_.clear();
    for (const auto& point : picture.curve)
        rows_.push_back({point, false});
    if (picture.hasPlan && !picture.curve.empty()) {
        const auto corner = std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) {
            return std::abs(row.point.ratio - picture.chosen.ratio) < 1e-6;
        });
        if (corner != rows_.end()) {
            corner->chosen = true;
        } else {
            const auto after = std::find_if(rows_.begin(), rows_.end(),
                                            [&](const Row& row) { return row.point.ratio > picture.chosen.ratio; });
            rows_.insert(after, {picture.chosen, true});
        }
    }
    endResetModel();
}

int TradeOffTable::rowCount(const QModelIndex& parent) const
{
    return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}

int TradeOffTable::columnCount(const QModelIndex& parent) const
{
    return parent.isValid() ? 0 : columns;
}

QVariant TradeOffTable::data(const QModelIndex& index, int role) const
{
    if (!index.isValid())
        return {};
    if (role == Qt::TextAlignmentRole && index.column() != chosenColumn)
        return cellAlignment(true);
    if (role != Qt::DisplayRole)
        return {};
    const auto& row = rows_[static_cast<std::size_t>(index.row())];
    switch (index.column()) {
    case discardedColumn:
        return QString::number(100 * row.point.ratio, 'f', 1);
    case keptColumn:
        return QString::number(row.point.kept / static_cast<double>(MiB), 'f', 2);
    case recomputeColumn:
        return QString::number(row.point.ms, 'f', 3);
    default:
        return row.chosen ? tr("chosen") : QString();
    }
}

QVariant TradeOffTable::headerData(int section, Qt::Orientation orientation, int role) const
{
    if (orientation != Qt::Horizontal || role != Qt::DisplayRole)
        return {};
    return QStringList{tr("Discarded, %"), tr("Kept, MiB"), tr("Recompute, ms"), tr("Plan")}.value(section);
}

TradeOffView::TradeOffView(QWidget* parent)
    : QWidget(parent)
    , head_(new LegendBar(this))
    , chart_(new TradeOffChart(this))
    , table_(new TradeOffTable(this))
{
    auto* column = makeLayout<QVBoxLayout>(this, {12, 8, 8, 8}, 2);
    column->addWidget(head_);
    column->addWidget(chart_, 1);
    connect(chart_, &TradeOffChart::pointChosen, this, [this](double ratio) { Q_EMIT pointChosen(fqn_, ratio); });
    connect(chart_, &TradeOffChart::themeChanged, this, &TradeOffView::showPicture);
    showPicture();
}

QString TradeOffView::whyEmpty(const TradeOffPicture& picture) const
{
    if (!info_)
        return tr("Open a step to see the cost of less memory");
    if (!picture.selected)
        return tr("Select a module to see the cost of recomputation");
    if (picture.selected->isLeaf)
        return tr("%1 has no modules inside: only a module with children is checkpointed")
            .arg(QString::fromStdString(fqn_));
    return tr("%1 keeps nothing that could be recomputed").arg(QString::fromStdString(fqn_));
}

void TradeOffView::showHead(const TradeOffPicture& picture)
{
    const auto& theme = Theme::of(*this);
    std::vector<LegendEntry> entries;
    if (!picture.curve.empty()) {
        if (!picture.estimate.empty()) {
            entries.push_back({tr("checkpointing options"), theme.text, LegendEntry::Symbol::line});
            entries.push_back({tr("PyTorch's estimate"), theme.quiet, LegendEntry::Symbol::line});
        }
        if (!picture.others.empty())
            entries.push_back({tr("others of the class"), theme.quiet, LegendEntry::Symbol::line});
        if (picture.hasPlan)
            entries.push_back({fits_ ? tr("chosen by the plan") : tr("in the plan of least memory"),
                               theme.accent, LegendEntry::Symbol::dot});
        if (picture.hasPlan && price_ > 0)
            entries.push_back({tr("%1 ms per GiB").arg(price_, 0, 'f', price_ < 10 ? 1 : 0), theme.accent,
                               LegendEntry::Symbol::dash});
    }
    head_->setTitle(picture.selected ? tr("Trade-off of %1").arg(QString::fromStdString(fqn_)) : tr("Trade-off"));
    head_->setEntries(std::move(entries));
}

TradeOffPicture TradeOffView::picture() const
{
    if (!info_)
        return {};
    return tradeOffPicture(*info_, fqn_, planned_, optionsFqn_ == fqn_ ? options_ : std::vector<ModuleOption>());
}

void TradeOffView::showPicture()
{
    const auto picture = this->picture();
    showHead(picture);
    chart_->setPicture(picture, price_, picture.curve.empty() ? whyEmpty(picture) : QString());
    table_->setPicture(picture);
}

void TradeOffView::setModules(ModuleInfoPtr info)
{
    info_ = std::move(info);
    options_.clear();
    planned_ = {};
    price_ = 0;
    showPicture();
}

void TradeOffView::select(const std::string& fqn)
{
    if (fqn == fqn_)
        return;
    fqn_ = fqn;
    showPicture();
}

void TradeOffView::setOptions(const std::string& fqn, std::vector<ModuleOption> options)
{
    optionsFqn_ = fqn;
    options_ = std::move(options);
    showPicture();
}

void TradeOffView::setPlan(PlannedPoint planned, double msPerGiB, bool fits)
{
    fits_ = fits;
    price_ = std::isfinite(msPerGiB) ? msPerGiB : 0;
    planned_ = std::move(planned);
    showPicture();
}

void TradeOffView::clearPlan()
{
    planned_ = {};
    showPicture();
}

QAbstractItemModel* TradeOffView::table() const
{
    return table_;
}

} // namespace headroom
