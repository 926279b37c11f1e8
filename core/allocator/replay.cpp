// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/allocator/replay.h"

#include <map>
#include <set>
#include <vector>

namespace headroom {

namespace {

/// One storage's blocks. There are two at a time only where a recomputed copy and its original meet.
class Replayer
{
public:
    explicit Replayer(AllocatorRules rules)
        : allocator_(rules)
    {
    }

    void take(StorageId storage, Bytes requested, Bytes rounded)
    {
        if (requested <= 0)
            return;
        if (const auto block = allocator_.allocate(requested))
            live_[storage].push_back({*block, rounded});
    }

    void giveBack(StorageId storage)
    {
        const auto found = live_.find(storage);
        if (found == live_.end() || found->second.empty())
            return;
        allocator_.free(found->second.back().block);
        found->second.pop_back();
    }

    /// A resized storage gets its new block before it gives the old one back, since its content is copied.
    void resize(StorageId storage, Bytes rounded)
    {
        std::vector<Held>& held = live_[storage];
        const Held old = held.back();
        held.pop_back();
        take(storage, rounded, rounded);
        allocator_.free(old.block);
    }

    /// 0 when it has no block.
    Bytes size(StorageId storage) const
    {
        const auto found = live_.find(storage);
        return found == live_.end() || found->second.empty() ? 0 : found->second.back().bytes;
    }

    void rename(StorageId from, StorageId to)
    {
        auto node = live_.extract(from);
        node.key() = to;
        live_.erase(to);
        live_.insert(std::move(node));
    }

    std::vector<std::pair<StorageId, Bytes>> live() const
    {
        std::vector<std::pair<StorageId, Bytes>> result;
        for (const auto& [storage, held] : live_) {
            if (!held.empty())
                result.emplace_back(storage, held.back().bytes);
        }
        return result;
    }

    void resetPeaks() { allocator_.resetPeaks(); }
    const CachingAllocator::Stats& stats() const { return allocator_.stats(); }

private:
    struct Held
    {
        CachingAllocator::Block block = 0;
        Bytes bytes = 0;
    };
    CachingAllocator allocator_;
    std::map<StorageId, std::vector<Held>> live_;
};

std::set<StorageId> aliveAtStart(const StepTrace& trace)
{
    std::set<StorageId> alive;
    for (std::uint32_t row = 0; row < trace.events.size(); ++row) {
        const EventIndex event(row);
        const EventKind kind = trace.events.kind[event];
        const std::uint32_t subject = trace.events.a[event];
        if (kind == EventKind::mark && static_cast<Mark>(subject) == Mark::stepBegin)
            break;
        if (kind == EventKind::alloc)
            alive.insert(StorageId(subject));
        else if (kind == EventKind::free)
            alive.erase(StorageId(subject));
    }
    return alive;
}

/// A storage that only changes its category: it dies in one and is alive again in another, at once.
bool isRetype(const MemoryChange& first, const MemoryChange& second)
{
    return first.storage == second.storage && first.delta < 0 && first.delta == -second.delta
        && first.category != second.category;
}

/// Plays the changes of one step.
void run(Replayer& replayer, const StepTrace& trace, const Timeline& timeline)
{
    for (std::size_t row = 0; row < timeline.changes.size(); ++row) {
        const MemoryChange& change = timeline.changes[row];
        if (row + 1 < timeline.changes.size() && isRetype(change, timeline.changes[row + 1])) {
            ++row;
            continue;
        }
        const Bytes size = replayer.size(change.storage);
        if (change.delta > 0 && (size == 0 || change.recomputed))
            replayer.take(change.storage,
                          change.delta == trace.storages.bytes[change.storage]
                              ? trace.storages.requested[change.storage]
                              : change.delta,
                          change.delta);
        else if (change.delta == -size)
            replayer.giveBack(change.storage);
        else if (size > 0)
            replayer.resize(change.storage, size + change.delta);
    }
}

/// What a step leaves behind takes the place of what it started from, block by block of the same size where it can: the
/// gradient or output of one step is that of the step before, seen from the next one.
void startAgain(Replayer& replayer, const StepTrace& trace, const std::set<StorageId>& start)
{
    std::multimap<Bytes, StorageId> left;
    for (const auto& [storage, bytes] : replayer.live()) {
        if (!start.contains(storage))
            left.emplace(bytes, storage);
    }
    std::vector<StorageId> missing;
    for (const StorageId storage : start) {
        if (replayer.size(storage) > 0)
            continue;
        if (const auto same = left.find(trace.storages.bytes[storage]); same != left.end()) {
            replayer.rename(same->second, storage);
            left.erase(same);
        } else {
            missing.push_back(storage);
        }
    }
    for (const auto& [bytes, storage] : left)
        replayer.giveBack(storage);
    for (const StorageId storage : missing)
        replayer.take(storage, trace.storages.requested[storage], trace.storages.bytes[storage]);
}

} // namespace

CachingAllocator::Stats replay(const StepTrace& trace, const Timeline& timeline, AllocatorRules rules)
{
    Replayer replayer(rules);
    const std::set<StorageId> start = aliveAtStart(trace);
    for (const StorageId storage : start)
        replayer.take(storage, trace.storages.requested[storage], trace.storages.bytes[storage]);
    run(replayer, trace, timeline);
    startAgain(replayer, trace, start);
    replayer.resetPeaks();
    run(replayer, trace, timeline);
    return replayer.stats();
}

} // namespace headroom
