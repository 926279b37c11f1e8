// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/module_options.h"
#include "core/sac/module_info.h"
#include "views/plot/axis_map.h"
#include "views/plot/number_text.h"
#include "views/theme/theme.h"

#include <QPointF>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

class QPainter;

namespace headroom {

/// A point of a module's trade-off: memory kept, and time to recompute the rest.
struct TradeOffPoint
{
    double ratio = 0; ///< share of the activation memory discarded
    double kept = 0; ///< bytes
    double ms = 0; ///< time to recompute the rest

    bool operator==(const TradeOffPoint&) const = default;
};

/// Time in ms to recompute the share `ratio` of the module's activation memory, by the piecewise-linear curve.
double recomputeMs(const ModuleStats& module, double ratio);
TradeOffPoint tradeOffPoint(const ModuleStats& module, double ratio);

/// The corners of the curve, from nothing discarded to everything; empty if the module has nothing to discard.
std::vector<TradeOffPoint> tradeOffCurve(const ModuleStats& module);

/// The planner's options for a module as points; if there are very many, some between the ends are left out.
std::vector<TradeOffPoint> optionPoints(const std::vector<ModuleOption>& options);

/// A function that returns the point of a plan for a module.
using PlannedPoint = std::function<TradeOffPoint(const std::string& fqn)>;
TradeOffPoint plannedPoint(const ModuleEffect& effect);

/// A few representative points: the ends, corners of the convex hull, and `chosen`, if not null.
std::vector<TradeOffPoint> fewPoints(const std::vector<TradeOffPoint>& points, const TradeOffPoint* chosen);

/// Whether two names differ only in numbers, as of modules of the same list: "layers.#.mlp".
bool sameClass(std::string_view a, std::string_view b);

const ModuleStats* findModule(const ModuleInfo& info, std::string_view fqn);

/// The contents of the trade-off plot for a selected module.
struct TradeOffPicture
{
    const ModuleStats* selected = nullptr;
    std::vector<TradeOffPoint> curve; ///< the selected module's: the planner's options, or PyTorch's estimate
    std::vector<TradeOffPoint> estimate; ///< PyTorch's estimate, if the curve is the planner's options
    std::vector<std::vector<TradeOffPoint>> others; ///< curves of the same class, equal ones once, at most some dozens
    std::vector<std::string> names; ///< of `others`, in the same order; empty: the picture shows no names
    struct Choice
    {
        TradeOffPoint point;
        int modules = 1; ///< number of modules that the plan treats alike
    };
    std::vector<Choice> choices; ///< the plan's choices for the other modules of the class
    TradeOffPoint chosen; ///< the plan's choice for the selected module
    bool hasPlan = false;
    double mostKept = 0;
    double mostMs = 0;

    ByteUnit keptUnit() const noexcept; ///< of the axis: MiB, or a smaller unit for a small module
    TimeUnit timeUnit() const noexcept; ///< of the axis
    double keptEnd() const noexcept; ///< of the axis, in bytes; never 0
    double msEnd() const noexcept; ///< of the axis; never 0
};
/// Makes the picture of a module from the plan's choices (`planned` empty: no plan), and from the planner's options for
/// the module (empty: from PyTorch's estimate).
TradeOffPicture tradeOffPicture(const ModuleInfo& info, std::string_view fqn, const PlannedPoint& planned,
                                const std::vector<ModuleOption>& options = {});

/// Makes the picture without a selected module: the curves of all modules, with names. Modules of the same class with
/// equal curves have a single curve: "layers.0 and 11 alike".
TradeOffPicture tradeOffPicture(const ModuleInfo& info);

/// The part of a tangent that is inside the picture.
struct TangentPiece
{
    double keptBegin = 0, msBegin = 0, keptEnd = 0, msEnd = 0;
};
TangentPiece tangent(const TradeOffPicture& picture, double msPerGiB);

/// The axes on which a trade-off picture is painted.
struct TradeOffPlane
{
    AxisMap kept; ///< bytes
    AxisMap ms;

    QPointF at(const TradeOffPoint& point) const { return {kept.toPixel(point.kept), ms.toPixel(point.ms)}; }
};

/// Paints a disc with a border of `width`, half of it inside of the radius; 0: no border. It fills two discs, since
/// stroking a circle takes several times as long.
void paintDot(QPainter& painter, QPointF at, double radius, const QColor& fill, const QColor& border,
              double width = 1.5);

/// Paints the parts that are the same for every plan: the curves of other modules, and PyTorch's estimate.
void paintOtherCurves(QPainter& painter, const TradeOffPicture& picture, const TradeOffPlane& plane,
                      const Theme& theme);

/// Paints the names of the curves of other modules beside the curves, inside of `plot`. A name without free space is
/// left out, names of the largest curves last.
void paintNames(QPainter& painter, const TradeOffPicture& picture, const TradeOffPlane& plane, const QRectF& plot,
                const Theme& theme);

/// Paints the selected module's curve, the plan's choices, and the tangent of the price of memory.
void paintChoices(QPainter& painter, const TradeOffPicture& picture, double msPerGiB, const TradeOffPlane& plane,
                  const Theme& theme);

} // namespace headroom
