// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/tradeoff_curve.h"

#include "core/base/curves.h"

#include <QFontMetricsF>
#include <QPainter>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

namespace headroom {
namespace {

constexpr std::size_t mostOthers = 40;
constexpr std::size_t mostOptions = 100;
constexpr std::size_t fewCorners = 6;

bool samePoint(const TradeOffPoint& a, const TradeOffPoint& b)
{
    const auto near = [](double x, double y) { return std::abs(x - y) <= 1e-9 * std::max(std::abs(x), std::abs(y)); };
    return near(a.kept, b.kept) && near(a.ms, b.ms);
}

bool sameCurve(const std::vector<TradeOffPoint>& a, const std::vector<TradeOffPoint>& b)
{
    return std::ranges::equal(a, b, samePoint);
}

bool isNumber(std::string_view part)
{
    return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
}

bool hasCurve(const ModuleStats& module)
{
    return !module.isLeaf && module.sacMemory > 0 && !module.slopes.empty();
}

} // namespace

double recomputeMs(const ModuleStats& module, double ratio)
{
    double share = 0;
    for (std::size_t i = 0; i < module.slopes.size(); ++i)
        share = std::max(share, module.slopes[i] * ratio + module.intercepts[i]);
    return ratio <= 0 ? 0 : share * module.sacRuntimeMs;
}

TradeOffPoint tradeOffPoint(const ModuleStats& module, double ratio)
{
    return {ratio, static_cast<double>(module.sacMemory) * (1 - ratio), recomputeMs(module, ratio)};
}

std::vector<TradeOffPoint> tradeOffCurve(const ModuleStats& module)
{
    if (!hasCurve(module))
        return {};
    std::vector<double> ratios{0, 1};
    for (const double ratio : module.breakpoints) {
        if (ratio > 0 && ratio < 1)
            ratios.push_back(ratio);
    }
    std::sort(ratios.begin(), ratios.end());
    ratios.erase(std::unique(ratios.begin(), ratios.end(), [](double a, double b) { return b - a < 1e-9; }),
                 ratios.end());
    std::vector<TradeOffPoint> curve;
    for (const double ratio : ratios)
        curve.push_back(tradeOffPoint(module, ratio));
    return curve;
}

bool sameClass(std::string_view a, std::string_view b)
{
    while (!a.empty() && !b.empty()) {
        const std::string_view partOfA = a.substr(0, a.find('.'));
        const std::string_view partOfB = b.substr(0, b.find('.'));
        if (partOfA != partOfB && !(isNumber(partOfA) && isNumber(partOfB)))
            return false;
        a.remove_prefix(std::min(partOfA.size() + 1, a.size()));
        b.remove_prefix(std::min(partOfB.size() + 1, b.size()));
    }
    return a.empty() && b.empty();
}

const ModuleStats* findModule(const ModuleInfo& info, std::string_view fqn)
{
    const auto found = std::find_if(info.stats.begin(), info.stats.end(),
                                    [&](const ModuleStats& module) { return module.fqn == fqn; });
    return found == info.stats.end() ? nullptr : &*found;
}

namespace {

/// Visits the other modules of the selected module's class that have something to discard.
template <class Visit>
void forClass(const ModuleInfo& info, const TradeOffPicture& picture, Visit visit)
{
    for (const auto& module : info.stats)
        if (&module != picture.selected && hasCurve(module) && sameClass(module.fqn, picture.selected->fqn))
            visit(module);
}

void choose(TradeOffPicture& picture, const TradeOffPoint& point)
{
    const auto known = std::find_if(picture.choices.begin(), picture.choices.end(),
                                    [&](const auto& choice) { return samePoint(choice.point, point); });
    if (known == picture.choices.end())
        picture.choices.push_back({point, 1});
    else
        ++known->modules;
}

void include(TradeOffPicture& picture, const std::vector<TradeOffPoint>& points)
{
    for (const auto& point : points) {
        picture.mostKept = std::max(picture.mostKept, point.kept);
        picture.mostMs = std::max(picture.mostMs, point.ms);
    }
}

/// Adds the different curves of the other modules of the class.
void addOthers(TradeOffPicture& picture, const ModuleInfo& info)
{
    forClass(info, picture, [&](const ModuleStats& module) {
        std::vector<TradeOffPoint> curve = tradeOffCurve(module);
        const bool seen = sameCurve(curve, picture.curve)
            || std::ranges::any_of(picture.others, [&](const auto& other) { return sameCurve(other, curve); });
        if (seen || picture.others.size() == mostOthers)
            return;
        include(picture, curve);
        picture.others.push_back(std::move(curve));
    });
}

/// A curve of modules of the same class.
struct AlikeModules
{
    const ModuleStats* first = nullptr;
    std::vector<TradeOffPoint> curve;
    int others = 0;
};

/// Adds the plan's choices for the selected module and for the other modules of the class.
void chooseAll(TradeOffPicture& picture, const ModuleInfo& info, const PlannedPoint& planned)
{
    picture.hasPlan = static_cast<bool>(planned);
    if (!picture.hasPlan)
        return;
    picture.chosen = planned(picture.selected->fqn);
    forClass(info, picture, [&](const ModuleStats& module) { choose(picture, planned(module.fqn)); });
    for (const auto& choice : picture.choices)
        include(picture, {choice.point});
    include(picture, {picture.chosen});
}

} // namespace

std::vector<TradeOffPoint> optionPoints(const std::vector<ModuleOption>& options)
{
    std::vector<TradeOffPoint> points;
    for (const ModuleOption& option : options)
        points.push_back(plannedPoint({options.front().kept, option.kept, option.recomputeMs}));
    return spreadEvenly(points, mostOptions);
}

TradeOffPoint plannedPoint(const ModuleEffect& effect)
{
    return {discardedShare(effect), static_cast<double>(effect.kept), effect.recomputeMs};
}

std::vector<TradeOffPoint> fewPoints(const std::vector<TradeOffPoint>& points, const TradeOffPoint* chosen)
{
    std::vector<TradeOffPoint> corners;
    for (const std::size_t corner : lowerHull(
             points, [](const TradeOffPoint& point) { return point.kept; },
             [](const TradeOffPoint& point) { return point.ms; }))
        corners.push_back(points[corner]);
    std::vector<TradeOffPoint> few = spreadEvenly(corners, fewCorners);
    const auto isChosen = [&](const TradeOffPoint& point) { return samePoint(point, *chosen); };
    if (chosen && std::ranges::none_of(few, isChosen))
        few.insert(std::ranges::lower_bound(few, -chosen->kept, {}, [](const TradeOffPoint& p) { return -p.kept; }),
                   *chosen);
    return few;
}

TradeOffPicture tradeOffPicture(const ModuleInfo& info, std::string_view fqn, const PlannedPoint& planned,
                                const std::vector<ModuleOption>& options)
{
    TradeOffPicture picture;
    picture.selected = findModule(info, fqn);
    if (!picture.selected)
        return picture;
    std::vector<TradeOffPoint> estimate = tradeOffCurve(*picture.selected);
    if (options.empty()) {
        picture.curve = std::move(estimate);
        addOthers(picture, info);
    } else {
        picture.curve = optionPoints(options);
        picture.estimate = std::move(estimate);
    }
    include(picture, picture.curve);
    include(picture, picture.estimate);
    chooseAll(picture, info, planned);
    return picture;
}

TradeOffPicture tradeOffPicture(const ModuleInfo& info)
{
    std::vector<AlikeModules> different;
    for (const ModuleStats& module : info.stats) {
        if (!hasCurve(module))
            continue;
        std::vector<TradeOffPoint> curve = tradeOffCurve(module);
        const auto known = std::ranges::find_if(different, [&](const AlikeModules& alike) {
            return sameClass(alike.first->fqn, module.fqn) && sameCurve(alike.curve, curve);
        });
        if (known == different.end())
            different.push_back({&module, std::move(curve)});
        else
            ++known->others;
    }
    TradeOffPicture picture;
    for (AlikeModules& alike : different) {
        include(picture, alike.curve);
        picture.others.push_back(std::move(alike.curve));
        picture.names.push_back(
            alike.first->fqn + (alike.others > 0 ? " and " + std::to_string(alike.others) + " alike" : std::string()));
    }
    return picture;
}

ByteUnit TradeOffPicture::keptUnit() const noexcept
{
    return byteUnitFor(std::min(keptEnd(), static_cast<double>(MiB)));
}

TimeUnit TradeOffPicture::timeUnit() const noexcept
{
    return timeUnitFor({0, msEnd()});
}

double TradeOffPicture::keptEnd() const noexcept
{
    return mostKept > 0 ? mostKept : static_cast<double>(MiB);
}

double TradeOffPicture::msEnd() const noexcept
{
    return mostMs > 0 ? mostMs : 1;
}

TangentPiece tangent(const TradeOffPicture& picture, double msPerGiB)
{
    const double slope = msPerGiB / static_cast<double>(GiB); // ms per byte
    // As far as a third of the picture to either side, and not below 0 ms nor above the highest curve.
    const double reach = picture.mostKept / 3;
    const auto& at = picture.chosen;
    const double left = std::max({0.0, at.kept - reach, at.kept - (picture.mostMs - at.ms) / slope});
    const double right = std::min({picture.mostKept, at.kept + reach, at.kept + at.ms / slope});
    const auto ms = [&](double kept) { return at.ms - slope * (kept - at.kept); };
    return {left, ms(left), right, ms(right)};
}

namespace {

constexpr std::size_t mostCorners = 12; // a curve of more points is drawn as single points

QPolygonF lineOf(const std::vector<TradeOffPoint>& curve, const TradeOffPlane& plane)
{
    QPolygonF line;
    for (const auto& point : curve)
        line << plane.at(point);
    return line;
}

} // namespace

void paintDot(QPainter& painter, QPointF at, double radius, const QColor& fill, const QColor& border, double width)
{
    painter.setPen(Qt::NoPen);
    if (width > 0) {
        painter.setBrush(border);
        painter.drawEllipse(at, radius + width / 2, radius + width / 2);
    }
    painter.setBrush(fill);
    painter.drawEllipse(at, radius - width / 2, radius - width / 2);
}

void paintOtherCurves(QPainter& painter, const TradeOffPicture& picture, const TradeOffPlane& plane, const Theme& theme)
{
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(theme.quiet, 1));
    for (const auto& other : picture.others)
        painter.drawPolyline(lineOf(other, plane));
    painter.setPen(QPen(theme.quiet, 1.5));
    painter.drawPolyline(lineOf(picture.estimate, plane));
}

