// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <vector>

namespace headroom {

/// Returns the indices of the corners of the lower convex hull of `points`, which are sorted by x, ascending or
/// descending. A point on the line between two corners is not a corner. `x(point)` and `y(point)` are the point's
/// coordinates.
template <class Points, class X, class Y>
std::vector<std::size_t> lowerHull(const Points& points, X x, Y y)
{
    std::vector<std::size_t> corners;
    for (std::size_t i = 0; i < points.size(); ++i) {
        // Drops the last corner if not below the line from the previous corner to the new point.
        const auto isAbove = [&](std::size_t before, std::size_t last) {
            const auto riseToLast = static_cast<double>(y(points[last]) - y(points[before]));
            const auto riseToNew = static_cast<double>(y(points[i]) - y(points[before]));
            const auto runToNew = static_cast<double>(x(points[i]) - x(points[before]));
            const auto runToLast = static_cast<double>(x(points[last]) - x(points[before]));
            return runToNew < 0 ? riseToLast * runToNew <= riseToNew * runToLast
                                : riseToLast * runToNew >= riseToNew * runToLast;
        };
        while (corners.size() >= 2 && isAbove(corners[corners.size() - 2], corners.back()))
            corners.pop_back();
        corners.push_back(i);
    }
    return corners;
}

/// Returns at most `most` of the values, spread evenly, with the first and the last; only the last if `most` is 1.
template <class T>
std::vector<T> spreadEvenly(const std::vector<T>& from, std::size_t most)
{
    if (from.size() <= most)
        return from;
    std::vector<T> chosen;
    for (std::size_t i = 0; i < most; ++i)
        chosen.push_back(from[most == 1 ? from.size() - 1 : i * (from.size() - 1) / (most - 1)]);
    return chosen;
}

} // namespace headroom
