// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/timeline/pyramid.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

namespace headroom {

namespace {

constexpr std::size_t leafSize = 64; ///< changes
constexpr std::size_t radix = 8; ///< nodes under a node

void apply(CategoryBytes& bytes, const MemoryChange& change)
{
    bytes[static_cast<std::size_t>(change.category)] += change.delta;
}

} // namespace

TimelinePyramid::TimelinePyramid(TimelinePtr timeline)
    : timeline_(std::move(timeline))
{
    const auto& changes = timeline_->changes;
    const std::size_t leaves = (changes.size() + leafSize - 1) / leafSize;
    leafStart_.reserve(leaves);
    leafMs_.reserve(leaves);
    levels_.emplace_back().reserve(leaves);
    CategoryBytes now = timeline_->start;
    Bytes sum = total(now);
    for (std::size_t begin = 0; begin < changes.size(); begin += leafSize) {
        leafStart_.push_back(now);
        leafMs_.push_back(changes[begin].ms);
        Node node;
        for (std::size_t i = begin; i < std::min(begin + leafSize, changes.size()); ++i) {
            apply(now, changes[i]);
            sum += changes[i].delta;
            node.merge(sum, sum, static_cast<std::uint32_t>(i + 1));
        }
        levels_.front().push_back(node);
    }
    while (levels_.back().size() > 1) {
        const std::vector<Node>& below = levels_.back();
        std::vector<Node> level((below.size() + radix - 1) / radix);
        for (std::size_t i = 0; i < below.size(); ++i)
            level[i / radix].merge(below[i].maximum, below[i].minimum, below[i].maximumAt);
        levels_.push_back(std::move(level));
    }
}

void TimelinePyramid::Node::merge(Bytes otherMaximum, Bytes otherMinimum, std::uint32_t otherAt) noexcept
{
    if (otherMaximum > maximum || (otherMaximum == maximum && otherAt < maximumAt)) {
        maximum = otherMaximum;
        maximumAt = otherAt;
    }
    minimum = std::min(minimum, otherMinimum);
}

CategoryBytes TimelinePyramid::bytesAt(std::size_t count) const
{
    count = std::min(count, timeline_->changes.size());
    if (count == 0)
        return timeline_->start;
    const std::size_t leaf = (count - 1) / leafSize;
    CategoryBytes bytes = leafStart_[leaf];
    for (std::size_t i = leaf * leafSize; i < count; ++i)
        apply(bytes, timeline_->changes[i]);
    return bytes;
}

std::size_t TimelinePyramid::changesUntil(double ms) const
{
    return countChanges([ms](double change) { return change <= ms; });
}

template <class Counts>
std::size_t TimelinePyramid::countChanges(Counts counts) const
{
    // The compact column of leaves first: the changes themselves are far apart in memory.
    const auto leaf = std::ranges::partition_point(leafMs_, counts);
    if (leaf == leafMs_.begin())
        return 0;
    const std::size_t begin = static_cast<std::size_t>(leaf - leafMs_.begin() - 1) * leafSize;
    const std::size_t size = std::min(leafSize, timeline_->changes.size() - begin);
    const auto changes = std::span(timeline_->changes).subspan(begin, size);
    const auto end = std::ranges::partition_point(changes, counts, &MemoryChange::ms);
    return begin + static_cast<std::size_t>(end - changes.begin());
}

void TimelinePyramid::scanLeaf(std::size_t begin, std::size_t end, Node& node) const
{
    if (begin == end)
        return;
    const std::size_t leaf = begin / leafSize;
    Bytes sum = total(leafStart_[leaf]);
    for (std::size_t i = leaf * leafSize; i < end; ++i) {
        sum += timeline_->changes[i].delta;
        if (i >= begin)
            node.merge(sum, sum, static_cast<std::uint32_t>(i + 1));
    }
}

TimelinePyramid::Node TimelinePyramid::extremes(std::size_t begin, std::size_t end) const
{
    Node node;
    std::size_t first = (begin + leafSize - 1) / leafSize;
    std::size_t last = end / leafSize;
    if (first > last) {
        scanLeaf(begin, end, node);
        return node;
    }
    scanLeaf(begin, first * leafSize, node);
    scanLeaf(last * leafSize, end, node);

    const auto merge = [&](const Node& other) { node.merge(other.maximum, other.minimum, other.maximumAt); };
    for (std::size_t level = 0; first < last; ++level, first /= radix, last /= radix) {
        // Nodes that do not fill a node of the next level, on both sides; the top level is walked whole.
        const bool top = level + 1 == levels_.size();
        while (first < last && (top || first % radix != 0))
            merge(levels_[level][first++]);
        while (first < last && last % radix != 0)
            merge(levels_[level][--last]);
    }
    return node;
}

std::vector<TimelinePyramid::PixelColumn> TimelinePyramid::columns(double beginMs, double endMs, int width) const
{
    std::vector<PixelColumn> result(static_cast<std::size_t>(std::max(width, 0)));
    const double step = (endMs - beginMs) / std::max(width, 1);
    const auto before = [this](double ms) { return countChanges([ms](double change) { return change < ms; }); };
    std::size_t held = before(beginMs);
    for (std::size_t i = 0; i < result.size(); ++i) {
        const bool lastColumn = i + 1 == result.size();
        const std::size_t next = lastColumn ? changesUntil(endMs) : before(beginMs + step * static_cast<double>(i + 1));
        // The value at the column's begin, and the value after each change of the column.
        Node node = extremes(held, std::max(held, next));
        const CategoryBytes carried = bytesAt(held);
        node.merge(total(carried), total(carried), static_cast<std::uint32_t>(held));
        result[i] = {node.maximumAt == held ? carried : bytesAt(node.maximumAt), node.minimum, node.maximumAt};
        held = std::max(held, next);
    }
    return result;
}

} // namespace headroom
