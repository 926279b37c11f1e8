// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/allocator/replayer.h"

#include "core/allocator/private_pools.h"
#include "core/trace/graph_ops.h"

#include <algorithm>
#include <utility>

namespace headroom {

Replayer::Replayer(const StepTrace& trace, const AllocatorRules& rules, const Workspaces& workspaces)
    : places_(trace.storages.stream)
    , allocator_(rules)
    , workspaces_(workspaces)
    , poolBytes_(privatePoolBytes(trace.info))
    , live_(trace.storages.size())
{
    if (!rules.expandableSegments)
        addPrivatePools(allocator_, trace.info);
}

bool Replayer::take(StorageId storage, Bytes requested, Bytes rounded, std::uint32_t place)
{
    if (requested <= 0)
        return true;
    const std::optional<Held> held = take(requested, rounded, place);
    if (held)
        adopt(storage, *held);
    return held.has_value();
}

std::optional<Replayer::Held> Replayer::take(Bytes requested, Bytes rounded, std::uint32_t place)
{
    const auto block = allocate(requested, place);
    if (!block)
        return std::nullopt;
    inPools_ += poolOfPlace(place) != 0 ? rounded : 0;
    return Held{*block, rounded, place};
}

void Replayer::adopt(StorageId storage, const Held& held)
{
    Held& last = live_[storage.value];
    if (last.block != Held::none)
        older_[storage].push_back(last);
    last = held;
}

Replayer::Held Replayer::takeAway(StorageId storage)
{
    Held& last = live_[storage.value];
    const Held held = std::exchange(last, {});
    if (const auto older = older_.find(storage); older != older_.end()) {
        last = older->second.back();
        older->second.pop_back();
        if (older->second.empty())
            older_.erase(older);
    }
    return held;
}

void Replayer::free(const Held& held)
{
    allocator_.free(held.block);
    leavePool(held);
}

void Replayer::leavePool(const Held& held)
{
    inPools_ -= poolOfPlace(held.place) != 0 ? held.bytes : 0;
}

bool Replayer::keepWorkspacesUpTo(OpId op)
{
    for (; kept_ < workspaces_.kept.size() && workspaces_.kept[kept_].op <= op; ++kept_) {
        const auto& [user, bytes, place] = workspaces_.kept[kept_];
        if (!take(bytes, bytes, place))
            return false;
    }
    return true;
}

void Replayer::useWorkspace(OpId op, StorageId storage)
{
    const Bytes bytes = workspaces_.duringOp(op);
    if (bytes == 0)
        return;
    if (const auto block = allocate(bytes, placeOf(storage)))
        allocator_.free(*block);
}

bool Replayer::useScratch(OpId op, StorageId storage)
{
    const Bytes bytes = workspaces_.scratchOf(op);
    if (bytes == 0)
        return true;
    const auto block = allocate(bytes, placeOf(storage));
    if (block)
        allocator_.free(*block);
    return block.has_value();
}

void Replayer::giveBack(StorageId storage, std::optional<std::size_t> until)
{
    const Held held = takeAway(storage);
    if (held.block == Held::none)
        return;
    if (until) {
        allocator_.requestFree(held.block);
        awaited_.emplace(*until, held);
    } else {
        free(held);
    }
}

void Replayer::completeUntil(std::size_t change)
{
    const auto end = awaited_.upper_bound(change);
    for (auto block = awaited_.begin(); block != end; ++block)
        free(block->second);
    awaited_.erase(awaited_.begin(), end);
}

bool Replayer::resize(StorageId storage, Bytes rounded, std::uint32_t place)
{
    const Held old = takeAway(storage);
    const bool taken = take(storage, rounded, rounded, place);
    free(old);
    return taken;
}

void Replayer::rename(StorageId from, StorageId to)
{
    live_[to.value] = std::exchange(live_[from.value], {});
    older_.erase(to);
    if (auto older = older_.extract(from)) {
        older.key() = to;
        older_.insert(std::move(older));
    }
}

Bytes Replayer::size(StorageId storage) const
{
    const Held& last = live_[storage.value];
    return last.block == Held::none ? 0 : last.bytes;
}

std::vector<std::pair<StorageId, Replayer::Held>> Replayer::live() const
{
    std::vector<std::pair<StorageId, Held>> result;
    for (std::uint32_t i = 0; i < live_.size(); ++i)
        if (live_[i].block != Held::none)
            result.emplace_back(StorageId(i), live_[i]);
    return result;
}

void Replayer::resetStats()
{
    allocator_.resetPeaks();
    allocator_.resetAccumulated();
}

Bytes Replayer::held() const
{
    return stats().active + std::max<Bytes>(poolBytes_ - inPools_, 0);
}

std::vector<std::uint64_t> Replayer::layout() const
{
    std::vector<std::uint64_t> found = allocator_.layout();
    for (const auto& [storage, held] : live())
        found.insert(found.end(), {storage.value, held.block});
    return found;
}

AllocatorSample Replayer::sample() const
{
    const CachingAllocator::Stats now = stats();
    return {now.requested, now.allocated, now.active, now.reserved, now.inactiveSplit};
}

std::optional<CachingAllocator::Block> Replayer::allocate(Bytes bytes, std::uint32_t place)
{
    const std::int64_t waits = allocator_.counters().synchronizations;
    const auto block = allocator_.allocate(bytes, place, {0, poolOfPlace(place)});
    if (allocator_.counters().synchronizations != waits) { // the allocator waited until no stream uses freed blocks
        for (const auto& [until, held] : awaited_)
            leavePool(held);
        awaited_.clear();
    }
    return block;
}

} // namespace headroom