void paintNames(QPainter& painter, const TradeOffPicture& picture, const TradeOffPlane& plane, const QRectF& plot,
                const Theme& theme)
{
    constexpr double lineHeight = 15;
    constexpr int mostRows = 6; // above a corner
    constexpr QPointF gap(8, 4);
    const QFontMetricsF metrics(theme.caption);
    painter.setFont(theme.caption);
    std::vector<QRectF> taken;
    const auto isFree = [&](const QRectF& box) {
        return plot.contains(box)
            && std::ranges::none_of(taken, [&](const QRectF& other) { return box.intersects(other); });
    };
    std::vector<std::size_t> order(picture.names.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return picture.others[i].front().kept; });
    for (const std::size_t i : order) {
        const QString name = QString::fromStdString(picture.names[i]);
        const QSizeF size(metrics.horizontalAdvance(name) + 2, lineHeight);
        const auto place = [&]() -> std::optional<std::pair<QPointF, QRectF>> {
            for (int row = 0; row < mostRows; ++row)
                for (const TradeOffPoint& point : picture.others[i]) {
                    const QPointF corner = plane.at(point);
                    const QRectF box(corner + QPointF(gap.x(), -gap.y() - (row + 1) * lineHeight), size);
                    if (isFree(box))
                        return std::pair(corner, box);
                }
            return std::nullopt;
        }();
        if (!place)
            continue;
        const auto& [corner, box] = *place;
        taken.push_back(box);
        painter.setPen(QPen(theme.line, 1));
        painter.drawLine(corner, box.bottomLeft());
        painter.setPen(theme.secondText);
        painter.drawText(box, Qt::AlignLeft | Qt::AlignVCenter, name);
    }
}

