// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/fit_chart.h"

#include "views/plot/number_text.h"
#include "views/plot/text_line.h"
#include "views/theme/styles.h"

#include <QKeyEvent>
#include <QPainter>
#include <QToolTip>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace headroom {
namespace {

constexpr double fitLeft = 56;
constexpr double fitTop = 20; ///< a name above the highest point
constexpr double fitRight = 20;
constexpr double fitBottom = 24;
constexpr double markRow = 11; ///< of the marks of a curve
constexpr double sizeRoom = 14; ///< pixels of the size axis before the first and after the last point
constexpr double sizeTickGap = 46;
constexpr double fitReach = 10; ///< pixels around a point
constexpr double markRadius = 4;

QColor curveColor(std::size_t curve, const Theme& theme)
{
    static constexpr std::array<std::size_t, 6> order{1, 5, 0, 2, 3, 4}; // neighbours differ most
    return theme.ramp[order[curve % order.size()]];
}

QString rateUnit(bool ofSequences)
{
    return ofSequences ? FitChart::tr("tokens/s") : FitChart::tr("samples/s");
}

QString fitWordsOf(const FitSeries& series, const FitRow& row, bool ofSequences)
{
    QString words = FitChart::tr("Batch %1").arg(row.size.batch);
    if (row.size.accumulation > 1)
        words += FitChart::tr(", %1 micro-batches").arg(row.size.accumulation);
    if (row.size.sequence > 0)
        words += FitChart::tr(", sequence %1").arg(row.size.sequence);
    words += FitChart::tr(" on %1").arg(deviceTitle(series.gpu));
    if (!row.failure.empty())
        return words + FitChart::tr(" failed: ") + QString::fromStdString(row.failure);
    const FitRun& run = row.best();
    if (!row.runs())
        return words
            + FitChart::tr(" does not run: the least peak of a plan is %1. %2")
                  .arg(bytesText(run.peak, 2), QString::fromStdString(run.card.reason));
    words += row.plain.runs() ? FitChart::tr(" without a plan: ") : FitChart::tr(" with a plan: ");
    if (const double rate = ofSequences ? run.tokensPerSecond : run.samplesPerSecond; rate > 0)
        words += ratioText(rate) + QLatin1Char(' ') + rateUnit(ofSequences) + QStringLiteral(", ");
    if (run.stepMs > 0)
        words += FitChart::tr("step %1, ").arg(msText(run.stepMs));
    if (row.plan)
        words += FitChart::tr("%1 recompute, ").arg(msText(run.recomputeMs));
    words += FitChart::tr("peak %1, reserved %2; ").arg(bytesText(run.peak, 2), bytesText(run.card.reservedPeak, 2));
    return words
        + (row.isRecorded ? FitChart::tr("recorded") : FitChart::tr("calculated from recordings of other sizes"));
}

FitPoint fitPointOf(const FitSeries& series, std::size_t index, bool ofSequences)
{
    const FitRow& row = series.rows[index];
    FitPoint point;
    point.row = index;
    point.size = ofSequences ? row.size.sequence : row.size.batch;
    point.isRecorded = row.isRecorded;
    point.outcome = !row.failure.empty() ? FitPoint::Outcome::failed
        : row.plain.runs()               ? FitPoint::Outcome::plain
        : row.runs()                     ? FitPoint::Outcome::planned
                                         : FitPoint::Outcome::outOfMemory;
    if (point.runs())
        point.rate = ofSequences ? row.best().tokensPerSecond : row.best().samplesPerSecond;
    point.words = fitWordsOf(series, row, ofSequences);
    return point;
}

bool anyPoint(const FitPicture& picture, const auto& isSo)
{
    return std::ranges::any_of(picture.curves,
                               [&](const FitCurve& curve) { return std::ranges::any_of(curve.points, isSo); });
}

bool isOutOfReach(const FitPoint& point)
{
    return !point.runs();
}

} // namespace

bool FitPicture::hasRates() const noexcept
{
    return anyPoint(*this, [](const FitPoint& point) { return point.rate > 0; });
}

bool FitPicture::hasSizesOutOfReach() const noexcept
{
    return anyPoint(*this, isOutOfReach);
}

