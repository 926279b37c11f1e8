// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/sac/piecewise_fit.h"

#include <algorithm>
#include <cassert>
#include <cstddef>

namespace headroom {
namespace {

using Real = long double;

/// Sums over consecutive points. The sums of any range are the difference of two prefixes' sums.
struct Moments
{
    Real n = 0;
    Real x = 0;
    Real y = 0;
    Real xx = 0;
    Real xy = 0;
    Real yy = 0;

    void add(Real px, Real py)
    {
        n += 1;
        x += px;
        y += py;
        xx += px * px;
        xy += px * py;
        yy += py * py;
    }
    Moments operator-(const Moments& other) const
    {
        return {n - other.n, x - other.x, y - other.y, xx - other.xx, xy - other.xy, yy - other.yy};
    }
    /// The moments with the origin of x moved to `origin`.
    Moments about(Real origin) const
    {
        return {n, x - n * origin, y, xx - 2 * origin * x + n * origin * origin, xy - origin * y, yy};
    }
};

struct Line
{
    Real slope = 0;
    Real intercept = 0;
    Real residual = 0;
};

Line fitLine(const Moments& points)
{
    const Moments centred = points.about(points.x / points.n);
    const Real meanY = points.y / points.n;
    Line line;
    line.slope = centred.xx > 0 ? centred.xy / centred.xx : 0;
    line.intercept = meanY - line.slope * points.x / points.n;
    line.residual = points.yy - meanY * points.y - line.slope * centred.xy;
    return line;
}

/// Two lines that meet in (at, value).
struct Hinge
{
    Real at = 0;
    Real value = 0;
    Real leftSlope = 0;
    Real rightSlope = 0;
    Real residual = 0;
};

/// The best pair of lines that meet at `at`, for the points left and right of `at`. A point at `at` may be on either
/// side.
Hinge fitHinge(const Moments& leftPoints, const Moments& rightPoints, Real at)
{
    const Moments left = leftPoints.about(at);
    const Moments right = rightPoints.about(at);
    const Real leftShare = left.x / left.xx;
    const Real rightShare = right.x / right.xx;
    Hinge hinge;
    hinge.at = at;
    const Real rest = left.n + right.n - left.x * leftShare - right.x * rightShare;
    const Real sum = left.y + right.y - left.xy * leftShare - right.xy * rightShare;
    hinge.value = sum / rest;
    hinge.leftSlope = (left.xy - left.x * hinge.value) / left.xx;
    hinge.rightSlope = (right.xy - right.x * hinge.value) / right.xx;
    hinge.residual = left.yy + right.yy - hinge.value * (left.y + right.y) - hinge.leftSlope * left.xy
        - hinge.rightSlope * right.xy;
    return hinge;
}

Moments momentsOf(std::span<const double> x, std::span<const double> y)
{
    Moments moments;
    for (std::size_t i = 0; i < x.size(); ++i)
        moments.add(x[i], y[i]);
    return moments;
}

/// The breakpoint of the best two segments.
double bestBreakpoint(std::span<const double> x, std::span<const double> y)
{
    const std::size_t count = x.size();
    std::vector<Moments> prefix(count + 1);
    for (std::size_t i = 0; i < count; ++i) {
        prefix[i + 1] = prefix[i];
        prefix[i + 1].add(x[i], y[i]);
    }
    // Residuals below this are rounding errors.
    const Real noise = 1e-15L * std::max<Real>(prefix[count].yy, 1e-300L);
    Real best = -1;
    double at = x[1];
    const auto consider = [&](Real residual, Real breakpoint) {
        residual = std::max(residual, noise);
        if (best < 0 || residual < best) {
            best = residual;
            at = static_cast<double>(breakpoint);
        }
    };
    for (std::size_t i = 1; i + 1 < count; ++i) {
        // The breakpoint at point i, then between points i and i + 1.
        consider(fitHinge(prefix[i + 1], prefix[count] - prefix[i + 1], x[i]).residual, x[i]);
        if (i + 2 >= count)
            continue;
        const Line left = fitLine(prefix[i + 1]);
        const Line right = fitLine(prefix[count] - prefix[i + 1]);
        if (left.slope == right.slope)
            continue;
        const Real crossing = (left.intercept - right.intercept) / (right.slope - left.slope);
        if (crossing > x[i] && crossing < x[i + 1])
            consider(left.residual + right.residual, crossing);
    }
    return at;
}

} // namespace

PiecewiseFit fitPiecewise(std::span<const double> x, std::span<const double> y, int segments)
{
    assert(x.size() == y.size() && x.size() >= (segments == 2 ? 4u : 2u));
    assert(segments == 1 || segments == 2);
    if (segments == 1) {
        const Line line = fitLine(momentsOf(x, y));
        return {{x.front(), x.back()}, {static_cast<double>(line.slope)}, {static_cast<double>(line.intercept)}};
    }
    const double at = bestBreakpoint(x, y);
    // The final fit sums the points relative to the breakpoint, so that no digits cancel.
    Moments left;
    Moments right;
    for (std::size_t i = 0; i < x.size(); ++i)
        (x[i] <= at ? left : right).add(static_cast<Real>(x[i]) - at, y[i]);
    const Hinge hinge = fitHinge(left, right, 0);
    return {{x.front(), at, x.back()},
            {static_cast<double>(hinge.leftSlope), static_cast<double>(hinge.rightSlope)},
            {static_cast<double>(hinge.value - hinge.leftSlope * at),
             static_cast<double>(hinge.value - hinge.rightSlope * at)}};
}

} // namespace headroom
