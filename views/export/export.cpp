// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/export/export.h"

#include "core/base/atomic_write.h"
#include "core/base/printable_text.h"
#include "core/base/try.h"
#include "core/fit/fit_report.h"
#include "views/export/export_tables.h"
#include "views/plot/axis_map.h"
#include "views/plot/fit_chart.h"
#include "views/plot/icicle.h"
#include "views/plot/legend.h"
#include "views/plot/number_text.h"
#include "views/plot/timeline_paint.h"
#include "views/plot/tradeoff_curve.h"
#include "views/theme/theme.h"

#include <QBuffer>
#include <QFontMetricsF>
#include <QImage>
#include <QPageSize>
#include <QPainter>
#include <QPdfWriter>
#include <QRectF>
#include <QRegularExpression>
#include <QSvgGenerator>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>

namespace headroom {
namespace {

// Fonts and lines are sized in pixels: at this resolution a pixel of the picture is a pixel of the page.
constexpr int pixelsPerInch = 96;
constexpr double pointsPerPixel = 72.0 / pixelsPerInch;

struct Picture
{
    QString title;
    QSize size; ///< in pixels at scale 1
    double scale = 1;
    std::function<void(QPainter&)> paint;
};

/// The value of an attribute of an SVG element; empty: the element has no such attribute.
QString attributeOf(const QString& element, const QString& name)
{
    const QRegularExpression pattern(QLatin1Char(' ') + name + QStringLiteral("=\"([^\"]*)\""));
    return pattern.match(element).captured(1);
}

QString unescaped(QString xml)
{
    for (const auto& [entity, character] : std::initializer_list<std::pair<const char*, const char*>>{
             {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&amp;", "&"}})
        xml.replace(QLatin1String(entity), QLatin1String(character));
    return xml;
}

/// Gives each text of an SVG document the width with which the text was laid out, and the fonts a generic family: where
/// the fonts are not installed, the texts do not overlap.
QByteArray withWidths(const QByteArray& document)
{
    static const QRegularExpression pattern(QStringLiteral("(<text [^>]*)>([^<]*)</text>"));
    const QString text = QString::fromUtf8(document);
    QString made;
    qsizetype end = 0;
    for (auto found = pattern.globalMatch(text); found.hasNext();) {
        const QRegularExpressionMatch match = found.next();
        const QString element = match.captured(1);
        QFont font(attributeOf(element, QStringLiteral("font-family")));
        font.setPixelSize(std::max(1, attributeOf(element, QStringLiteral("font-size")).toInt()));
        font.setWeight(
            QFont::Weight(std::clamp(attributeOf(element, QStringLiteral("font-weight")).toInt(), 100, 900)));
        const double width = QFontMetricsF(font).horizontalAdvance(unescaped(match.captured(2)));
        made += QStringView(text).mid(end, match.capturedStart() - end) + element
            + QStringLiteral("textLength=\"%1\" lengthAdjust=\"spacingAndGlyphs\">%2</text>")
                  .arg(width, 0, 'f', 2)
                  .arg(match.captured(2));
        end = match.capturedEnd();
    }
    made += QStringView(text).mid(end);
    static const QRegularExpression family(QStringLiteral("font-family=\"([^\",]+)\""));
    return made.replace(family, QStringLiteral("font-family=\"\\1, sans-serif\"")).toUtf8();
}

QByteArray svg(const Picture& picture)
{
    QBuffer buffer;
    QSvgGenerator generator;
    generator.setOutputDevice(&buffer);
    generator.setResolution(pixelsPerInch);
    generator.setSize(picture.size);
    generator.setViewBox(QRect(QPoint(0, 0), picture.size));
    generator.setTitle(picture.title.toHtmlEscaped()); // Qt writes the text as given
    generator.setDescription(QStringLiteral("Drawn by Headroom"));
    QPainter painter(&generator);
    picture.paint(painter);
    painter.end();
    return withWidths(buffer.data());
}

QByteArray pdf(const Picture& picture)
{
    QBuffer buffer;
    buffer.open(QIODevice::WriteOnly);
    QPdfWriter writer(&buffer);
    writer.setTitle(picture.title);
    writer.setCreator(QStringLiteral("Headroom"));
    writer.setResolution(pixelsPerInch);
    writer.setPageSize(QPageSize(QSizeF(picture.size) * pointsPerPixel, QPageSize::Point, {}, QPageSize::ExactMatch));
    writer.setPageMargins({});
    QPainter painter(&writer);
    picture.paint(painter);
    painter.end();
    return buffer.data();
}

QByteArray png(const Picture& picture)
{
    QImage image((QSizeF(picture.size) * picture.scale).toSize(), QImage::Format_ARGB32_Premultiplied);
    image.setDevicePixelRatio(picture.scale);
    image.fill(Qt::transparent);
    QPainter painter(&image);
    picture.paint(painter);
    painter.end();
    image.setText(QStringLiteral("Title"), picture.title);
    QBuffer buffer;
    image.save(&buffer, "PNG");
    return buffer.data();
}

using Draw = QByteArray (*)(const Picture&);

/// The formats by the suffix of the file.
const std::map<QString, Draw>& pictureFormats()
{
    static const std::map<QString, Draw> formats{
        {QStringLiteral(".svg"), svg}, {QStringLiteral(".pdf"), pdf}, {QStringLiteral(".png"), png}};
    return formats;
}

QString suffixOf(const std::filesystem::path& path)
{
    return QString::fromStdString(path.extension().string()).toLower();
}

/// Writes a document with this title, drawn by `paint` in memory, or for a .csv the text of `table`, and replaces the
/// file at once. The suffix of the path, case-insensitive, is the format. Errors (badInput): another suffix or none, or
/// a folder that is not writable.
Status writePicture(const std::string& title, const ExportOptions& options, const std::function<void(QPainter&)>& paint,
                    const std::function<std::string()>& table, const std::filesystem::path& path)
{
    RETURN_IF_ERROR(checkPicturePath(path));
    const QString suffix = suffixOf(path);
    if (suffix == QLatin1String(".csv"))
        return writeAtomically(path, table());
    loadFonts();
    const QByteArray bytes = pictureFormats().at(suffix)(
        {QString::fromStdString(printableText(title)), QSize(options.width, options.height), options.scale, paint});
    return writeAtomically(path, {bytes.constData(), static_cast<std::size_t>(bytes.size())});
}

/// An axis of an exported plot.
struct PictureAxis
{
    AxisMap map;
    double unit = 1; ///< size of a unit of the labels, in units of the data
    QString suffix; ///< text after each label: " ms"
    QString title;
};

/// The margin at both sides of a picture.
inline constexpr double pictureMargin = 20;

Ticks ticksOf(const PictureAxis& axis, double pixelsPerTick)
{
    const AxisRange range{axis.map.data.begin / axis.unit, axis.map.data.end / axis.unit};
    const double pixels = std::abs(axis.map.pixelEnd - axis.map.pixelBegin);
    return niceTicks(range, std::max(2, static_cast<int>(pixels / pixelsPerTick)));
}

/// Paints grid, labels and titles of a plot. The window uses Qt Charts instead: Qt Charts needs widgets.
void paintAxes(QPainter& painter, const QRectF& plot, const PictureAxis& x, const PictureAxis& y, const Theme& theme)
{
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setFont(theme.numberCaption);
    const auto text = [&](const PictureAxis& axis, const Ticks& ticks, int i) {
        return QString(QString::number(ticks.at(i), 'f', ticks.decimals) + axis.suffix);
    };
    const auto rows = ticksOf(y, 40);
    for (int i = 0; i < rows.count; ++i) {
        const double at = y.map.toPixel(rows.at(i) * y.unit);
        painter.setPen(QPen(theme.line, 1));
        painter.drawLine(QPointF(plot.left(), at), QPointF(plot.right(), at));
        painter.setPen(theme.secondText);
        painter.drawText(QRectF(plot.left() - 80, at - 9, 72, 18), Qt::AlignRight | Qt::AlignVCenter, text(y, rows, i));
    }
    const auto columns = ticksOf(x, 84);
    for (int i = 0; i < columns.count; ++i) {
        const double at = x.map.toPixel(columns.at(i) * x.unit);
        painter.setPen(QPen(theme.line, 1));
        painter.drawLine(QPointF(at, plot.bottom()), QPointF(at, plot.bottom() + 4));
        painter.setPen(theme.secondText);
        painter.drawText(QRectF(at - 50, plot.bottom() + 6, 100, 18), Qt::AlignHCenter | Qt::AlignTop,
                         text(x, columns, i));
    }
    painter.setFont(theme.caption);
    painter.setPen(theme.secondText);
    painter.drawText(QRectF(plot.left(), plot.bottom() + 24, plot.width(), 18), Qt::AlignCenter, x.title);
    if (y.title.isEmpty())
        return;
    painter.save();
    painter.translate(plot.left() - 44, plot.center().y());
    painter.rotate(-90);
    painter.drawText(QRectF(-plot.height() / 2, -9, plot.height(), 18), Qt::AlignCenter, y.title);
    painter.restore();
}

/// Paints background, title line and legend of a picture. Returns the rectangle left for the plot and its labels.
QRectF paintFrame(QPainter& painter, const ExportOptions& options, const std::string& title, const QString& head,
                  std::vector<LegendEntry> entries, const Theme& theme)
{
    const Legend legend(head, std::move(entries), options.width - 2 * pictureMargin, theme);
    const QSize size(options.width, options.height);
    const QRectF page(QPointF(0, 0), QSizeF(size));
    painter.fillRect(page, theme.card);
    auto inner = page.adjusted(pictureMargin, 16, -pictureMargin, -12);
    if (!title.empty()) {
        painter.setFont(theme.selection);
        painter.setPen(theme.text);
        const auto shown
            = QFontMetricsF(theme.selection)
                  .elidedText(QString::fromStdString(printableText(title)), Qt::ElideMiddle, inner.width());
        painter.drawText(QRectF(inner.topLeft(), QSizeF(inner.width(), 24)), Qt::AlignLeft | Qt::AlignVCenter, shown);
        inner.setTop(inner.top() + 30);
    }
    legend.paint(painter, inner.topLeft());
    inner.setTop(inner.top() + legend.height() + 4);
    return inner;
}

std::vector<LegendEntry> entriesOf(const TimelineScene& scene, const TimelineDrawList& list, const Theme& theme)
{
    std::vector<LegendEntry> entries;
    for (const auto& band : visibleBands(list))
        entries.push_back({band.title, band.color(theme), LegendEntry::Symbol::square});
    if (scene.hasPlan() && scene.planned->timeline().peak < scene.recorded->timeline().peak)
        entries.push_back({QStringLiteral("Saved by the plan"), theme.secondText, LegendEntry::Symbol::hatch});
    return entries;
}

// The budget's name at the right end of the line.
void paintBudgetTag(QPainter& painter, Bytes budget, bool feasible, const TimelineGeometry& geometry,
                    const Theme& theme)
{
    const double line = geometry.bytes.toPixel(static_cast<double>(budget));
    if (line < geometry.plot.top())
        return;
    const double y = std::max(line, geometry.plot.top() + 17); // names of phases are above the plot
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
    const double duration = std::max({data.recorded->durationMs, shown.durationMs, 1e-6});
    const AxisRange ms{0, duration * 1.02};
    const auto list = prepareDrawList(scene, {ms, std::max(1, options.width)});
    auto plot
        = paintFrame(painter, options, data.title, QStringLiteral("Allocated memory, ") + QLatin1String(unit.name),
                     entriesOf(scene, *list, theme), theme);
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

// The range begins a little below 0, so that dots on an axis are whole.
AxisRange fromZero(double most)
{
    const double end = most > 0 ? most : 1;
    return {-0.03 * end, 1.06 * end};
}

void paintTradeOff(QPainter& painter, const TradeOffExport& data, const ExportOptions& options)
{
    const auto& theme = Theme::make(options.dark);
    const auto picture = data.selected.empty() ? tradeOffPicture(*data.info)
                                               : tradeOffPicture(*data.info, data.selected, data.planned, data.options);
    std::vector<LegendEntry> entries;
    if (!picture.estimate.empty()) {
        entries.push_back({QStringLiteral("checkpointing options"), theme.text, LegendEntry::Symbol::line});
        entries.push_back({QStringLiteral("PyTorch's estimate"), theme.quiet, LegendEntry::Symbol::line});
    }
    if (!picture.others.empty())
        entries.push_back({picture.selected ? QStringLiteral("others of the class") : QStringLiteral("modules"),
                           theme.quiet, LegendEntry::Symbol::line});
    if (picture.hasPlan) {
        entries.push_back({QStringLiteral("chosen by the plan"), theme.accent, LegendEntry::Symbol::dot});
        if (data.msPerGiB > 0)
            entries.push_back({QStringLiteral("%1 ms per GiB").arg(data.msPerGiB, 0, 'f', 1), theme.accent,
                               LegendEntry::Symbol::dash});
    }
    const auto head = data.selected.empty() ? QStringLiteral("Trade-off of every module")
                                            : QStringLiteral("Trade-off of ") + QString::fromStdString(data.selected);
    auto plot = paintFrame(painter, options, data.title, head, std::move(entries), theme);
    plot.adjust(58, 6, -10, -44);
    const TradeOffPlane plane{{fromZero(picture.keptEnd()), plot.left(), plot.right()},
                              {fromZero(picture.msEnd()), plot.bottom(), plot.top()}};
    const ByteUnit bytes = picture.keptUnit();
    const TimeUnit time = picture.timeUnit();
    paintAxes(painter, plot,
              {plane.kept, bytes.bytes, {}, QStringLiteral("Activation memory kept, ") + QLatin1String(bytes.name)},
              {plane.ms, time.ms, {}, QStringLiteral("Recompute, ") + QString::fromUtf8(time.name)}, theme);
    paintOtherCurves(painter, picture, plane, theme);
    paintNames(painter, picture, plane, plot, theme);
    paintChoices(painter, picture, data.msPerGiB, plane, theme);
}

void paintFrontier(QPainter& painter, const FrontierExport& data, const ExportOptions& options)
{
    const auto& theme = Theme::make(options.dark);
    auto head = QStringLiteral("Time added by a budget");
    if (data.stepMs > 0)
        head += QStringLiteral(" to a step of ") + msText(data.stepMs);
    auto plot = paintFrame(painter, options, data.title, head, {}, theme);
    plot.adjust(58, 10, -24, -44);
    double mostMs = 0;
    for (const auto& point : data.points)
        mostMs = std::max(mostMs, point.costMs());
    const double first = data.points.empty() ? 0 : static_cast<double>(data.points.front().peak);
    const double last = data.points.empty() ? static_cast<double>(GiB) : static_cast<double>(data.points.back().peak);
    const double room = std::max((last - first) * 0.06, 1.0);
    const auto unit = byteUnitFor(last);
    const AxisMap x{{std::max(0.0, first - room), last + room}, plot.left(), plot.right()};
    const AxisMap y{fromZero(mostMs), plot.bottom(), plot.top()};
    paintAxes(painter, plot, {x, unit.bytes, {}, QStringLiteral("Peak memory, ") + QLatin1String(unit.name)},
              {y, 1, {}, QStringLiteral("Recompute, ms")}, theme);
    const auto at = [&](const FrontierPoint& point) {
        return QPointF(x.toPixel(static_cast<double>(point.peak)), y.toPixel(point.costMs()));
    };
    // A staircase: between two plans of the frontier the cheaper plan does not fit yet.
    QPolygonF line;
    for (const auto& point : data.points) {
        const QPointF corner = at(point);
        if (!line.empty())
            line << QPointF(corner.x(), line.last().y());
        line << corner;
    }
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(theme.accent, 1.75));
    painter.drawPolyline(line);
    for (const auto& point : data.points)
        paintDot(painter, at(point), 2.25, theme.accent, theme.accent);
    if (data.budget > 0 && x.data.contains(static_cast<double>(data.budget))) {
        const double budget = x.toPixel(static_cast<double>(data.budget));
        painter.setPen(QPen(theme.text, 1));
        painter.drawLine(QPointF(budget, plot.top()), QPointF(budget, plot.bottom()));
        painter.setFont(theme.caption);
        painter.drawText(QRectF(budget + 6, plot.top(), 160, 18), Qt::AlignLeft | Qt::AlignVCenter,
                         QStringLiteral("Budget ") + bytesText(data.budget));
    }
}

} // namespace

Status checkPicturePath(const std::filesystem::path& path)
{
    const QString suffix = suffixOf(path);
    if (suffix != QLatin1String(".csv") && !pictureFormats().contains(suffix))
        return badInput(path.string() + ": the suffix decides the format: expected .svg, .pdf, .png or .csv");
    std::error_code ignored;
    if (path.has_parent_path() && !std::filesystem::is_directory(path.parent_path(), ignored))
        return badInput("cannot write " + path.string() + ": there is no folder " + path.parent_path().string());
    return {};
}

Status exportTimeline(const TimelineExport& data, const std::filesystem::path& path, const ExportOptions& options)
{
    return writePicture(
        data.title, options, [&](QPainter& painter) { paintTimeline(painter, data, options); },
        [&] { return timelineCsv(data); }, path);
}

Status exportTradeOff(const TradeOffExport& data, const std::filesystem::path& path, const ExportOptions& options)
{
    if (!data.selected.empty() && !findModule(*data.info, data.selected))
        return badInput(data.selected + ": the model has no such module; `torch-headroom modules` lists all modules");
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

Status exportFit(const FitExport& data, const std::filesystem::path& path, const ExportOptions& options)
{
    const auto paint = [&](QPainter& painter) {
        const Theme& theme = Theme::make(options.dark);
        const FitPicture picture = fitPicture(data.result, data.ofSequences);
        const QRectF canvas
            = paintFrame(painter, options, data.title, fitTitle(picture), fitLegend(picture, theme), theme);
        paintFit(painter, picture, FitPlane(picture, canvas), theme);
    };
    return writePicture(
        data.title, options, paint, [&] { return toCsv(data.result); }, path);
}

Status exportPeak(const PeakExport& data, const std::filesystem::path& path, const ExportOptions& options)
{
    const Timeline& timeline = *data.timeline;
    const std::size_t count = timeline.peakChange == Timeline::npos ? 0 : timeline.peakChange + 1;
    const LiveTree tree = liveTree(*data.trace, timeline, count, data.by);
    if (path.extension() == ".folded")
        return writeAtomically(path, foldedStacks(tree));
    ExportOptions tall = options;
    constexpr double frame = 124; // title, legend and margins
    tall.height = static_cast<int>(frame + tree.levels() * icicleRow);
    const auto paint = [&](QPainter& painter) {
        const Theme& theme = Theme::make(options.dark);
        std::vector<LegendEntry> entries;
        for (const Category category : stackOrder)
            if (timeline.atPeak[static_cast<std::size_t>(category)] > 0)
                entries.push_back({categoryTitle(category), theme.color(category), LegendEntry::Symbol::square});
        const QRectF canvas
            = paintFrame(painter, tall, data.title, QStringLiteral("Alive at the peak, ") + bytesText(timeline.peak, 2),
                         std::move(entries), theme);
        paintIcicle(painter, tree, icicleBoxes(tree, 0, canvas), theme);
    };
    return writePicture(
        data.title, tall, paint, [&] { return peakCsv(*data.trace, timeline, count, tree); }, path);
}

} // namespace headroom
