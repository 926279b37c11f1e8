// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/timeline_paint.h"

#include "views/plot/number_text.h"
#include "views/plot/timeline_draw_list.h"

#include <QFontMetricsF>
#include <QPainter>

#include <algorithm>
#include <cmath>
#include <limits>

namespace headroom {
namespace {

constexpr double markRadius = 3.5;
constexpr double labelGap = 6; ///< between name and value
constexpr double labelPadding = 3;

QSizeF labelSize(const PeakMark& mark, const Theme& theme)
{
    const QFontMetricsF name(theme.bodyStrong);
    const QFontMetricsF value(theme.numberStrong);
    return {name.horizontalAdvance(mark.name) + labelGap + value.horizontalAdvance(mark.value) + 2 * labelPadding,
            std::max(name.height(), value.height()) + 2};
}

QRectF around(QPointF point, double radius)
{
    return {point.x() - radius, point.y() - radius, 2 * radius, 2 * radius};
}

QRectF placeLabel(QPointF point, QSizeF size, const QRectF& plot, const std::vector<QRectF>& avoid)
{
    const double away = markRadius + 6;
    const double w = size.width();
    const double h = size.height();
    std::vector<QPointF> corners;
    for (const double lift : {0.0, 1.0, 2.0, 3.0}) {
        const double above = point.y() - h - 3 - lift * h;
        const double below = point.y() + 3 + lift * h;
        corners.insert(corners.end(),
                       {{point.x() + away, above},
                        {point.x() - away - w, above},
                        {point.x() - w / 2, above - markRadius},
                        {point.x() + away, below},
                        {point.x() - away - w, below}});
    }
    QRectF best;
    double least = std::numeric_limits<double>::infinity();
    for (const auto& corner : corners) {
        const QRectF box(corner, size);
        const double cost = overlap(box, avoid) + 4 * (w * h - overlap(box, {plot}));
        if (cost < least - 1e-9) {
            least = cost;
            best = box;
        }
    }
    return best;
}

} // namespace

double overlap(const QRectF& box, const std::vector<QRectF>& others)
{
    double area = 0;
    for (const auto& other : others) {
        const auto common = box & other;
        area += common.isValid() ? common.width() * common.height() : 0;
    }
    return area;
}

TimelineGeometry TimelineGeometry::of(const QRectF& plot, AxisRange ms, AxisRange bytes)
{
    return {plot, {ms, plot.left(), plot.right()}, {bytes, plot.bottom(), plot.top()}};
}

AxisRange byteRangeFor(Bytes highestPeak, double height)
{
    constexpr double labelRoom = 28;
    const double share = std::clamp(labelRoom / std::max(height, 1.0), 0.05, 0.4);
    return {0, std::max(1.0, static_cast<double>(highestPeak) / (1 - share))};
}

std::vector<PeakMark> peakMarks(const Timeline& recorded, const Timeline* planned, const QString& recordedName,
                                const QString& plannedName)
{
    const auto mark = [](const Timeline& timeline, const QString& name, bool isPlan) {
        const bool atStart = timeline.peakChange == Timeline::npos;
        return PeakMark{atStart ? 0 : timeline.changes[timeline.peakChange].ms, timeline.peak,
                        QString(name + QLatin1String(" peak")), bytesText(timeline.peak), isPlan};
    };
    const auto before = mark(recorded, recordedName, false);
    if (!planned)
        return {before};
    const auto after = mark(*planned, plannedName, true);
    if (after.bytes == before.bytes && after.ms == before.ms)
        return {after};
    return {after, before};
}

std::vector<PlacedPeak> placePeaks(const std::vector<PeakMark>& marks, const TimelineGeometry& geometry,
                                   const Theme& theme, const std::vector<QRectF>& avoid)
{
    std::vector<PlacedPeak> placed;
    for (const auto& mark : marks) {
        if (!geometry.ms.data.contains(mark.ms))
            continue;
        const QPointF point(geometry.ms.toPixel(mark.ms), geometry.bytes.toPixel(static_cast<double>(mark.bytes)));
        placed.push_back({mark, point, {}});
    }
    auto taken = avoid;
    for (const auto& peak : placed)
        taken.push_back(around(peak.point, markRadius + 2));
    for (auto& peak : placed) {
        peak.label = placeLabel(peak.point, labelSize(peak.mark, theme), geometry.plot, taken);
        taken.push_back(peak.label);
    }
    return placed;
}

void paintPeaks(QPainter& painter, const std::vector<PlacedPeak>& peaks, const Theme& theme)
{
    painter.setRenderHint(QPainter::Antialiasing);
    for (const auto& peak : peaks) {
        const auto ink = peak.mark.planned ? theme.text : theme.secondText;
        // The label of the lower peak may lie on the stack.
        painter.setPen(QPen(theme.line, 1));
        painter.setBrush(theme.card);
        painter.drawRoundedRect(peak.label, 3, 3);
        const auto inner = peak.label.adjusted(labelPadding, 0, -labelPadding, 0);
        painter.setPen(ink);
        painter.setFont(theme.bodyStrong);
        painter.drawText(inner, Qt::AlignLeft | Qt::AlignVCenter, peak.mark.name);
        painter.setFont(theme.numberStrong);
        painter.drawText(inner, Qt::AlignRight | Qt::AlignVCenter, peak.mark.value);
        painter.setPen(QPen(ink, 1.5));
        painter.setBrush(theme.card);
        painter.drawEllipse(peak.point, markRadius, markRadius);
    }
}

QString phaseTitle(Phase phase)
{
    switch (phase) {
    case Phase::forward:
        return QStringLiteral("Forward");
    case Phase::backward:
        return QStringLiteral("Backward");
    case Phase::optimizer:
        return QStringLiteral("Optimizer");
    case Phase::zeroGrad:
        return QStringLiteral("Zero grad");
    }
    return {};
}

std::vector<PlacedPhase> placePhases(const std::vector<PhaseSpan>& phases, const TimelineGeometry& geometry,
                                     double right, const Theme& theme)
{
    const QFontMetricsF metrics(theme.caption);
    const double top = geometry.plot.top() - phaseBandHeight;
    std::vector<PlacedPhase> placed;
    for (const auto& span : phases) {
        if (span.endMs < geometry.ms.data.begin || span.beginMs > geometry.ms.data.end)
            continue;
        const double x = std::max(geometry.plot.left(), geometry.ms.toPixel(span.beginMs));
        const double width = metrics.horizontalAdvance(phaseTitle(span.phase)) + 2;
        placed.push_back({span, x, QRectF(x + 6, top, width, phaseBandHeight - 2)});
    }
    // The longest phases first: a short phase beside a long one may lose the name.
    std::vector<PlacedPhase*> order;
    for (auto& phase : placed)
        order.push_back(&phase);
    std::stable_sort(order.begin(), order.end(), [](const PlacedPhase* a, const PlacedPhase* b) {
        return a->span.endMs - a->span.beginMs > b->span.endMs - b->span.beginMs;
    });
    std::vector<QRectF> taken;
    for (auto* phase : order) {
        const auto label = phase->label.adjusted(-4, 0, 4, 0);
        if (phase->label.right() <= right && overlap(label, taken) == 0)
            taken.push_back(label);
        else
            phase->label = {};
    }
    return placed;
}

void paintPhases(QPainter& painter, const std::vector<PlacedPhase>& phases, const TimelineGeometry& geometry,
                 const Theme& theme)
{
    painter.setFont(theme.caption);
    for (const auto& phase : phases) {
        const double x = std::floor(phase.x) + 0.5;
        painter.setPen(QPen(theme.line, 1));
        if (phase.x > geometry.plot.left())
            painter.drawLine(QPointF(x, geometry.plot.top() - (phase.label.isEmpty() ? 6 : phaseBandHeight)),
                             QPointF(x, geometry.plot.bottom()));
        if (phase.label.isEmpty())
            continue;
        painter.setPen(theme.secondText);
        painter.drawText(phase.label, Qt::AlignLeft | Qt::AlignVCenter, phaseTitle(phase.span.phase));
    }
}

std::optional<AddedTime> addedTime(const Timeline& recorded, const Timeline& planned, const TimelinePyramid& pyramid)
{
    if (planned.durationMs <= recorded.durationMs * 1.001)
        return {};
    const auto column = pyramid.columns(recorded.durationMs, planned.durationMs, 1);
    return AddedTime{recorded.durationMs, planned.durationMs, total(column.front().atMaximum)};
}

std::optional<PlacedAddedTime> placeAddedTime(const AddedTime& added, const TimelineGeometry& geometry,
                                              const Theme& theme)
{
    if (!geometry.ms.data.contains(added.plannedEndMs))
        return {};
    const double begin = std::max(geometry.plot.left(), geometry.ms.toPixel(added.recordedEndMs));
    const double end = geometry.ms.toPixel(added.plannedEndMs);
    const double y = std::floor(geometry.bytes.toPixel(static_cast<double>(added.height))) - 8.5;
    const double ms = added.plannedEndMs - added.recordedEndMs;
    // The axis has no waits for copies.
    const QString text = QStringLiteral("+%1 ms recompute").arg(ms, 0, 'f', ms < 10 ? 2 : ms < 100 ? 1 : 0);
    const QFontMetricsF metrics(theme.numberStrong);
    const double width = metrics.horizontalAdvance(text) + 2 * labelPadding;
    const double left = std::clamp((begin + end - width) / 2, geometry.plot.left(), geometry.plot.right() - width);
    const QRectF label(left, y - metrics.height() - 4, width, metrics.height() + 2);
    if (!geometry.plot.contains(label))
        return {};
    return PlacedAddedTime{{begin, y, end, y}, label, text};
}

void paintAddedTime(QPainter& painter, const PlacedAddedTime& added, const Theme& theme)
{
    painter.setRenderHint(QPainter::Antialiasing, false);
    painter.setPen(QPen(theme.accent, 1));
    painter.drawLine(added.measure);
    for (const auto& end : {added.measure.p1(), added.measure.p2()})
        painter.drawLine(end - QPointF(0, 3), end + QPointF(0, 3));
    painter.setRenderHint(QPainter::Antialiasing);
    auto plate = theme.card;
    plate.setAlphaF(0.88f);
    painter.setPen(Qt::NoPen);
    painter.setBrush(plate);
    painter.drawRoundedRect(added.label, 3, 3);
    painter.setPen(theme.accent);
    painter.setFont(theme.numberStrong);
    painter.drawText(added.label, Qt::AlignCenter, added.text);
}

void paintBudgetLine(QPainter& painter, Bytes budget, bool feasible, const TimelineGeometry& geometry,
                     const Theme& theme)
{
    const double y = std::floor(geometry.bytes.toPixel(static_cast<double>(budget))) + 0.5;
    if (y < geometry.plot.top() - 1 || y > geometry.plot.bottom() + 1)
        return;
    painter.setPen(QPen(feasible ? theme.text : theme.danger, 1));
    painter.drawLine(QPointF(geometry.plot.left(), y), QPointF(geometry.plot.right(), y));
}

namespace {

// Columns are filled singly into a small buffer that stays in the cache, and then written to the image row by row:
// writing a column straight into a row-major image misses the cache at every pixel.
constexpr int blockWidth = 16;

QRgb premultiplied(const QColor& color, double alpha = 1)
{
    return qPremultiply(qRgba(color.red(), color.green(), color.blue(), static_cast<int>(alpha * 255 + 0.5)));
}

// Rounds down, so that shares of a pixel never add up to more than the whole.
QRgb scaled(QRgb color, unsigned share256)
{
    const auto channel = [share256](int value) { return static_cast<int>((value * share256) >> 8); };
    return qRgba(channel(qRed(color)), channel(qGreen(color)), channel(qBlue(color)), channel(qAlpha(color)));
}

// A column of pixels, top first. Disjoint intervals add up to full coverage, so edges are exact area averages.
class PixelColumnPainter
{
public:
    explicit PixelColumnPainter(int height)
        : pixels_(static_cast<std::size_t>(height))
    {
    }