void paintChoices(QPainter& painter, const TradeOffPicture& picture, double msPerGiB, const TradeOffPlane& plane,
                  const Theme& theme)
{
    if (picture.curve.empty())
        return;
    if (picture.hasPlan && msPerGiB > 0) {
        const auto piece = tangent(picture, msPerGiB);
        painter.setPen(QPen(theme.accent, 1.25, Qt::DashLine));
        painter.drawLine(plane.at({0, piece.keptBegin, piece.msBegin}), plane.at({0, piece.keptEnd, piece.msEnd}));
    }
    auto pale = theme.accent;
    pale.setAlphaF(0.65f); // a contrast of at least 3 to the card
    for (const auto& choice : picture.choices)
        paintDot(painter, plane.at(choice.point), 3.5, pale, {}, 0);
    painter.setBrush(Qt::NoBrush);
    const bool many = picture.curve.size() > mostCorners;
    painter.setPen(QPen(theme.text, many ? 1 : 2, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
    painter.drawPolyline(lineOf(picture.curve, plane));
    for (const auto& point : picture.curve)
        paintDot(painter, plane.at(point), many ? 2 : 3.5, many ? theme.text : theme.card, theme.text);
    if (picture.hasPlan)
        paintDot(painter, plane.at(picture.chosen), 5.5, theme.accent, theme.card);
}

} // namespace headroom
