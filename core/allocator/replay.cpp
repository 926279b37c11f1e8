// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/allocator/replay.h"

#include "core/allocator/first_step.h"
#include "core/allocator/private_pools.h"
#include "core/trace/graph_ops.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace headroom {

namespace {

/// Steps that are played at most until one begins with the blocks with which an earlier one began.
constexpr int mostSteps = 8;

/// Allocates and frees the blocks of storages. A storage has two blocks at a time only if it exists together with its
/// recomputed copy.
class Replayer
{
public:
    Replayer(const StepTrace& trace, const AllocatorRules& rules, const Workspaces& workspaces)
        : places_(trace.storages.stream)
        , allocator_(rules)
        , workspaces_(workspaces)
        , poolBytes_(privatePoolBytes(trace.info))
    {
        if (!rules.expandableSegments)
            addPrivatePools(allocator_, trace.info);
    }

    /// Allocates a block of a storage; returns false if the device is full.
    bool take(StorageId storage, Bytes requested, Bytes rounded, std::uint32_t place)
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

    /// Allocates the workspaces that libraries keep from the ops up to `op`; returns false if the device is full.
    bool keepWorkspacesUpTo(OpId op)
    {
        for (; kept_ < workspaces_.kept.size() && workspaces_.kept[kept_].op <= op; ++kept_) {
            const auto& [user, bytes, place] = workspaces_.kept[kept_];
            if (!allocate(bytes, place))
                return false;
            inPools_ += poolOfPlace(place) != 0 ? bytes : 0;
        }
        return true;
    }

    /// Allocates the workspace of an op, in the place of the storage that it created, and frees it.
    void useWorkspace(OpId op, StorageId storage)
    {
        const Bytes bytes = workspaces_.duringOp(op);
        if (bytes == 0)
            return;
        if (const auto block = allocate(bytes, placeOf(storage)))
            allocator_.free(*block);
    }

    /// Frees the last block of a storage. `until` is the index of the change until which another stream uses the block;
    /// nullopt: no stream does.
    void giveBack(StorageId storage, std::optional<std::size_t> until = {})
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

    /// Frees the blocks that other streams used until the change at this index or an earlier one.
    void completeUntil(std::size_t change)
    {
        const auto end = awaited_.upper_bound(change);
        for (auto block = awaited_.begin(); block != end; ++block)
            free(block->second);
        awaited_.erase(awaited_.begin(), end);
    }

    /// Allocates the new block of a resized storage, then frees the old one, since the content is copied. Returns false
    /// if the device is full.
    bool resize(StorageId storage, Bytes rounded, std::uint32_t place)
    {
        std::vector<Held>& held = live_[storage];
        const Held old = held.back();
        held.pop_back();
        const bool taken = take(storage, rounded, rounded, place);
        free(old);
        return taken;
    }

    std::uint32_t placeOf(StorageId storage) const { return places_.size() > 0 ? places_[storage] : 0; }

    /// Returns the place of the storage's block, or that of its first allocation if it has no block.
    std::uint32_t placeNow(StorageId storage) const
    {
        const auto found = live_.find(storage);
        return found == live_.end() || found->second.empty() ? placeOf(storage) : found->second.back().place;
    }

    /// Returns the bytes of the storage's block; 0 if it has none.
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

    void resetStats()
    {
        allocator_.resetPeaks();
        allocator_.resetAccumulated();
    }
    CachingAllocator::Stats stats() const { return allocator_.stats(); }
    const CachingAllocator& allocator() const { return allocator_; }
    Bytes held() const { return stats().active + std::max<Bytes>(poolBytes_ - inPools_, 0); }
    /// What decides how later steps run: all blocks, and the addresses of the storages' own.
    std::vector<std::uint64_t> layout() const
    {
        std::vector<std::uint64_t> found;
        for (const CachingAllocator::SegmentState& segment : allocator_.segments())
            for (const CachingAllocator::Segment::Part& part : segment.parts)
                found.insert(found.end(), {segment.stream, part.address, static_cast<std::uint64_t>(part.size),
                                           static_cast<std::uint64_t>(part.requested)});
        std::map<StorageId, CachingAllocator::Block> blocks;
        for (const auto& [storage, held] : live_)
            if (!held.empty())
                blocks.emplace(storage, held.back().block);
        for (const auto& [storage, block] : blocks)
            found.insert(found.end(), {storage.value, block});
        return found;
    }
    AllocatorSample sample() const
    {
        const CachingAllocator::Stats now = stats();
        return {now.requested, now.allocated, now.active, now.reserved, now.inactiveSplit};
    }

private:
    struct Held
    {
        CachingAllocator::Block block = 0;
        Bytes bytes = 0;
        std::uint32_t place = 0;
    };

