// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/snapshot/import.h"

#include "core/base/try.h"
#include "core/snapshot/block_lives.h"
#include "core/trace/out_of_memory.h"
#include "core/trace/step_file.h"
#include "core/trace/step_trace_builder.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace headroom {

namespace {

using Action = Snapshot::Action;
constexpr std::size_t stretch = 65'536; ///< number of events between two checks of the SnapshotWatch

/// The allocator's segments and blocks through a history, for the free pieces at a failed allocation.
class MemoryLayout
{
public:
    MemoryLayout(const Snapshot& snapshot, const DeviceHistory& history, std::size_t device)
        : rules_(history.rules)
        , segments_(history.segments)
    {
        const auto isFailure = [](const Snapshot::Event& event) { return event.action == Action::outOfMemory; };
        isNeeded_ = std::ranges::any_of(history.events, isFailure);
        for (const Snapshot::Segment& segment : snapshot.segments)
            if (segment.device == static_cast<std::int64_t>(device) && segment.pool != defaultPool)
                pools_[segment.address] = segment.pool;
    }

    void apply(const Snapshot::Event& event)
    {
        if (!isNeeded_)
            return;
        changeSegments(segments_, event, rules_, false);
        if (event.action != Action::segmentAlloc && event.action != Action::segmentMap)
            return;
        const auto pool = pools_.find(event.address);
        const auto segment = segments_.find(event.address);
        if (pool != pools_.end() && segment != segments_.end())
            segment->second.pool = pool->second;
    }

    /// `size` 0: the size follows from the request and the room behind.
    void hold(std::uint64_t address, Bytes size, Bytes requested, StorageId storage)
    {
        if (isNeeded_)
            blocks_[address] = {size > 0 ? size : sizeAt(address, requested), storage};
    }
    void drop(std::uint64_t address) { blocks_.erase(address); }

    /// Returns the free pieces of a request's stream and pool. None if a piece is large enough: the request was then of
    /// a private pool, or the piece became free after the search, by the wait for other streams.
    FreePieces freePieces(Bytes requested, Snapshot::Index stream) const
    {
        FreePieces pieces;
        const Bytes size = rules_.roundSize(requested);
        const bool isSmall = size <= rules_.smallSize;
        for (const auto& [begin, segment] : segments_) {
            if (segment.stream != stream || segment.pool != defaultPool || segment.small != isSmall)
                continue;
            const std::uint64_t end = begin + static_cast<std::uint64_t>(segment.size);
            std::uint64_t from = begin;
            const Held* before = nullptr;
            for (auto block = blocks_.lower_bound(begin); block != blocks_.end() && block->first < end; ++block) {
                add(pieces, from, block->first, before, &block->second);
                from = std::max(from, block->first + static_cast<std::uint64_t>(block->second.size));
                before = &block->second;
            }
            add(pieces, from, end, before, nullptr);
        }
        std::ranges::stable_sort(pieces.largest, std::greater(), &FreePieces::Piece::bytes);
        if (!pieces.largest.empty() && pieces.largest.front().bytes >= size)
            return {};
        return pieces;
    }

private:
    static constexpr std::pair<std::int64_t, std::int64_t> defaultPool{};
    struct Held
    {
        Bytes size = 0;
        StorageId storage;
    };

    static void add(FreePieces& pieces, std::uint64_t from, std::uint64_t to, const Held* before, const Held* after)
    {
        if (from >= to)
            return;
        const Held* smaller = !before || (after && after->size < before->size) ? after : before;
        pieces.largest.push_back({static_cast<Bytes>(to - from), smaller ? smaller->storage : StorageId()});
        ++pieces.count;
    }

    /// Returns the size of a new block: the rest behind the request belongs to the block if too small to be split off.
    Bytes sizeAt(std::uint64_t address, Bytes requested) const
    {
        const Bytes size = rules_.roundSize(requested);
        const auto above = segments_.upper_bound(address);
        if (above == segments_.begin())
            return size;
        const auto& [begin, segment] = *std::prev(above);
        std::uint64_t end = begin + static_cast<std::uint64_t>(segment.size);
        if (const auto next = blocks_.upper_bound(address); next != blocks_.end())
            end = std::min(end, next->first);
        const std::uint64_t own = address + static_cast<std::uint64_t>(size);
        if (end <= own)
            return size;
        const auto rest = static_cast<Bytes>(end - own);
        return rules_.splits(size, rest, segment.small) ? size : size + rest;
    }

