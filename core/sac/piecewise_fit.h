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
/// the points (x[i], y[i]), x strictly ascending: what PyTorch asks of pwlf, without pwlf's random search.
///
/// Exact: the breakpoint of the best fit is either at an inner point, or it is where the two lines cross that fit the
/// points to its left and to its right best. All of them are tried, in closed form. Of equally good breakpoints the
/// leftmost is taken. (A last point alone on its segment leaves the breakpoint open between the last two points; it is
/// then at the last but one, so that the second segment is the chord between them.) The same points give the same bits.
/// Needs two points, for two segments four.
PiecewiseFit fitPiecewise(std::span<const double> x, std::span<const double> y, int segments);

/// Sum of squared differences between the function and the points.
double squaredResidual(const PiecewiseFit& fit, std::span<const double> x, std::span<const double> y);

} // namespace headroom