    void free(const Held& held)
    {
        allocator_.free(held.block);
        leavePool(held);
    }
    void leavePool(const Held& held) { inPools_ -= poolOfPlace(held.place) != 0 ? held.bytes : 0; }

    std::optional<CachingAllocator::Block> allocate(Bytes bytes, std::uint32_t place)
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

    StepTrace::Column<StorageId, std::uint32_t> places_; ///< places as in graph_ops.h
    CachingAllocator allocator_;
    const Workspaces& workspaces_;
    Bytes poolBytes_; ///< bytes of private pools, which serve no other request
    Bytes inPools_ = 0; ///< bytes of blocks in private pools
    std::size_t kept_ = 0; ///< number of workspaces in workspaces_.kept that were allocated
    std::unordered_map<StorageId, std::vector<Held>> live_;
    std::multimap<std::size_t, Held> awaited_; ///< freed blocks, by the change until which other streams use them
};

/// Whether the storage is a block of the allocator. A real device has other memory too.
bool isAllocators(const StepTrace& trace, StorageId storage)
{
    return trace.storages.category[storage] != Category::nonPyTorch;
}

std::set<StorageId> aliveAtStart(const StepTrace& trace, const Timeline& timeline)
{
    std::set<StorageId> alive;
    for (const LiveBlock& block : liveBlocks(trace, timeline, 0))
        if (isAllocators(trace, block.storage))
            alive.insert(block.storage);
    return alive;
}

/// Whether two adjacent changes only move a storage from one category to another.
bool isRetype(const MemoryChange& first, const MemoryChange& second)
{
    return first.storage == second.storage && first.delta < 0 && first.delta == -second.delta
        && first.category != second.category;
}

/// Plays one change; returns false if the device is full. `until` is as for giveBack().
bool play(Replayer& replayer, const StepTrace& trace, const MemoryChange& change, std::optional<std::size_t> until)
{
    if (!isAllocators(trace, change.storage))
        return true;
    const Bytes size = replayer.size(change.storage);
    if (change.delta > 0 && (size == 0 || change.recomputed))
        return replayer.take(change.storage,
                             change.delta == trace.storages.bytes[change.storage]
                                 ? trace.storages.requested[change.storage]
                                 : change.delta,
                             change.delta, change.place);
    if (change.delta == -size)
        replayer.giveBack(change.storage, until);
    else if (size > 0)
        return replayer.resize(change.storage, size + change.delta, change.place);
    return true;
}

/// Allocates a block for a storage of the step's start; returns false if the device is full.
bool takeOfStart(Replayer& replayer, const StepTrace& trace, StorageId storage)
{
    return replayer.take(storage, trace.storages.requested[storage], trace.storages.bytes[storage],
                         replayer.placeOf(storage));
}

/// The storages that the first step makes and later ones find (FirstStep::made), in the order in which it makes them.
class ToMake
{
public:
    ToMake(const StepTrace& trace, std::span<const FirstStep::Made> made)
        : trace_(trace)
        , left_(made)
    {
    }

    /// Allocates those that are made before a change or earlier; returns false if the device is full. An optimizer that
    /// works in place changes no memory by its ops, so that between ops the time counts.
    bool upTo(Replayer& replayer, const MemoryChange& change)
    {
        for (; !left_.empty(); left_ = left_.subspan(1)) {
            const FirstStep::Made& next = left_.front();
            if (change.op ? change.op < next.op : change.ms <= next.ms)
                break;
            if (!takeOfStart(replayer, trace_, next.storage))
                return false;
        }
        return true;
    }

