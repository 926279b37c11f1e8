// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/timeline.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace headroom {

/// Level-of-detail pyramid over a Timeline: finds the highest and lowest total of any range of changes in O(log n), so
/// that a plot of any width and zoom shows every spike. Immutable; shares the timeline.
class TimelinePyramid
{
public:
    explicit TimelinePyramid(TimelinePtr timeline);

    const Timeline& timeline() const noexcept { return *timeline_; }

    /// Live bytes after the first `count` changes; 0: at the start.
    CategoryBytes bytesAt(std::size_t count) const;

    /// Number of changes at or before `ms`: an argument for bytesAt().
    std::size_t changesUntil(double ms) const;

    /// A pixel column: the bytes of every category at the instant of the column's highest total, so that stacked
    /// bands add up to the true peak.
    struct PixelColumn
    {
        CategoryBytes atMaximum{};
        Bytes minimumTotal = 0;
        std::size_t maximumChange = 0; ///< number of changes up to that instant: an argument for bytesAt()
    };
    /// `width` columns over [beginMs, endMs]. A column covers the value at the column's begin and the changes inside.
    std::vector<PixelColumn> columns(double beginMs, double endMs, int width) const;

private:
    /// Highest and lowest total of a range of changes.
    struct Node
    {
        Bytes maximum = std::numeric_limits<Bytes>::min();
        Bytes minimum = std::numeric_limits<Bytes>::max();
        std::uint32_t maximumAt = 0; ///< number of changes up to the first maximum

        void merge(Bytes otherMaximum, Bytes otherMinimum, std::uint32_t otherAt) noexcept;
    };
    Node extremes(std::size_t begin, std::size_t end) const; ///< over the totals after each change of [begin, end)
    void scanLeaf(std::size_t begin, std::size_t end, Node& node) const; ///< merges changes inside a leaf into `node`
    template <class Counts>
    std::size_t countChanges(Counts counts) const; ///< number of changes with counts(ms), a prefix of all changes

    TimelinePtr timeline_;
    std::vector<CategoryBytes> leafStart_; ///< state before each leaf
    std::vector<double> leafMs_; ///< time of the first change of each leaf
    std::vector<std::vector<Node>> levels_; ///< extremes of leaves, of groups of leaves, …
};

} // namespace headroom