    void clear() { std::fill(pixels_.begin(), pixels_.end(), 0); }
    const std::vector<QRgb>& pixels() const { return pixels_; }

    void add(double top, double bottom, QRgb color)
    {
        forCoverage(
            top, bottom, [&](QRgb& pixel, unsigned share) { pixel += scaled(color, share); },
            [&](std::size_t first, std::size_t last) {
                std::fill(pixels_.begin() + static_cast<std::ptrdiff_t>(first),
                          pixels_.begin() + static_cast<std::ptrdiff_t>(last), color);
            });
    }

    void hatch(double top, double bottom, const std::vector<QRgb>& pattern, int column)
    {
        const auto at = [&](std::size_t y) { return pattern[(y + static_cast<std::size_t>(column)) % pattern.size()]; };
        const auto y = [&](const QRgb& pixel) { return static_cast<std::size_t>(&pixel - pixels_.data()); };
        forCoverage(
            top, bottom, [&](QRgb& pixel, unsigned share) { pixel += scaled(at(y(pixel)), share); },
            [&](std::size_t first, std::size_t last) {
                std::size_t phase = (first + static_cast<std::size_t>(column)) % pattern.size();
                for (std::size_t i = first; i < last; ++i) {
                    pixels_[i] = pattern[phase];
                    phase = phase + 1 == pattern.size() ? 0 : phase + 1;
                }
            });
    }