    /// Allocates the rest; returns false if the device is full.
    bool rest(Replayer& replayer)
    {
        return std::ranges::all_of(std::exchange(left_, {}), [&](const FirstStep::Made& made) {
            return takeOfStart(replayer, trace_, made.storage);
        });
    }

private:
    const StepTrace& trace_;
    std::span<const FirstStep::Made> left_;
};

/// Plays the changes of one step until a request fails.
void run(Replayer& replayer, const StepTrace& trace, const Timeline& timeline, ToMake toMake, AllocatorRun& result)
{
    result.start = result.atPeak = replayer.sample();
    result.mostHeld = replayer.held();
    auto delayed = timeline.delayed.begin();
    for (std::size_t row = 0; row < timeline.changes.size(); ++row) {
        const MemoryChange& change = timeline.changes[row];
        std::optional<std::size_t> until;
        if (delayed != timeline.delayed.end() && delayed->change == row)
            until = delayed++->until;
        if (row + 1 < timeline.changes.size() && isRetype(change, timeline.changes[row + 1])) {
            ++row;
            result.samples.insert(result.samples.end(), 2, replayer.sample());
            continue;
        }
        if (change.delta > 0)
            replayer.completeUntil(row);
        if ((change.op && !replayer.keepWorkspacesUpTo(change.op)) || !toMake.upTo(replayer, change)
            || !play(replayer, trace, change, until)) {
            result.failure
                = AllocatorRun::Failure{row, change.storage, change.op, change.ms, replayer.allocator().outOfMemory()};
            return;
        }
        if (change.delta > 0)
            replayer.useWorkspace(change.op, change.storage);
        result.mostHeld = std::max(result.mostHeld, replayer.held());
        result.samples.push_back(replayer.sample());
        const AllocatorSample& now = result.samples.back();
        if (std::pair(now.reserved, now.active) > std::pair(result.atPeak.reserved, result.atPeak.active))
            result.atPeak = now;
    }
    if (!timeline.changes.empty() && !toMake.rest(replayer)) {
        const MemoryChange& last = timeline.changes.back();
        result.failure = AllocatorRun::Failure{timeline.changes.size() - 1, last.storage, last.op, last.ms,
                                               replayer.allocator().outOfMemory()};
    }
}

/// Allocates a block for each storage; returns false if the device is full.
template <class Storages>
bool takeAll(Replayer& replayer, const StepTrace& trace, const Storages& storages)
{
    return std::ranges::all_of(storages, [&](StorageId storage) { return takeOfStart(replayer, trace, storage); });
}

/// Prepares the next step: storages that live at the end of a step become the storages from which the next one starts.
/// A missing storage of `start` takes over a left block of the same size and place (the gradient of one step is the old
/// gradient of the next), or gets a new block. Returns false if the device is full.
bool startAgain(Replayer& replayer, const StepTrace& trace, const std::set<StorageId>& start)
{
    replayer.completeUntil(Timeline::npos); // the streams are idle when the next step begins
    std::multimap<std::pair<Bytes, std::uint32_t>, StorageId> left; // by size and place
    for (const auto& [storage, bytes] : replayer.live()) {
        if (!start.contains(storage))
            left.emplace(std::pair(bytes, replayer.placeNow(storage)), storage);
    }
    std::vector<StorageId> missing;
    for (const StorageId storage : start) {
        if (replayer.size(storage) > 0)
            continue;
        const auto same = left.find({trace.storages.bytes[storage], replayer.placeOf(storage)});
        if (same != left.end()) {
            replayer.rename(same->second, storage);
            left.erase(same);
        } else {
            missing.push_back(storage);
        }
    }
    for (const auto& [place, storage] : left)
        replayer.giveBack(storage);
    return takeAll(replayer, trace, missing);
}

} // namespace

AllocatorRun simulateAllocator(const StepTrace& trace, const Timeline& timeline, const AllocatorRules& rules,
                               const Workspaces& workspaces)
{
    Replayer replayer(trace, rules, workspaces);
    const std::set<StorageId> start = aliveAtStart(trace, timeline);
    const bool isRepeated = trace.info.source != "snapshot";
    const FirstStep first = isRepeated ? firstStep(trace, timeline, start) : FirstStep{start, {}};
    AllocatorRun result;
    Bytes reservedPeak = 0;
    std::set<std::vector<std::uint64_t>> layouts; // with which steps began
    bool fits = takeAll(replayer, trace, first.present);
    for (int step = 1;; ++step) {
        result = {};
        result.step = step;
        if (step > 1)
            layouts.insert(replayer.layout());
        replayer.resetStats();
        if (fits)
            run(replayer, trace, timeline,
                ToMake(trace, step == 1 ? std::span(first.made) : std::span<const FirstStep::Made>()),
                result);
        else
            result.failure
                = AllocatorRun::Failure{AllocatorRun::Failure::npos, {}, {}, 0, replayer.allocator().outOfMemory()};
        result.stats = replayer.stats();
        result.mostHeld = std::max(result.mostHeld, result.stats.activePeak);
        reservedPeak = std::max(reservedPeak, result.stats.reservedPeak);
        if (result.failure || !isRepeated || step == mostSteps)
            break;
        fits = startAgain(replayer, trace, start);
        if (fits && layouts.contains(replayer.layout())) // later steps run as those since then did
            break;
    }
    result.stats.reservedPeak = reservedPeak;
    return result;
}