    const AllocatorRules& rules_;
    DeviceHistory::Segments segments_;
    std::map<std::uint64_t, Held> blocks_; ///< blocks in use, by address
    std::map<std::uint64_t, std::pair<std::int64_t, std::int64_t>> pools_; ///< private pools at the end, by segment
    bool isNeeded_ = false;
};

/// Converts a history in two passes (SnapshotLives is the first): a step has the category of a block at the allocation,
/// and the category depends on the free.
class StepMaker
{
public:
    StepMaker(const Snapshot& snapshot, const DeviceHistory& history, std::size_t device)
        : snapshot_(snapshot)
        , history_(history)
        , lives_(snapshot, history, device)
        , layout_(snapshot, history, device)
    {
    }

    Result<StepTracePtr> make(const std::string& name, std::size_t device, const SnapshotWatch& watch)
    {
        if (watch.stop.stop_requested())
            return stoppedReading();
        builder_.info.source = "snapshot";
        builder_.info.model = name;
        builder_.info.device = "cuda:" + std::to_string(device);
        builder_.info.simulated = false;
        builder_.info.steps = 0;
        builder_.info.settings = settings();
        lives_.regions().addTo(builder_);
        start();
        for (std::size_t i = 0; i < history_.events.size(); ++i) {
            if (i % stretch == 0 && watch.progressed)
                watch.progressed(0.3 + 0.7 * static_cast<double>(i) / static_cast<double>(history_.events.size()));
            if (i % stretch == 0 && watch.stop.stop_requested())
                return stoppedReading();
            play(i);
        }
        return builder_.finish();
    }

private:
    std::vector<std::pair<std::string, std::string>> settings() const
    {
        if (snapshot_.settings.empty())
            return {};
        return {{"PYTORCH_CUDA_ALLOC_CONF", snapshot_.settings}};
    }

    void start()
    {
        builder_.setReserved(history_.reserved);
        for (const auto& [address, block] : history_.blocks)
            allocate(address, block.requested, block.stream, {}, block.size);
        builder_.mark(Mark::stepBegin);
    }

    void allocate(std::uint64_t address, Bytes requested, std::uint32_t stream, OpId op, Bytes size)
    {
        const StorageId storage = builder_.alloc(requested, lives_.category(lives_.lives()[storages_++]), op);
        builder_.setStream(storage, stream);
        if (!op.valid())
            builder_.setFrame(storage, frames_.of(lives_.lives()[storages_ - 1].stack));
        held_[address] = storage;
        layout_.hold(address, size, requested, storage);
    }

    void release(std::uint64_t address)
    {
        if (const auto found = held_.find(address); found != held_.end()) {
            builder_.free(found->second);
            held_.erase(found);
            layout_.drop(address);
        }
    }

    void play(std::size_t i)
    {
        const Snapshot::Event& event = history_.events[i];
        markPhases(i);
        if (event.action == Action::freeCompleted || event.action == Action::alloc)
            release(event.address);
        layout_.apply(event);
        if (reserved_.apply(event))
            builder_.setReserved(reserved_.bytes());
        const bool allocates = event.action == Action::alloc && event.size > 0;
        const bool failed = event.action == Action::outOfMemory;
        const double ms = untilNext(i);
        if (!allocates && !failed && ms <= 0)
            return;
        const OpId op = failed ? beginFailure(event, i) : begin(event, i, allocates);
        if (allocates)
            allocate(event.address, event.size, event.stream, op, 0);
        StepTraceBuilder::OpResult result;
        result.ms = ms;
        builder_.endOp(op, result);
    }

    /// Begins the op that runs after an event. After a free the last op continues.
    OpId begin(const Snapshot::Event& event, std::size_t i, bool allocates)
    {
        if (allocates || !last_.name.valid()) {
            const StackMeaning& stack = lives_.stack(event.stack);
            last_ = {};
            const bool named = event.action == Action::alloc || !stack.op.empty();
            last_.name = builder_.string(named ? allocatingOp(stack) : "between allocations");
            if (!stack.node.empty())
                last_.node = builder_.string(stack.node);
            last_.module = lives_.regions().module(lives_.region(i));
            last_.frame = frames_.of(event.stack);
        }
        last_.phase = lives_.phase(i);
        return builder_.beginOp(last_);
    }

    /// Begins the op of a failed allocation. Later frees continue the op before it.
    OpId beginFailure(const Snapshot::Event& event, std::size_t i)
    {
        StepTraceBuilder::Op op;
        op.module = lives_.regions().module(lives_.region(i));
        op.phase = lives_.phase(i);
        op.frame = frames_.of(event.stack);
        return builder_.outOfMemory(op, event.size, static_cast<Bytes>(event.address),
                                    layout_.freePieces(event.size, event.stream));
    }