    // Paints over the pixels, which may be transparent.
    void blend(double top, double bottom, QRgb color)
    {
        const auto over = [&](QRgb& pixel, unsigned share) {
            const QRgb source = scaled(color, share);
            pixel = source + scaled(pixel, 256u - (static_cast<unsigned>(qAlpha(source)) * 257u >> 8));
        };
        forCoverage(top, bottom, over, [&](std::size_t first, std::size_t last) {
            for (std::size_t i = first; i < last; ++i)
                over(pixels_[i], 256);
        });
    }

private:
    template <class Part, class Whole>
    void forCoverage(double top, double bottom, Part part, Whole whole)
    {
        const double limit = static_cast<double>(pixels_.size());
        top = std::clamp(top, 0.0, limit);
        bottom = std::clamp(bottom, 0.0, limit);
        if (bottom <= top)
            return;
        const auto first = static_cast<std::size_t>(top);
        const auto last = static_cast<std::size_t>(bottom);
        const auto share = [](double length) { return static_cast<unsigned>(length * 256); };
        if (first == last) {
            part(pixels_[first], share(bottom - top));
            return;
        }
        const double head = static_cast<double>(first) + 1 - top;
        if (head < 1)
            part(pixels_[first], share(head));
        whole(head < 1 ? first + 1 : first, last);
        if (last < pixels_.size() && bottom > static_cast<double>(last))
            part(pixels_[last], share(bottom - static_cast<double>(last)));
    }

