// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <span>
#include <vector>

namespace headroom {

/// A continuous piecewise-linear function: segment s runs from breakpoints[s] to breakpoints[s + 1] and is
/// slopes[s] * x + intercepts[s].
struct PiecewiseFit
{
    std::vector<double> breakpoints;
    std::vector<double> slopes;
    std::vector<double> intercepts;
};

/// The continuous piecewise-linear function of `segments` (1 or 2) segments with the least sum of squared residuals at
/// the points (x[i], y[i]), x strictly ascending. PyTorch uses pwlf for this fit; here there is no random search.
///
/// Exact: the breakpoint of the best fit is either at an inner point, or where the best lines through the points
/// left and right of the breakpoint cross. All candidates are tried in closed form; of equally good candidates the
/// leftmost is taken. If only the last point is on the second segment, any breakpoint between the last two points fits;
/// the point before the last is taken, so that the segment is the chord between both points. The same points give the
/// same bits. Needs two points, or four for two segments.
PiecewiseFit fitPiecewise(std::span<const double> x, std::span<const double> y, int segments);

} // namespace headroom
