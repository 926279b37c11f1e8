// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/export/axes.h"
#include "views/export/export.h"
#include "views/export/picture_file.h"
#include "views/export/tables.h"
#include "views/plot/number_text.h"
#include "views/plot/tradeoff_paint.h"

#include <QPainter>

#include <algorithm>

namespace headroom {
namespace {

constexpr double mib = static_cast<double>(MiB);
constexpr double gib = static_cast<double>(GiB);

struct Plane
{
    QRectF plot;
    AxisMap x;
    AxisMap y;

    QPointF at(double dataX, double dataY) const { return {x.toPixel(dataX), y.toPixel(dataY)}; }
};

// The range begins a little below 0, so that dots on an axis are whole.
AxisRange fromZero(double most)
{
    const double end = most > 0 ? most : 1;
    return {-0.03 * end, 1.06 * end};
}

// The picture without a selection: every module's curve, all alike.
TradeOffPicture wholeModel(const ModuleInfo& info)
{
    TradeOffPicture picture;
    for (const auto& module : info.stats) {
        auto curve = tradeOffCurve(module);
        for (const auto& point : curve) {
            picture.mostKept = std::max(picture.mostKept, point.kept);
            picture.mostMs = std::max(picture.mostMs, point.ms);
        }
        if (!curve.empty())
            picture.others.push_back(std::move(curve));
    }
    return picture;
}

void paintTradeOff(QPainter& painter, const TradeOffExport& data, const ExportOptions& options)
{
    const auto& theme = Theme::make(options.dark);
    const auto picture = data.selected.empty() ? wholeModel(*data.info)
                                               : tradeOffPicture(*data.info, data.selected, data.planned, data.ways);
    std::vector<LegendEntry> entries;
    if (!picture.estimate.empty()) {
        entries.push_back({QStringLiteral("ways to checkpoint it"), theme.text, LegendEntry::Symbol::line});
        entries.push_back({QStringLiteral("PyTorch's estimate"), theme.hatch, LegendEntry::Symbol::line});
    }
    if (!picture.others.empty())
        entries.push_back({picture.selected ? QStringLiteral("others of its class") : QStringLiteral("modules"),
                           theme.hatch, LegendEntry::Symbol::line});
    if (picture.hasPlan) {
        entries.push_back({QStringLiteral("chosen by the plan"), theme.accent, LegendEntry::Symbol::dot});
        if (data.msPerGiB > 0)
            entries.push_back({QStringLiteral("%1 ms per GiB").arg(data.msPerGiB, 0, 'f', 1), theme.accent,
                               LegendEntry::Symbol::dash});
    }
    const auto head = data.selected.empty() ? QStringLiteral("Trade-off of every module")
                                            : QStringLiteral("Trade-off of ") + QString::fromStdString(data.selected);
    const Legend legend(head, std::move(entries), options.width - 2 * pictureMargin, theme);
    auto plot = paintFrame(painter, {options.width, options.height}, QString::fromStdString(data.title), legend, theme);
    plot.adjust(58, 6, -10, -44);
    const TradeOffPlane plane{{fromZero(picture.mostKept), plot.left(), plot.right()},
                              {fromZero(picture.mostMs), plot.bottom(), plot.top()}};
    paintAxes(painter, plot, {plane.kept, mib, {}, QStringLiteral("Activation memory kept, MiB")},
              {plane.ms, 1, {}, QStringLiteral("Recompute, ms")}, theme);
    paintOtherCurves(painter, picture, plane, theme);
    paintChoices(painter, picture, data.msPerGiB, plane, theme);
}

void paintFrontier(QPainter& painter, const FrontierExport& data, const ExportOptions& options)
{
    const auto& theme = Theme::make(options.dark);
    auto head = QStringLiteral("Time added by a budget");
    if (data.stepMs > 0)
        head += QStringLiteral(" to a step of ") + msText(data.stepMs);
    const Legend legend(head, {}, options.width - 2 * pictureMargin, theme);
    auto plot = paintFrame(painter, {options.width, options.height}, QString::fromStdString(data.title), legend, theme);
    plot.adjust(58, 10, -24, -44);
    double mostMs = 0;
    for (const auto& point : data.points)
        mostMs = std::max(mostMs, point.recomputeMs);
    const double first = data.points.empty() ? 0 : static_cast<double>(data.points.front().peak);
    const double last = data.points.empty() ? gib : static_cast<double>(data.points.back().peak);
    const double room = std::max((last - first) * 0.06, 1.0);
    const auto unit = byteUnitFor(last);
    const Plane plane{plot,
                      {{std::max(0.0, first - room), last + room}, plot.left(), plot.right()},
                      {fromZero(mostMs), plot.bottom(), plot.top()}};
    paintAxes(painter, plot, {plane.x, unit.bytes, {}, QStringLiteral("Peak memory, ") + QLatin1String(unit.name)},
              {plane.y, 1, {}, QStringLiteral("Recompute, ms")}, theme);
    // A staircase: between two plans of the frontier the cheaper one does not fit yet.
    QPolygonF line;
    for (const auto& point : data.points) {
        const auto corner = plane.at(static_cast<double>(point.peak), point.recomputeMs);
        if (!line.empty())
            line << QPointF(corner.x(), line.last().y());
        line << corner;
    }
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(theme.accent, 1.75));
    painter.drawPolyline(line);
    for (const auto& point : data.points)
        paintDot(painter, plane.at(static_cast<double>(point.peak), point.recomputeMs), 2.25, theme.accent,
                 theme.accent);
    if (data.budget > 0 && plane.x.data.contains(static_cast<double>(data.budget))) {
        const double x = plane.x.toPixel(static_cast<double>(data.budget));
        painter.setPen(QPen(theme.text, 1));
        painter.drawLine(QPointF(x, plot.top()), QPointF(x, plot.bottom()));
        painter.setFont(theme.caption);
        painter.drawText(QRectF(x + 6, plot.top(), 160, 18), Qt::AlignLeft | Qt::AlignVCenter,
                         QStringLiteral("Budget ") + bytesText(data.budget));
    }
}

} // namespace

Status exportTradeOff(const TradeOffExport& data, const std::filesystem::path& path, const ExportOptions& options)
{
    if (!data.selected.empty() && !findModule(*data.info, data.selected))
        return badInput(data.selected + ": the model has no such module; `torch-headroom modules` lists them");
    return writePicture(
        data.title, options, [&](QPainter& painter) { paintTradeOff(painter, data, options); },
        [&] { return tradeOffCsv(data); }, path);
}

Status exportFrontier(const FrontierExport& data, const std::filesystem::path& path, const ExportOptions& options)
{
    return writePicture(
        data.title, options, [&](QPainter& painter) { paintFrontier(painter, data, options); },
        [&] { return frontierCsv(data); }, path);
}

} // namespace headroom
