// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/snapshot/import.h"

#include "core/base/try.h"
#include "core/snapshot/regions.h"
#include "core/trace/life_category.h"
#include "core/trace/out_of_memory.h"
#include "core/trace/step_file.h"
#include "core/trace/step_trace_builder.h"

#include <algorithm>
#include <array>
#include <ranges>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace headroom {

namespace {

using Action = Snapshot::Action;
constexpr std::uint32_t neverFreed = UINT32_MAX;
constexpr std::size_t stretch = 65'536; ///< number of events between two checks of the SnapshotWatch

/// A block from allocation to free.
struct Life
{
    Snapshot::Index stack = Snapshot::none;
    Phase made = Phase::forward;
    std::uint32_t madeIn = 0; ///< number of changes of the phase before the allocation
    std::uint32_t freedIn = neverFreed; ///< number of changes of the phase before the free
    bool before = false; ///< the block was allocated before the range
};

/// Converts a history in two passes: a step has the category of a block at the allocation, and the category depends on
/// the free.
class StepMaker
{
public:
    StepMaker(const Snapshot& snapshot, const DeviceHistory& history, std::size_t device)
        : snapshot_(snapshot)
        , history_(history)
        , meanings_(snapshot, device, std::ranges::any_of(history.events, [](const Snapshot::Event& event) {
                        return event.stack != Snapshot::none;
                    }))
    {
    }