FitPicture fitPicture(const FitResult& result, bool ofSequences)
{
    FitPicture picture;
    picture.ofSequences = ofSequences;
    const bool severalOthers = std::ranges::any_of(
        result.series, [&](const FitSeries& series) { return series.other != result.series.front().other; });
    for (const FitSeries& series : result.series) {
        FitCurve& curve = picture.curves.emplace_back();
        curve.title = deviceTitle(series.gpu);
        if (severalOthers)
            curve.title += (ofSequences ? FitChart::tr(", batch %1") : FitChart::tr(", sequence %1")).arg(series.other);
        for (std::size_t row = 0; row < series.rows.size(); ++row)
            curve.points.push_back(fitPointOf(series, row, ofSequences));
        curve.largest = series.largest;
        curve.fastest = series.fastest;
    }
    return picture;
}

QString fitTitle(const FitPicture& picture)
{
    return picture.ofSequences ? FitChart::tr("Tokens a second over sequence length")
                               : FitChart::tr("Samples a second over batch");
}

std::vector<LegendEntry> fitLegend(const FitPicture& picture, const Theme& theme)
{
    using Symbol = LegendEntry::Symbol;
    std::vector<LegendEntry> entries;
    for (std::size_t i = 0; i < picture.curves.size(); ++i)
        entries.push_back({picture.curves[i].title, curveColor(i, theme), Symbol::line});
    if (anyPoint(picture, [](const FitPoint& point) { return point.outcome == FitPoint::Outcome::planned; }))
        entries.push_back({FitChart::tr("with a plan"), theme.secondText, Symbol::diamond});
    if (anyPoint(picture, [](const FitPoint& point) { return point.runs() && !point.isRecorded; }))
        entries.push_back({FitChart::tr("calculated"), theme.hatch, Symbol::dot});
    if (anyPoint(picture, [](const FitPoint& point) { return point.outcome == FitPoint::Outcome::outOfMemory; }))
        entries.push_back({FitChart::tr("out of memory"), theme.secondText, Symbol::ring});
    if (anyPoint(picture, [](const FitPoint& point) { return point.outcome == FitPoint::Outcome::failed; }))
        entries.push_back({FitChart::tr("failed"), theme.danger, Symbol::cross});
    return entries;
}

FitPlane::FitPlane(const FitPicture& picture, const QRectF& canvas)
{
    double least = 0, most = 0, mostRate = 0;
    int marked = 0;
    for (const FitCurve& curve : picture.curves) {
        marked += std::ranges::any_of(curve.points, isOutOfReach) ? 1 : 0;
        for (const FitPoint& point : curve.points) {
            const double log = std::log2(static_cast<double>(std::max<std::int64_t>(point.size, 1)));
            const bool isFirst = &point == &curve.points.front() && &curve == &picture.curves.front();
            least = isFirst ? log : std::min(least, log);
            most = isFirst ? log : std::max(most, log);
            mostRate = std::max(mostRate, point.rate);
        }
    }
    if (most - least < 0.01) {
        least -= 1;
        most += 1;
    }
    plot = canvas.adjusted(fitLeft, fitTop, -fitRight, -fitBottom - marked * markRow);
    const double pixels = std::max(plot.width() - 2 * sizeRoom, 1.0);
    const double room = sizeRoom * (most - least) / pixels;
    size = {{least - room, most + room}, plot.left(), plot.right()};
    rate = {{0, mostRate > 0 ? mostRate * 1.08 : 1}, plot.bottom(), plot.top()};
    ground = plot.bottom() + marked * markRow;
    double row = plot.bottom() + markRow / 2 + 1;
    for (const FitCurve& curve : picture.curves) {
        rows.push_back(row);
        row += std::ranges::any_of(curve.points, isOutOfReach) ? markRow : 0;
    }
}

QPointF FitPlane::at(std::size_t curve, const FitPoint& point) const
{
    const double log = std::log2(static_cast<double>(std::max<std::int64_t>(point.size, 1)));
    return {size.toPixel(log), point.runs() ? rate.toPixel(point.rate) : rows[curve]};
}