    std::vector<QRgb> pixels_;
};

// A period of a line at 45 degrees, sampled at whole pixels.
std::vector<QRgb> hatchPattern(const Theme& theme, double pixelsPerPoint)
{
    const int period = std::max(4, static_cast<int>(std::lround(7 * pixelsPerPoint)));
    const double halfWidth = 0.5 * pixelsPerPoint;
    std::vector<QRgb> pattern(static_cast<std::size_t>(period));
    for (int i = 0; i < period; ++i) {
        const double distance = std::min(i, period - i) / std::sqrt(2.0);
        const double coverage = std::clamp(halfWidth + 0.5 - distance, 0.0, 1.0);
        pattern[static_cast<std::size_t>(i)] = premultiplied(theme.hatch, coverage);
    }
    return pattern;
}

class Rasteriser
{
public:
    Rasteriser(const TimelineDrawList& list, int height, AxisRange bytes, double pixelsPerPoint, const Theme& theme)
        : list_(list)
        , y_{bytes, static_cast<double>(height), 0}
        , edge_(pixelsPerPoint)
        , lineWidth_(1.25 * pixelsPerPoint)
        , pattern_(hatchPattern(theme, pixelsPerPoint))
        , edgeColor_(premultiplied(theme.card))
        , outlineColor_(premultiplied(theme.text, 0.62))
    {
        for (const auto& band : list.bands)
            colors_.push_back(premultiplied(band.color(theme)));
    }

