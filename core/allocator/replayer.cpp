// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/allocator/replayer.h"

#include "core/allocator/private_pools.h"
#include "core/trace/graph_ops.h"

#include <algorithm>

namespace headroom {

Replayer::Replayer(const StepTrace& trace, const AllocatorRules& rules, const Workspaces& workspaces)
    : places_(trace.storages.stream)
    , allocator_(rules)
    , workspaces_(workspaces)
    , poolBytes_(privatePoolBytes(trace.info))
{
    if (!rules.expandableSegments)
        addPrivatePools(allocator_, trace.info);
}

bool Replayer::take(StorageId storage, Bytes requested, Bytes rounded, std::uint32_t place)
{
    if (requested <= 0)
        return true;
    const auto block = allocate(requested, place);
    if (block) {
        live_[storage].push_back({*block, rounded, place});
        inPools_ += poolOfPlace(place) != 0 ? rounded : 0;
    }
    return block.has_value();
}

std::optional<Replayer::Held> Replayer::take(Bytes requested, std::uint32_t place)
{
    const auto block = allocate(requested, place);
    if (!block)
        return std::nullopt;
    const Held held{*block, roundedToBlock(requested), place};
    inPools_ += poolOfPlace(place) != 0 ? held.bytes : 0;
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
        if (!allocate(bytes, place))
            return false;
        inPools_ += poolOfPlace(place) != 0 ? bytes : 0;
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

void Replayer::giveBack(StorageId storage, std::optional<std::size_t> until)
{
    const auto found = live_.find(storage);
    if (found == live_.end() || found->second.empty())
        return;
    if (until) {
        allocator_.requestFree(found->second.back().block);
        awaited_.emplace(*until, found->second.back());
    } else {
        free(found->second.back());
    }
    found->second.pop_back();
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
    std::vector<Held>& held = live_[storage];
    const Held old = held.back();
    held.pop_back();
    const bool taken = take(storage, rounded, rounded, place);
    free(old);
    return taken;
}

void Replayer::rename(StorageId from, StorageId to)
{
    auto node = live_.extract(from);
    node.key() = to;
    live_.erase(to);
    live_.insert(std::move(node));
}

Bytes Replayer::size(StorageId storage) const
{
    const auto found = live_.find(storage);
    return found == live_.end() || found->second.empty() ? 0 : found->second.back().bytes;
}

std::map<StorageId, Replayer::Held> Replayer::live() const
{
    std::map<StorageId, Held> result;
    for (const auto& [storage, held] : live_)
        if (!held.empty())
            result.emplace(storage, held.back());
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
    std::vector<std::uint64_t> found;
    for (const CachingAllocator::SegmentState& segment : allocator_.segments())
        for (const CachingAllocator::Segment::Part& part : segment.parts)
            found.insert(found.end(), {segment.stream, part.address, static_cast<std::uint64_t>(part.size),
                                       static_cast<std::uint64_t>(part.requested)});
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
