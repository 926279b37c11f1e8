// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/sharding.h"

#include <utility>

namespace headroom {

namespace {

/// Live bytes of one step by category, whole and per rank.
class RankMemory
{
public:
    RankMemory(const CategoryBytes& start, int worldSize)
        : whole_(start)
        , worldSize_(worldSize)
    {
        for (std::size_t category = 0; category < categoryCount; ++category)
            rank_[category] = share(category, start[category]);
    }

    /// Applies a change of the whole and returns the change on the rank.
    Bytes change(Category changed, Bytes delta)
    {
        const auto category = static_cast<std::size_t>(changed);
        whole_[category] += delta;
        const Bytes before = rank_[category];
        rank_[category] = share(category, whole_[category]);
        return rank_[category] - before;
    }

    const CategoryBytes& rank() const { return rank_; }
    Bytes share(std::size_t category, Bytes bytes) const
    {
        const auto kind = static_cast<Category>(category);
        const bool sharded = kind == Category::parameter || kind == Category::gradient || kind == Category::optimizer;
        return sharded ? (bytes + worldSize_ - 1) / worldSize_ : bytes;
    }

private:
    CategoryBytes whole_;
    CategoryBytes rank_{};
    int worldSize_;
};

} // namespace

Timeline perRank(Timeline timeline, int worldSize)
{
    if (worldSize == 1)
        return timeline;
    Timeline sharded = std::move(timeline);
    RankMemory memory(sharded.start, worldSize);
    sharded.start = memory.rank();
    sharded.peak = total(sharded.start);
    sharded.peakChange = Timeline::npos;
    sharded.atPeak = sharded.start;
    Bytes live = sharded.peak;
    for (std::size_t i = 0; i < sharded.changes.size(); ++i) {
        MemoryChange& change = sharded.changes[i];
        change.delta = memory.change(change.category, change.delta);
        live += change.delta;
        if (live > sharded.peak) {
            sharded.peak = live;
            sharded.peakChange = i;
            sharded.atPeak = memory.rank();
        }
    }
    for (Timeline::Snapshot& snapshot : sharded.snapshots)
        for (std::size_t category = 0; category < categoryCount; ++category)
            snapshot.bytes[category] = memory.share(category, snapshot.bytes[category]);
    return sharded;
}

} // namespace headroom