namespace {

/// Sizes at which the axis has a label: powers of two, or round numbers if there are fewer than two powers.
std::vector<double> sizeTicks(const FitPlane& plane)
{
    const AxisRange range = plane.size.data;
    const double pixelsPerOctave = 1 / plane.size.dataPerPixel();
    const int stride = std::max(1, static_cast<int>(std::ceil(sizeTickGap / pixelsPerOctave)));
    std::vector<double> sizes;
    for (int power = std::max(0, static_cast<int>(std::ceil(range.begin))); power <= range.end; power += stride)
        sizes.push_back(std::exp2(power));
    if (sizes.size() > 1)
        return sizes;
    sizes.clear();
    const AxisRange shown{std::exp2(range.begin), std::exp2(range.end)};
    const Ticks ticks = niceTicks(shown, std::max(2, static_cast<int>(plane.plot.width() / (2 * sizeTickGap))));
    for (int i = 0; i < ticks.count; ++i)
        if (const double size = ticks.at(i); size >= 1 && std::round(size) == size)
            sizes.push_back(size);
    return sizes;
}

void paintFitAxes(QPainter& painter, const FitPicture& picture, const FitPlane& plane, const Theme& theme)
{
    const QRectF& plot = plane.plot;
    painter.setFont(theme.numberCaption);
    const Ticks rates = niceTicks(plane.rate.data, std::max(2, static_cast<int>(plot.height() / 30)));
    for (int i = 0; i < rates.count && picture.hasRates(); ++i) {
        const double y = std::round(plane.rate.toPixel(rates.at(i))) + 0.5;
        painter.setPen(QPen(theme.line, 1));
        painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y));
        painter.setPen(theme.secondText);
        const QString text = rates.decimals == 0 ? countText(std::llround(rates.at(i)))
                                                 : QString::number(rates.at(i), 'f', rates.decimals);
        painter.drawText(QRectF(plot.left() - 60, y - 9, 52, 18), Qt::AlignRight | Qt::AlignVCenter, text);
    }
    for (const double size : sizeTicks(plane)) {
        const double x = plane.size.toPixel(std::log2(size));
        painter.setPen(QPen(theme.line, 1));
        painter.drawLine(QPointF(x, plane.ground), QPointF(x, plane.ground + 4));
        painter.setPen(theme.secondText);
        painter.drawText(QRectF(x - 40, plane.ground + 5, 80, 16), Qt::AlignHCenter | Qt::AlignTop,
                         countText(std::llround(size)));
    }
    painter.setFont(theme.caption);
    painter.drawText(QRectF(plot.left() - fitLeft, plane.ground + 5, fitLeft - 8, 16), Qt::AlignRight | Qt::AlignTop,
                     picture.ofSequences ? FitChart::tr("Sequence") : FitChart::tr("Batch"));
    painter.drawText(QRectF(plot.left() - fitLeft, plot.top() - fitTop, 2 * fitLeft, 16),
                     Qt::AlignLeft | Qt::AlignVCenter, rateUnit(picture.ofSequences));
}

void paintMark(QPainter& painter, QPointF at, const FitPoint& point, const QColor& color, const Theme& theme)
{
    QColor pale = color;
    pale.setAlphaF(0.3F);
    painter.setPen(QPen(color, 1.5));
    painter.setBrush(theme.card);
    const QPolygonF diamond{{at.x(), at.y() - markRadius - 1},
                            {at.x() + markRadius + 1, at.y()},
                            {at.x(), at.y() + markRadius + 1},
                            {at.x() - markRadius - 1, at.y()}};
    switch (point.outcome) {
    case FitPoint::Outcome::plain:
        painter.drawEllipse(at, markRadius, markRadius);
        painter.setBrush(point.isRecorded ? color : pale);
        painter.drawEllipse(at, markRadius, markRadius);
        break;
    case FitPoint::Outcome::planned:
        painter.drawPolygon(diamond);
        painter.setBrush(point.isRecorded ? color : pale);
        painter.drawPolygon(diamond);
        break;
    case FitPoint::Outcome::outOfMemory:
        painter.setBrush(Qt::NoBrush);
        painter.drawEllipse(at, 3.5, 3.5);
        break;
    case FitPoint::Outcome::failed:
        painter.setPen(QPen(theme.danger, 1.75));
        painter.drawLine(at + QPointF(-3, -3), at + QPointF(3, 3));
        painter.drawLine(at + QPointF(-3, 3), at + QPointF(3, -3));
        break;
    }
}

void paintCurve(QPainter& painter, const FitCurve& curve, std::size_t index, const FitPlane& plane, const QColor& color)
{
    const FitPoint* last = nullptr;
    for (const FitPoint& point : curve.points) {
        if (!point.runs())
            continue;
        if (last) {
            const bool isPlanned
                = last->outcome == FitPoint::Outcome::planned || point.outcome == FitPoint::Outcome::planned;
            painter.setPen(QPen(color, 1.75, isPlanned ? Qt::DashLine : Qt::SolidLine));
            painter.drawLine(plane.at(index, *last), plane.at(index, point));
        }
        last = &point;
    }
}

QString sizeNameOf(const FitCurve& curve, std::size_t point)
{
    const bool isLargest = curve.largest == point, isFastest = curve.fastest == point;
    const QString size = countText(curve.points[point].size);
    return isLargest && isFastest ? FitChart::tr("largest and fastest: %1").arg(size)
        : isLargest               ? FitChart::tr("largest: %1").arg(size)
                                  : FitChart::tr("fastest: %1").arg(size);
}

