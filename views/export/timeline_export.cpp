// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/export/axes.h"
#include "views/export/export.h"
#include "views/export/picture_file.h"
#include "views/export/tables.h"
#include "views/plot/number_text.h"
#include "views/plot/timeline_paint.h"

#include <QPainter>

#include <algorithm>

namespace headroom {
namespace {

Legend legendOf(const TimelineScene& scene, const TimelineDrawList& list, const ByteUnit& unit, double width,
                const Theme& theme)
{
    std::vector<LegendEntry> entries;
    for (const auto& band : visibleBands(list))
        entries.push_back({band.title, band.color(theme), LegendEntry::Symbol::square});
    if (scene.hasPlan() && scene.planned->timeline().peak < scene.recorded->timeline().peak)
        entries.push_back({QStringLiteral("Saved by the plan"), theme.secondText, LegendEntry::Symbol::hatch});
    return {QStringLiteral("Allocated memory, ") + QLatin1String(unit.name), std::move(entries), width, theme};
}

// The budget's name at the right end of its line.
void paintBudgetTag(QPainter& painter, Bytes budget, bool feasible, const TimelineGeometry& geometry,
                    const Theme& theme)
{
    const double y = geometry.bytes.toPixel(static_cast<double>(budget));
    if (y < geometry.plot.top())
        return;
    painter.setPen(feasible ? theme.text : theme.danger);
    painter.setFont(theme.caption);
    painter.drawText(QRectF(geometry.plot.right() + 6, y - 17, 90, 16), Qt::AlignLeft | Qt::AlignVCenter,
                     QStringLiteral("Budget"));
    painter.setFont(theme.numberStrong);
    painter.drawText(QRectF(geometry.plot.right() + 6, y, 90, 18), Qt::AlignLeft | Qt::AlignVCenter, bytesText(budget));
}

void paintTimeline(QPainter& painter, const TimelineExport& data, const ExportOptions& options)
{
    const auto& theme = Theme::make(options.dark);
    const auto scene = makeScene(data.recorded, data.planned, data.byModule ? data.trace.get() : nullptr);
    const auto& shown = scene.main().timeline();
    const Bytes peak = std::max(data.recorded->peak, shown.peak);
    const auto unit = byteUnitFor(static_cast<double>(peak));
    const QSize size(options.width, options.height);
    const double duration = std::max({data.recorded->durationMs, shown.durationMs, 1e-6});
    const AxisRange ms{0, duration * 1.02};
    const auto list = prepareDrawList(scene, {ms, std::max(1, options.width)});
    const auto legend = legendOf(scene, *list, unit, options.width - 2 * pictureMargin, theme);
    auto plot = paintFrame(painter, size, QString::fromStdString(data.title), legend, theme);
    plot.adjust(44, phaseBandHeight, data.budget > 0 ? -76 : -8, -24);

    const auto geometry = TimelineGeometry::of(plot, ms, byteRangeFor(peak, plot.height()));
    const auto time = timeUnitFor(geometry.ms.data);
    paintAxes(painter, plot, {geometry.ms, time.ms, QLatin1Char(' ') + QString::fromUtf8(time.name), {}},
              {geometry.bytes, unit.bytes, {}, {}}, theme);
    paintPhases(painter, placePhases(shown.phases, geometry, plot.right() + 60, theme), geometry, theme);
    paintBandPolygons(painter, *list, geometry, theme);
    const bool feasible = shown.peak <= data.budget;
    if (data.budget > 0) {
        paintBudgetLine(painter, data.budget, feasible, geometry, theme);
        paintBudgetTag(painter, data.budget, feasible, geometry, theme);
    }
    std::vector<QRectF> taken;
    if (data.planned) {
        const auto added = addedTime(*data.recorded, *data.planned, scene.main());
        const auto placed = added ? placeAddedTime(*added, geometry, theme) : std::nullopt;
        if (placed) {
            taken.push_back(placed->label);
            paintAddedTime(painter, *placed, theme);
        }
    }
    const auto marks
        = peakMarks(*data.recorded, data.planned.get(), QStringLiteral("Recorded"), QStringLiteral("Planned"));
    paintPeaks(painter, placePeaks(marks, geometry, theme, taken), theme);
}

} // namespace

Status exportTimeline(const TimelineExport& data, const std::filesystem::path& path, const ExportOptions& options)
{
    return writePicture(
        data.title, options, [&](QPainter& painter) { paintTimeline(painter, data, options); },
        [&] { return timelineCsv(data); }, path);
}

} // namespace headroom
