// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/timeline.h"

#include <cstdint>
#include <vector>

namespace headroom {

/// Level-of-detail pyramid over a Timeline: the highest and lowest total of any range of changes in O(log n), so that a
/// plot of any width and zoom never misses a spike. Immutable, shares the timeline.
class TimelinePyramid
{
public:
    explicit TimelinePyramid(TimelinePtr timeline);

    const Timeline& timeline() const noexcept { return *timeline_; }

    /// Live bytes after the first `count` changes (0: the start).
    CategoryBytes bytesAt(std::size_t count) const;

    /// Number of changes at or before `ms`: an argument for bytesAt().
    std::size_t changesUntil(double ms) const;

    /// One pixel column: the whole category vector at the instant of the column's highest total, so that stacked bands
    /// add up to the true peak.
    struct PixelColumn
    {
        CategoryBytes atMaximum{};
        Bytes minimumTotal = 0;
        std::size_t maximumChange = 0; ///< count of changes at that instant: an argument for bytesAt()
    };
    /// `width` columns over [beginMs, endMs]. A column without changes repeats the value that holds there.
    std::vector<PixelColumn> columns(double beginMs, double endMs, int width) const;

private:
    struct Node
    {
        Bytes maximum = 0;
        Bytes minimum = 0;
        std::uint32_t maximumAt = 0; ///< count of changes
    };
    TimelinePtr timeline_;
    std::vector<CategoryBytes> leafStart_; ///< state before each leaf
    std::vector<std::vector<Node>> levels_;
};

} // namespace headroom