/// Paints the names of the largest and the fastest size of each curve where no other name and no point is.
void paintSizeNames(QPainter& painter, const FitPicture& picture, const FitPlane& plane, const Theme& theme)
{
    constexpr double height = 15;
    constexpr double gap = 7;
    std::vector<QRectF> taken;
    for (std::size_t i = 0; i < picture.curves.size(); ++i)
        for (const FitPoint& point : picture.curves[i].points)
            taken.push_back(
                QRectF(plane.at(i, point) - QPointF(markRadius, markRadius), QSizeF(2 * markRadius, 2 * markRadius)));
    const QRectF room = plane.plot.adjusted(-10, -fitTop, fitRight, 0);
    painter.setFont(theme.caption);
    painter.setPen(theme.text);
    for (std::size_t i = 0; i < picture.curves.size(); ++i) {
        const FitCurve& curve = picture.curves[i];
        for (const auto& named : {curve.largest, curve.largest == curve.fastest ? std::nullopt : curve.fastest}) {
            if (!named)
                continue;
            const QString name = sizeNameOf(curve, *named);
            const QPointF at = plane.at(i, curve.points[*named]);
            const QSizeF size(lineWidth(theme.caption, name) + 2, height);
            const double left = at.x() - size.width() - gap, middle = at.x() - size.width() / 2, right = at.x() + gap;
            const double above = at.y() - height - gap + 1, beside = at.y() - height / 2, below = at.y() + gap - 1;
            for (const QPointF corner :
                 {QPointF(middle, above), QPointF(right, above), QPointF(left, above), QPointF(middle, below),
                  QPointF(right, below), QPointF(left, below), QPointF(right, beside), QPointF(left, beside)}) {
                const QRectF box(corner, size);
                if (!room.contains(box)
                    || std::ranges::any_of(taken, [&](const QRectF& other) { return box.intersects(other); }))
                    continue;
                taken.push_back(box);
                painter.fillRect(box.adjusted(-1, 1, 1, -1), theme.card); // not through a line
                painter.drawText(box, Qt::AlignCenter, name);
                break;
            }
        }
    }
}

} // namespace

void paintFit(QPainter& painter, const FitPicture& picture, const FitPlane& plane, const Theme& theme)
{
    painter.setRenderHint(QPainter::Antialiasing);
    paintFitAxes(painter, picture, plane, theme);
    for (std::size_t i = 0; i < picture.curves.size(); ++i)
        paintCurve(painter, picture.curves[i], i, plane, curveColor(i, theme));
    for (std::size_t i = 0; i < picture.curves.size(); ++i)
        for (const FitPoint& point : picture.curves[i].points)
            paintMark(painter, plane.at(i, point), point, curveColor(i, theme), theme);
    paintSizeNames(painter, picture, plane, theme);
}

FitChart::FitChart(QWidget* parent)
    : QWidget(parent)
{
    setAccessibleName(FitChart::tr("Speed over size"));
    setFocusPolicy(Qt::StrongFocus);
    setMouseTracking(true);
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Expanding);
}

void FitChart::setPicture(FitPicture picture, const QString& empty)
{
    const std::optional<PointIndex> before = std::exchange(current_, std::nullopt);
    const std::int64_t size = before ? pointAt(*before).size : 0;
    picture_ = std::move(picture);
    empty_ = empty;
    if (before && before->curve < picture_.curves.size()) {
        const auto& points = picture_.curves[before->curve].points;
        const auto same = std::ranges::find(points, size, &FitPoint::size);
        if (same != points.end())
            current_ = PointIndex{before->curve, static_cast<std::size_t>(same - points.begin())};
    }
    setAccessibleDescription(current_ ? pointAt(*current_).words : firstPoint() ? fitTitle(picture_) : empty_);
    update();
}

FitPlane FitChart::plane() const
{
    return {picture_, QRectF(rect())};
}

std::optional<FitChart::PointIndex> FitChart::firstPoint() const
{
    for (std::size_t i = 0; i < picture_.curves.size(); ++i)
        if (!picture_.curves[i].points.empty())
            return PointIndex{i, 0};
    return std::nullopt;
}

std::optional<FitChart::PointIndex> FitChart::pointNear(QPointF position) const
{
    const FitPlane plane = this->plane();
    std::optional<PointIndex> best;
    double nearest = fitReach;
    for (std::size_t i = 0; i < picture_.curves.size(); ++i)
        for (std::size_t at = 0; at < picture_.curves[i].points.size(); ++at) {
            const QPointF away = plane.at(i, picture_.curves[i].points[at]) - position;
            if (const double distance = std::hypot(away.x(), away.y()); distance < nearest) {
                nearest = distance;
                best = PointIndex{i, at};
            }
        }
    return best;
}