    void paint(PixelColumnPainter& painter, int column) const
    {
        const auto at = static_cast<std::size_t>(column);
        double top = y_.pixelBegin;
        if (at < list_.main.size())
            top = paintBands(painter, list_.main.at(at));
        if (at >= list_.outline.size())
            return;
        const double outline = y_.toPixel(static_cast<double>(list_.outline[at]));
        if (outline >= top)
            return; // nothing is saved here; inside the stack the outline would only be noise
        painter.hatch(outline, top, pattern_, column);
        // The outline joins the columns: it runs from the height of the one before to its own.
        const double before = at > 0 ? std::min(top, y_.toPixel(static_cast<double>(list_.outline[at - 1]))) : outline;
        const double half = lineWidth_ / 2;
        painter.blend(std::min(outline, before) - half, std::max(outline, before) + half, outlineColor_);
    }

private:
    // Returns the y of the stack's top.
    double paintBands(PixelColumnPainter& painter, std::span<const Bytes> parts) const
    {
        double bottom = y_.pixelBegin;
        Bytes sum = 0;
        for (std::size_t band = 0; band < parts.size(); ++band) {
            if (parts[band] <= 0)
                continue;
            sum += parts[band];
            const double top = y_.toPixel(static_cast<double>(sum));
            // A thin band loses at most a third of the height.
            const double gap = bottom < y_.pixelBegin ? std::min(edge_, (bottom - top) / 3) : 0;
            painter.add(bottom - gap, bottom, edgeColor_);
            painter.add(top, bottom - gap, colors_[band]);
            bottom = top;
        }
        return bottom;
    }

    const TimelineDrawList& list_;
    AxisMap y_;
    double edge_;
    double lineWidth_;
    std::vector<QRgb> pattern_;
    QRgb edgeColor_;
    QRgb outlineColor_;
    std::vector<QRgb> colors_; ///< of the bands
};

} // namespace

QImage rasterise(const TimelineDrawList& list, QSize size, AxisRange bytes, double pixelsPerPoint, const Theme& theme)
{
    QImage image(size, QImage::Format_ARGB32_Premultiplied);
    image.fill(Qt::transparent);
    const int drawn = static_cast<int>(std::max(list.main.size(), list.outline.size()));
    const int columns = std::min(size.width(), drawn);
    const Rasteriser rasteriser(list, size.height(), bytes, pixelsPerPoint, theme);
    std::vector<PixelColumnPainter> block(blockWidth, PixelColumnPainter(size.height()));
    auto* pixels = reinterpret_cast<QRgb*>(image.bits());
    const auto stride = static_cast<std::size_t>(image.bytesPerLine()) / sizeof(QRgb);
    for (int left = 0; left < columns; left += blockWidth) {
        const int width = std::min(blockWidth, columns - left);
        for (int i = 0; i < width; ++i) {
            block[static_cast<std::size_t>(i)].clear();
            rasteriser.paint(block[static_cast<std::size_t>(i)], left + i);
        }
        for (std::size_t y = 0; y < static_cast<std::size_t>(size.height()); ++y) {
            QRgb* row = pixels + y * stride + left;
            for (int i = 0; i < width; ++i)
                row[i] = block[static_cast<std::size_t>(i)].pixels()[y];
        }
    }
    image.setDevicePixelRatio(pixelsPerPoint);
    return image;
}

} // namespace headroom