    double untilNext(std::size_t i) const
    {
        if (i + 1 >= history_.events.size())
            return 0;
        const std::int64_t now = history_.events[i].microseconds;
        const std::int64_t next = history_.events[i + 1].microseconds;
        return next > now ? static_cast<double>(next - now) / 1000 : 0; // events of threads may be out of order
    }

    /// Marks the first end of each phase.
    void markPhases(std::size_t i)
    {
        if (i == 0 || lives_.phase(i) == lives_.phase(i - 1))
            return;
        constexpr std::array ends{Mark::forwardEnd, Mark::backwardEnd, Mark::stepEnd, Mark::zeroGradEnd};
        const auto phase = static_cast<std::size_t>(lives_.phase(i - 1));
        if (!std::exchange(marked_[phase], true))
            builder_.mark(ends[phase]);
    }

    const Snapshot& snapshot_;
    const DeviceHistory& history_;
    SnapshotLives lives_;
    StepTraceBuilder builder_;
    ReservedBytes reserved_{history_.reserved};
    MemoryLayout layout_;
    std::unordered_map<std::uint64_t, StorageId> held_;
    SnapshotFrames frames_{snapshot_, builder_};
    std::size_t storages_ = 0;
    StepTraceBuilder::Op last_;
    std::array<bool, phaseCount> marked_{};
};

} // namespace

Result<StepTracePtr> stepOf(const Snapshot& snapshot, const DeviceHistory& history, std::size_t device,
                            const std::string& name, const SnapshotWatch& watch)
{
    Result<StepTracePtr> step = StepMaker(snapshot, history, device).make(name, device, watch);
    if (!step && watch.stop.stop_requested())
        return step;
    if (!step)
        return badInput(name + " contradicts itself: " + step.error().message);
    return step;
}

Result<SnapshotPart> partOf(SnapshotPtr snapshot, const std::filesystem::path& path, const ImportRequest& request)
{
    SnapshotPart part;
    part.snapshot = std::move(snapshot);
    part.device = request.device.value_or(busiestDevice(*part.snapshot));
    Result<DeviceHistory> history = deviceHistory(*part.snapshot, part.device, request.range);
    if (!history)
        return badInput(path.string() + ": " + history.error().message);
    part.history = *std::move(history);
    if (part.history.events.empty())
        return badInput(path.string() + " holds no events of device " + std::to_string(part.device)
                        + (part.snapshot->eventCount > 0
                               ? " in this range of time"
                               : ": expected torch.cuda.memory._record_memory_history() to have been on before"));
    return part;
}

Result<ImportedSnapshot> importSnapshot(const std::filesystem::path& path, const ImportRequest& request,
                                        const SnapshotWatch& watch)
{
    // Reading takes about half of the time.
    const auto half = [&](double begin) {
        SnapshotWatch part = watch;
        if (watch.progressed)
            part.progressed = [&watch, begin](double share) { watch.progressed(begin + share / 2); };
        return part;
    };
    ASSIGN_OR_RETURN(SnapshotPtr snapshot, readSnapshot(path, request.range, half(0)));
    return importSnapshot(std::move(snapshot), path, request, half(0.5));
}

Result<ImportedSnapshot> importSnapshot(SnapshotPtr snapshot, const std::filesystem::path& path,
                                        const ImportRequest& request, const SnapshotWatch& watch)
{
    ImportedSnapshot imported;
    ASSIGN_OR_RETURN(static_cast<SnapshotPart&>(imported), partOf(std::move(snapshot), path, request));
    ASSIGN_OR_RETURN(imported.step,
                     stepOf(*imported.snapshot, imported.history, imported.device, path.filename().string(), watch));
    if (imported.snapshot->file)
        RETURN_IF_ERROR(imported.snapshot->file->unchanged());
    return imported;
}

bool isSnapshotFile(const std::filesystem::path& path)
{
    const auto file = MappedFile::open(path);
    return file.ok() && looksLikePickle((*file)->bytes());
}

Result<StepTracePtr> readStepOrSnapshot(const std::filesystem::path& path, const std::string& kinds)
{
    if (isSnapshotFile(path)) {
        ASSIGN_OR_RETURN(ImportedSnapshot imported, importSnapshot(path));
        return std::move(imported.step);
    }
    Result<StepTracePtr> step = readStepTrace(path);
    const auto file = MappedFile::open(path);
    if (!step && file.ok() && !isStepFile(path))
        return badInput(path.string() + " is " + ((*file)->bytes().empty() ? "empty, and " : "") + "neither " + kinds
                        + ": open another file, or record the step again");
    return step;
}

} // namespace headroom