    Result<StepTracePtr> make(const std::string& name, std::size_t device, const SnapshotWatch& watch)
    {
        findLives();
        if (watch.stop.stop_requested())
            return stoppedReading();
        builder_.info.source = "snapshot";
        builder_.info.model = name;
        builder_.info.device = "cuda:" + std::to_string(device);
        builder_.info.simulated = false;
        builder_.info.steps = 0;
        builder_.info.settings = settings();
        meanings_.regions().addTo(builder_);
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

    /// Finds the lives of blocks, and the phases and regions of events.
    void findLives()
    {
        std::unordered_map<std::uint64_t, std::uint32_t> live;
        for (const auto& [address, block] : history_.blocks) {
            live[address] = static_cast<std::uint32_t>(lives_.size());
            lives_.push_back({.stack = block.stack, .before = true});
        }
        phases_.reserve(history_.events.size());
        regions_.reserve(history_.events.size());
        std::uint32_t changes = 0;
        Phase last = Phase::forward;
        for (const Snapshot::Event& event : history_.events) {
            const EventMeanings::Meaning meaning = meanings_.of(event);
            phases_.push_back(meaning.phase);
            regions_.push_back(meaning.region);
            changes += meaning.phase != last ? 1 : 0;
            last = meaning.phase;
            if (event.action == Action::freeCompleted || event.action == Action::alloc) {
                if (const auto found = live.find(event.address); found != live.end()) {
                    lives_[found->second].freedIn = changes;
                    live.erase(found);
                }
            }
            if (event.action == Action::alloc && event.size > 0) {
                live[event.address] = static_cast<std::uint32_t>(lives_.size());
                lives_.push_back({.stack = event.stack, .made = meaning.phase, .madeIn = changes});
            }
        }
    }

    Category category(const Life& life)
    {
        const StackMeaning& stack = meanings_.stack(life.stack);
        if (stack.makesParameters)
            return Category::parameter;
        if (life.before) {
            if (stack.empty || !stack.phase)
                return Category::other;
            switch (*stack.phase) {
            case Phase::optimizer:
                return Category::optimizer;
            case Phase::backward:
                return Category::gradient;
            default:
                return Category::activation;
            }
        }
        return lifeCategory(life.made, life.freedIn == life.madeIn, life.freedIn != neverFreed);
    }

    void start()
    {
        builder_.setReserved(history_.reserved);
        for (const auto& [address, block] : history_.blocks)
            allocate(address, block.requested, block.stream, {});
        builder_.mark(Mark::stepBegin);
    }

    void allocate(std::uint64_t address, Bytes requested, std::uint32_t stream, OpId op)
    {
        const StorageId storage = builder_.alloc(requested, category(lives_[storages_++]), op);
        builder_.setStream(storage, stream);
        if (!op.valid())
            builder_.setFrame(storage, frame(lives_[storages_ - 1].stack));
        held_[address] = storage;
    }

    /// Returns the innermost frame of a stack of the snapshot; invalid: there is no stack.
    FrameId frame(Snapshot::Index stack)
    {
        if (stack == Snapshot::none)
            return {};
        const auto [entry, isNew] = frames_.try_emplace(stack);
        if (isNew)
            for (const Snapshot::Index row : snapshot_.stack(stack) | std::views::reverse) {
                const Snapshot::Frame& source = snapshot_.frames[row];
                entry->second
                    = builder_.frame(entry->second, snapshot_.text(source.file), snapshot_.text(source.function),
                                     static_cast<std::uint32_t>(std::max(source.line, 0)));
            }
        return entry->second;
    }

    void release(std::uint64_t address)
    {
        if (const auto found = held_.find(address); found != held_.end()) {
            builder_.free(found->second);
            held_.erase(found);
        }
    }

    void play(std::size_t i)
    {
        const Snapshot::Event& event = history_.events[i];
        markPhases(i);
        if (event.action == Action::freeCompleted || event.action == Action::alloc)
            release(event.address);
        if (reserved_.apply(event))
            builder_.setReserved(reserved_.bytes());
        const bool allocates = event.action == Action::alloc && event.size > 0;
        const bool failed = event.action == Action::outOfMemory;
        const double ms = untilNext(i);
        if (!allocates && !failed && ms <= 0)
            return;
        const OpId op = failed ? beginFailure(event, i) : begin(event, i, allocates);
        if (allocates)
            allocate(event.address, event.size, event.stream, op);
        StepTraceBuilder::OpResult result;
        result.ms = ms;
        builder_.endOp(op, result);
    }

    /// Begins the op that runs after an event. After a free the last op continues.
    OpId begin(const Snapshot::Event& event, std::size_t i, bool allocates)
    {
        if (allocates || !last_.name.valid()) {
            const StackMeaning& stack = meanings_.stack(event.stack);
            last_ = {};
            last_.name = builder_.string(stack.op.empty() ? unnamed(event) : stack.op);
            if (!stack.node.empty())
                last_.node = builder_.string(stack.node);
            last_.module = meanings_.regions().module(regions_[i]);
            last_.frame = frame(event.stack);
        }
        last_.phase = phases_[i];
        return builder_.beginOp(last_);
    }

    /// Begins the op of a failed allocation. Later frees continue the op before it.
    OpId beginFailure(const Snapshot::Event& event, std::size_t i)
    {
        StepTraceBuilder::Op op;
        op.module = meanings_.regions().module(regions_[i]);
        op.phase = phases_[i];
        op.frame = frame(event.stack);
        return builder_.outOfMemory(op, event.size, static_cast<Bytes>(event.address));
    }

    static std::string_view unnamed(const Snapshot::Event& event)
    {
        return event.action == Action::alloc ? "allocation" : "between allocations";
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
        if (i == 0 || phases_[i] == phases_[i - 1])
            return;
        constexpr std::array ends{Mark::forwardEnd, Mark::backwardEnd, Mark::stepEnd, Mark::zeroGradEnd};
        const auto phase = static_cast<std::size_t>(phases_[i - 1]);
        if (!std::exchange(marked_[phase], true))
            builder_.mark(ends[phase]);
    }

    const Snapshot& snapshot_;
    const DeviceHistory& history_;
    EventMeanings meanings_;
    std::vector<Life> lives_; ///< in the order of allocation
    std::vector<Phase> phases_; ///< by event
    std::vector<RegionTree::Node> regions_; ///< by event
    StepTraceBuilder builder_;
    ReservedBytes reserved_{history_.reserved};
    std::unordered_map<std::uint64_t, StorageId> held_;
    std::unordered_map<Snapshot::Index, FrameId> frames_; ///< by stack
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
    imported.snapshot = std::move(snapshot);
    imported.device = request.device.value_or(busiestDevice(*imported.snapshot));
    Result<DeviceHistory> history = deviceHistory(*imported.snapshot, imported.device, request.range);
    if (!history)
        return badInput(path.string() + ": " + history.error().message);
    imported.history = *std::move(history);
    if (imported.history.events.empty())
        return badInput(path.string() + " holds no events of device " + std::to_string(imported.device)
                        + (imported.snapshot->eventCount > 0
                               ? " in this range of time"
                               : ": expected torch.cuda.memory._record_memory_history() to have been on before"));
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

Result<StepTracePtr> readStepOrSnapshot(const std::filesystem::path& path)
{
    if (!isSnapshotFile(path))
        return readStepTrace(path);
    ASSIGN_OR_RETURN(ImportedSnapshot imported, importSnapshot(path));
    return std::move(imported.step);
}

} // namespace headroom
