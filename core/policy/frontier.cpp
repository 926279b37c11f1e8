// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/frontier.h"

#include <algorithm>

namespace headroom {

std::vector<FrontierPoint> undominated(std::vector<FrontierPoint> points, int most)
{
    std::ranges::sort(points, [](const FrontierPoint& a, const FrontierPoint& b) {
        return a.peak != b.peak ? a.peak < b.peak : a.recomputeMs < b.recomputeMs;
    });
    std::vector<FrontierPoint> front;
    for (const FrontierPoint& point : points)
        if (front.empty() || point.recomputeMs < front.back().recomputeMs)
            front.push_back(point);
    const auto wanted = static_cast<std::size_t>(std::max(most, 0));
    if (front.size() <= wanted)
        return front;
    std::vector<FrontierPoint> thinned;
    for (std::size_t i = 0; i < wanted; ++i)
        thinned.push_back(front[wanted == 1 ? 0 : i * (front.size() - 1) / (wanted - 1)]);
    return thinned;
}

} // namespace headroom
