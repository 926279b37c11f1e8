// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/allocator/replay.h"

#include "core/allocator/first_step.h"
#include "core/allocator/replayer.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace headroom {

namespace {

/// Most steps of a run. A run ends earlier if a step would begin with the same blocks as an earlier step.
constexpr int mostSteps = 24;
constexpr int mostOfEachSize = 3; ///< most steps of each size, where steps have several sizes

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

/// By storage: whether the size follows the step's data. Other storages are as large as parameters, or have a size of
/// the program.
std::vector<bool> sizedByData(const StepTrace& trace, const Timeline& timeline)
{
    std::vector<bool> made(trace.storages.size(), false), other(trace.storages.size(), false);
    for (const MemoryChange& change : timeline.changes) {
        const bool isData = (change.category == Category::activation || change.category == Category::temporary)
            && (!change.op || trace.ops.phase[change.op] != Phase::optimizer);
        if (!isData)
            other[change.storage.value] = true;
        else if (change.delta > 0)
            made[change.storage.value] = true;
    }
    for (std::size_t storage = 0; storage < made.size(); ++storage)
        made[storage] = made[storage] && !other[storage];
    return made;
}

/// The sizes of a played step: as in the recorded step, but all that is sized by data is `factor` times as large.
struct StepSize
{
    const std::vector<bool>& byData;
    double factor = 1;