std::string recordedAllocatorSettings(const StepInfo& info)
{
    for (const auto& [key, value] : info.settings)
        if (key == "PYTORCH_CUDA_ALLOC_CONF" || key == "PYTORCH_ALLOC_CONF")
            return value;
    return {};
}

std::string noteOnActive(const Timeline& timeline)
{
    return timeline.delayed.empty() ? std::string()
                                    : "estimated: a freed block that other streams use (record_stream) is active until "
                                      "their work ends, by the time model";
}

std::string noteOnRules(const AllocatorRules& rules)
{
    if (rules.garbageCollection <= 0 || rules.limit() != AllocatorRules::unlimited)
        return {};
    return "garbage_collection_threshold changes nothing without per_process_memory_fraction and a card: PyTorch "
           "collects only under a limit";
}

std::string outOfMemoryReason(const CachingAllocator::OutOfMemory& memory)
{
    const Bytes unused = memory.stats.reserved - memory.stats.active;
    std::string text = "it needs " + formatBytes(memory.wanted) + " from the device, which has "
        + formatBytes(memory.deviceFree) + " left";
    if (memory.isFragmentation())
        text += ", and " + formatBytes(unused) + " lie free in segments in use, but in pieces of at most "
            + formatBytes(memory.freeBlocks.empty() ? 0 : memory.freeBlocks.front())
            + " for this pool and stream: fragmentation";
    else
        text += ", and of " + formatBytes(memory.stats.reserved) + " reserved all but " + formatBytes(unused)
            + " are in use";
    return text;
}

std::string outOfMemorySentence(const StepTrace& trace, const AllocatorRun::Failure& failure)
{
    const std::string block = "a block of " + formatBytes(failure.memory.size);
    if (failure.change == AllocatorRun::Failure::npos)
        return "out of memory before the step: " + block + " of its state finds no room; "
            + outOfMemoryReason(failure.memory);
    char instant[48];
    std::snprintf(instant, sizeof(instant), "%.2f ms", failure.ms);
    std::string text = "out of memory at " + std::string(instant);
    if (failure.op) {
        text += " in " + std::string(trace.opName(failure.op));
        if (const std::string_view module = trace.moduleFqn(trace.ops.module[failure.op]); !module.empty())
            text += " of " + std::string(module);
    }
    return text + ": " + block + " finds no room; " + outOfMemoryReason(failure.memory);
}

nlohmann::ordered_json outOfMemoryJson(const StepTrace& trace, const AllocatorRun::Failure& failure)
{
    const CachingAllocator::OutOfMemory& memory = failure.memory;
    nlohmann::ordered_json json;
    json["instant"] = failure.ms;
    json["op"] = failure.op ? std::string(trace.opName(failure.op)) : "";
    json["module"] = failure.op ? std::string(trace.moduleFqn(trace.ops.module[failure.op])) : "";
    json["requested_bytes"] = memory.requested;
    json["block_bytes"] = memory.size;
    json["wanted_bytes"] = memory.wanted;
    json["free_bytes"] = memory.deviceFree;
    json["reserved_bytes"] = memory.stats.reserved;
    json["active_bytes"] = memory.stats.active;
    json["largest_free_block_bytes"] = memory.freeBlocks.empty() ? 0 : memory.freeBlocks.front();
    json["free_blocks_bytes"] = memory.freeBlocks;
    json["fragmentation"] = memory.isFragmentation();
    json["reason"] = outOfMemorySentence(trace, failure);
    return json;
}

} // namespace headroom
