// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/module_ways.h"
#include "core/sac/module_info.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// One point of a module's trade-off: what it keeps, and what it costs to recompute the rest.
struct TradeOffPoint
{
    double ratio = 0; ///< share of the activation memory discarded
    double kept = 0; ///< bytes
    double ms = 0; ///< to recompute
};

/// Time to recompute `ratio` of the module's activation memory, by its convex piecewise-linear curve.
double recomputeMs(const ModuleStats& module, double ratio);
TradeOffPoint tradeOffPoint(const ModuleStats& module, double ratio);

/// The corners of the curve from nothing discarded to everything; empty for a module that has nothing to discard.
std::vector<TradeOffPoint> tradeOffCurve(const ModuleStats& module);

/// The ways that the planner has for a module, as points; of very many some are left out between the ends.
std::vector<TradeOffPoint> wayPoints(const std::vector<ModuleWay>& ways);

/// What a plan does to a module of that name.
using PlannedPoint = std::function<TradeOffPoint(const std::string& fqn)>;
TradeOffPoint plannedPoint(const ModuleEffect& effect);

/// A few of the points that say most: the ends, corners of the convex hull, and `chosen`, if it is not null.
std::vector<TradeOffPoint> fewPoints(const std::vector<TradeOffPoint>& points, const TradeOffPoint* chosen);

/// Names that are equal but for numbers: modules of one list, "layers.#.mlp", are of one class.
bool sameClass(std::string_view a, std::string_view b);

const ModuleStats* findModule(const ModuleInfo& info, std::string_view fqn);

/// What the trade-off plot shows for one selected module.
struct TradeOffPicture
{
    const ModuleStats* selected = nullptr;
    std::vector<TradeOffPoint> curve; ///< of the selected module: the planner's ways, or PyTorch's estimate
    std::vector<TradeOffPoint> estimate; ///< PyTorch's, where the curve are ways
    std::vector<std::vector<TradeOffPoint>> others; ///< of the same class, equal curves once, at most some dozens
    struct Choice
    {
        TradeOffPoint point;
        int modules = 1; ///< that the plan treats so
    };
    std::vector<Choice> choices; ///< of the other modules of the class
    TradeOffPoint chosen; ///< of the selected one
    bool hasPlan = false;
    double mostKept = 0;
    double mostMs = 0;
};
/// PyTorch's estimate, and what the plan did; empty function: there is no plan.
TradeOffPicture tradeOffPicture(const ModuleInfo& info, std::string_view fqn, const PlannedPoint& planned);

/// The same with what the planner may choose from, `ways` of the selected module.
TradeOffPicture tradeOffPicture(const ModuleInfo& info, std::string_view fqn, const std::vector<ModuleWay>& ways,
                                const PlannedPoint& planned);

/// Points of single ways, rather than corners of a line.
inline bool hasManyPoints(const TradeOffPicture& picture)
{
    return picture.curve.size() > 12;
}

/// The piece of the tangent with slope -`msPerGiB` through `through` that lies inside the picture.
struct TangentPiece
{
    double keptBegin = 0, msBegin = 0, keptEnd = 0, msEnd = 0;
};
TangentPiece tangent(const TradeOffPicture& picture, double msPerGiB);

} // namespace headroom