std::optional<FitChart::PointIndex> FitChart::besideCurve(PointIndex from, int step) const
{
    const auto count = static_cast<int>(picture_.curves.size());
    for (int i = static_cast<int>(from.curve) + step; i >= 0 && i < count; i += step) {
        const auto curve = static_cast<std::size_t>(i);
        const auto& points = picture_.curves[curve].points;
        const auto nearest = std::ranges::min_element(
            points, {}, [size = pointAt(from).size](const FitPoint& point) { return std::abs(point.size - size); });
        if (nearest != points.end())
            return PointIndex{curve, static_cast<std::size_t>(nearest - points.begin())};
    }
    return from;
}

void FitChart::go(std::optional<PointIndex> at)
{
    if (at == current_)
        return;
    current_ = at;
    setAccessibleDescription(at ? pointAt(*at).words : fitTitle(picture_));
    update();
}

void FitChart::choose(PointIndex at)
{
    Q_EMIT chosen(at.curve, pointAt(at).row);
}

void FitChart::paintEvent(QPaintEvent*)
{
    const Theme& theme = Theme::of(*this);
    QPainter painter(this);
    if (!firstPoint()) {
        painter.setFont(theme.body);
        painter.setPen(theme.secondText);
        painter.drawText(QRectF(rect()).adjusted(24, 0, -24, 0), Qt::AlignCenter | Qt::TextWordWrap,
                         withBreakPoints(empty_));
        return;
    }
    const FitPlane plane = this->plane();
    if (plane.plot.width() < 20 || plane.plot.height() < 10)
        return;
    paintFit(painter, picture_, plane, theme);
    if (current_) {
        painter.setBrush(Qt::NoBrush);
        painter.setPen(QPen(theme.text, 1.5));
        painter.drawEllipse(plane.at(current_->curve, pointAt(*current_)), markRadius + 4, markRadius + 4);
    }
}

void FitChart::mouseMoveEvent(QMouseEvent* event)
{
    const std::optional<PointIndex> at = pointNear(event->position());
    setCursor(at ? Qt::PointingHandCursor : Qt::ArrowCursor);
    go(at);
    if (at)
        WrappedToolTips::show(event->globalPosition().toPoint(), pointAt(*at).words, this);
    else
        QToolTip::hideText();
}

void FitChart::mousePressEvent(QMouseEvent* event)
{
    const std::optional<PointIndex> at
        = event->button() == Qt::LeftButton ? pointNear(event->position()) : std::nullopt;
    if (!at)
        return;
    go(at);
    choose(*at);
}

void FitChart::leaveEvent(QEvent* event)
{
    QWidget::leaveEvent(event);
    if (!hasFocus())
        go(std::nullopt);
}

void FitChart::keyPressEvent(QKeyEvent* event)
{
    const std::optional<PointIndex> at = current_ ? current_ : firstPoint();
    if (!at)
        return event->ignore();
    const std::size_t last = picture_.curves[at->curve].points.size() - 1;
    const auto show = [this](std::optional<PointIndex> to) {
        go(to);
        WrappedToolTips::show(mapToGlobal(plane().at(to->curve, pointAt(*to)).toPoint()), pointAt(*to).words, this);
    };
    switch (event->key()) {
    case Qt::Key_Left:
        return show(PointIndex{at->curve, at->point - (current_ && at->point > 0 ? 1 : 0)});
    case Qt::Key_Right:
        return show(PointIndex{at->curve, std::min(at->point + (current_ ? 1 : 0), last)});
    case Qt::Key_Home:
        return show(PointIndex{at->curve, 0});
    case Qt::Key_End:
        return show(PointIndex{at->curve, last});
    case Qt::Key_Up:
        return show(besideCurve(*at, -1));
    case Qt::Key_Down:
        return show(besideCurve(*at, 1));
    case Qt::Key_Return:
    case Qt::Key_Enter:
        if (current_)
            choose(*current_);
        return;
    default:
        event->ignore();
    }
}

void FitChart::focusInEvent(QFocusEvent* event)
{
    QWidget::focusInEvent(event);
    if (event->reason() != Qt::MouseFocusReason && !current_)
        go(firstPoint());
    update();
}

void FitChart::focusOutEvent(QFocusEvent* event)
{
    QWidget::focusOutEvent(event);
    go(std::nullopt);
}

} // namespace headroom