    /// Returns the requested and the rounded bytes of a change.
    std::pair<Bytes, Bytes> of(const StepTrace& trace, const MemoryChange& change) const
    {
        const StorageId storage = change.storage;
        const Bytes rounded = std::abs(change.delta);
        const Bytes requested = rounded == trace.storages.bytes[storage] ? trace.storages.requested[storage] : rounded;
        if (factor == 1 || !byData[storage.value])
            return {requested, rounded};
        const auto scaled = static_cast<Bytes>(static_cast<double>(requested) * factor);
        return {scaled, roundedToBlock(scaled)};
    }
};

/// Plays a change; returns false if the device is full. `until`: see giveBack().
bool play(Replayer& replayer, const StepTrace& trace, const MemoryChange& change, const StepSize& sizes,
          std::optional<std::size_t> until)
{
    if (!isAllocators(trace, change.storage))
        return true;
    const Bytes size = replayer.size(change.storage);
    const auto [requested, rounded] = sizes.of(trace, change);
    if (change.delta > 0 && (size == 0 || change.recomputed))
        return replayer.take(change.storage, requested, rounded, change.place);
    if (change.delta < 0 && rounded == size)
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

/// The storages that the first step makes and later steps find (FirstStep::made), in the order of the first step.
class ToMake
{
public:
    ToMake(const StepTrace& trace, std::span<const FirstStep::Made> made)
        : trace_(trace)
        , left_(made)
    {
    }

    /// Allocates the storages that are made up to a change; returns false if the device is full. Between ops the time
    /// counts: the ops of an optimizer that works in place change no memory.
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

/// Plays the changes of a step until a request fails or `stop` asks for an end.
void run(Replayer& replayer, const StepTrace& trace, const Timeline& timeline, ToMake toMake, const StepSize& sizes,
         AllocatorRun& result, const std::stop_token& stop)
{
    constexpr std::size_t changesAtOnce = 1024;
    result.samples.reserve(timeline.changes.size());
    result.start = result.atPeak = replayer.sample();
    result.mostHeld = replayer.held();
    auto delayed = timeline.delayed.begin();
    for (std::size_t row = 0; row < timeline.changes.size(); ++row) {
        if (row % changesAtOnce == 0 && stop.stop_requested())
            return;
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
        const bool isLastResult = change.delta > 0
            && (row + 1 == timeline.changes.size() || timeline.changes[row + 1].delta <= 0
                || timeline.changes[row + 1].op != change.op);
        if ((change.op && !replayer.keepWorkspacesUpTo(change.op)) || !toMake.upTo(replayer, change)
            || !play(replayer, trace, change, sizes, until)
            || (isLastResult && !replayer.useScratch(change.op, change.storage))) {
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

/// Blocks of storages that may serve each other, oldest first.
using StoragesByKey = std::map<Replayer::Key, std::deque<StorageId>>;

/// Removes and returns the oldest storage of a key; invalid: there is none.
StorageId takeOldest(StoragesByKey& storages, const Replayer::Key& key)
{
    const auto found = storages.find(key);
    if (found == storages.end() || found->second.empty())
        return {};
    const StorageId oldest = found->second.front();
    found->second.pop_front();
    return oldest;
}

/// Plays what a program does outside of steps; `freeOlder` frees a block that is older. Returns the blocks that stay,
/// oldest first; nullopt: the device is full.
template <class FreeOlder>
std::optional<std::vector<Replayer::Held>> playOutside(Replayer& replayer, const StepTrace::Outside& changes,
                                                       FreeOlder freeOlder)
{
    std::vector<Replayer::Held> blocks(changes.size()); // by row
    for (std::uint32_t row = 0; row < changes.size(); ++row) {
        const Bytes bytes = changes.bytes[row];
        switch (changes.kind[row]) {
        case OutsideKind::alloc:
            if (bytes <= 0)
                break;
            if (const auto held = replayer.take(bytes, roundedToBlock(bytes), changes.stream[row]))
                blocks[row] = *held;
            else
                return std::nullopt;
            break;
        case OutsideKind::free:
            if (const auto block = std::exchange(blocks[changes.block[row]], {}); block.block != Replayer::Held::none)
                replayer.free(block);
            break;
        case OutsideKind::freeOlder:
            freeOlder(Replayer::Key(roundedToBlock(bytes), changes.stream[row]));
            break;
        case OutsideKind::emptyCache:
            replayer.emptyCache();
            break;
        }
    }
    std::erase_if(blocks, [](const Replayer::Held& held) { return held.block == Replayer::Held::none; });
    return blocks;
}

/// The times between steps: before the first step, and from each step to the next.
class BetweenSteps
{
public:
    /// `start`: the storages at the beginning of the recorded step.
    BetweenSteps(Replayer& replayer, const StepTrace& trace, const std::set<StorageId>& start)
        : replayer_(replayer)
        , trace_(trace)
        , start_(start)
    {
        for (std::uint32_t row = 0; row < trace.betweenSteps.size(); ++row) {
            const OutsideKind kind = trace.betweenSteps.kind[row];
            if (kind == OutsideKind::alloc)
                ++made_[keyOfRow(row)];
            else if (kind == OutsideKind::free)
                --made_[keyOfRow(trace.betweenSteps.block[row])];
        }
    }

    /// Prepares the first step. The step finds the storages in `present`. Returns false if the device is full.
    bool beginTraining(const std::set<StorageId>& present)
    {
        const auto blocks = playOutside(replayer_, trace_.beforeTraining, [](const Replayer::Key&) {});
        return blocks && assign(*blocks, present);
    }

    /// Prepares the next step: storages that live at the end of a step become the storages at the start of the next
    /// step. Returns false if the device is full. A missing storage of the start gets a block in the first way that
    /// applies:
    /// - The time between the steps makes the block, as for a batch.
    /// - The storage takes over a left block of the same size and place, as the gradient of a step is the old gradient
    ///   of the next step.
    /// - The storage gets a new block.
    bool next()
    {
        replayer_.completeUntil(Timeline::npos); // the streams are idle when the next step begins
        for (const Replayer::Held& block : unknown_)
            replayer_.free(block);
        unknown_.clear();
        StoragesByKey left, batch;
        for (const auto& [storage, held] : replayer_.live()) {
            if (!start_.contains(storage))
                left[Replayer::keyOf(held)].push_back(storage);
            else if (trace_.storages.category[storage] == Category::input)
                batch[Replayer::keyOf(held)].push_back(storage);
        }
        auto made = made_;
        for (const StorageId storage : start_) {
            if (replayer_.size(storage) > 0 || made[keyOfStart(storage)]-- > 0)
                continue;
            if (const StorageId same = takeOldest(left, keyOfStart(storage)); same.valid())
                replayer_.rename(same, storage);
        }
        const auto blocks = playOutside(replayer_, trace_.betweenSteps, [&](const Replayer::Key& key) {
            StorageId freed = takeOldest(left, key);
            if (!freed.valid())
                freed = takeOldest(batch, key);
            if (freed.valid())
                replayer_.giveBack(freed);
        });
        for (const auto& [key, storages] : left)
            for (const StorageId storage : storages)
                replayer_.giveBack(storage);
        return blocks && assign(*blocks, start_);
    }

private:
    Replayer::Key keyOfRow(std::uint32_t row) const
    {
        return {roundedToBlock(trace_.betweenSteps.bytes[row]), trace_.betweenSteps.stream[row]};
    }
    Replayer::Key keyOfStart(StorageId storage) const
    {
        return {trace_.storages.bytes[storage], replayer_.placeOf(storage)};
    }

    /// Gives the storages of `storages` without a block the blocks in `blocks`, or new blocks. Returns false if the
    /// device is full.
    bool assign(const std::vector<Replayer::Held>& blocks, const std::set<StorageId>& storages)
    {
        StoragesByKey missing;
        for (const StorageId storage : storages)
            if (replayer_.size(storage) == 0)
                missing[keyOfStart(storage)].push_back(storage);
        for (const Replayer::Held& block : blocks) {
            if (const StorageId storage = takeOldest(missing, Replayer::keyOf(block)); storage.valid())
                replayer_.adopt(storage, block);
            else
                unknown_.push_back(block);
        }
        return std::ranges::all_of(storages, [&](StorageId storage) {
            return replayer_.size(storage) > 0 || takeOfStart(replayer_, trace_, storage);
        });
    }

    Replayer& replayer_;
    const StepTrace& trace_;
    const std::set<StorageId>& start_;
    std::map<Replayer::Key, int> made_; ///< number of blocks that the time between two steps makes and keeps
    std::vector<Replayer::Held> unknown_; ///< blocks that are no storage's: freed after the step
};

} // namespace

AllocatorRun simulateAllocator(const StepTrace& trace, const Timeline& timeline, const AllocatorRules& rules,
                               const Workspaces& workspaces, const std::stop_token& stop,
                               const std::vector<double>& sizes)
{
    Replayer replayer(trace, rules, workspaces);
    const std::set<StorageId> start = aliveAtStart(trace, timeline);
    const bool isRepeated = trace.info.source != "snapshot";
    const FirstStep first = isRepeated ? firstStep(trace, timeline, start) : FirstStep{start, {}};
    AllocatorRun result;
    Bytes reservedPeak = 0; // of all steps
    bool wasFull = false; // in any step
    const auto note = [&] {
        const CachingAllocator::Stats stats = replayer.stats();
        reservedPeak = std::max(reservedPeak, stats.reservedPeak);
        wasFull = wasFull || stats.retries > 0;
    };
    const std::vector<bool> byData = sizes.empty() ? std::vector<bool>() : sizedByData(trace, timeline);
    const int count = std::max(1, static_cast<int>(sizes.size()));
    std::set<std::pair<int, std::vector<std::uint64_t>>> layouts; // at the beginning of steps, by size
    BetweenSteps between(replayer, trace, start);
    bool fits = between.beginTraining(first.present);
    note();
    for (int step = 1;; ++step) {
        std::vector<AllocatorSample> samples = std::move(result.samples);
        samples.clear();
        result = {};
        result.samples = std::move(samples); // reuses the memory
        result.step = step;
        const int size = (step - 1) % count; // of this step
        if (step > 1)
            layouts.emplace(size, replayer.layout());
        replayer.resetStats();
        if (fits)
            run(replayer, trace, timeline,
                ToMake(trace, step == 1 ? std::span(first.made) : std::span<const FirstStep::Made>()),
                StepSize{byData, sizes.empty() ? 1 : sizes[static_cast<std::size_t>(size)]}, result, stop);
        else
            result.failure
                = AllocatorRun::Failure{AllocatorRun::Failure::npos, {}, {}, 0, replayer.allocator().outOfMemory()};
        result.stats = replayer.stats();
        result.mostHeld = std::max(result.mostHeld, result.stats.activePeak);
        note();
        if (result.failure || !isRepeated || step == (sizes.empty() ? mostSteps : mostOfEachSize * count)
            || stop.stop_requested())
            break;
        fits = between.next();
        note();
        if (fits && layouts.contains({step % count, replayer.layout()})) { // from here on the run repeats
            result.repeats = true;
            break;
        }
    }
    result.stats.reservedPeak = reservedPeak;
    result.wasFull = wasFull;
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
                                    : "estimated: a freed block that other streams use (record_stream) stays active "
                                      "until the work of these streams ends, by the time model";
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
    std::string text = "the allocator needs " + formatBytes(memory.wanted) + " from the device, "
        + formatBytes(memory.deviceFree) + " are left";
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
        return "out of memory outside of forward, backward and optimizer: " + block + " finds no room; "
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
