// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/memory_event.h"
#include "core/predict/regions.h"
#include "core/predict/step_index.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace headroom {

/// What replays note by pack, storage and op of the step. Each replay leaves it as it was, so that who replays many
/// small plans of a long step gives all of them the same one, and a replay costs what it replays. For one replay at a
/// time.
struct ReplayNotes
{
    static constexpr std::uint32_t none = static_cast<std::uint32_t>(-1);

    /// A pack whose tensor was recomputed.
    struct Recomputed
    {
        std::uint32_t block = none; ///< none: nothing is held for it
        bool unpacked = false; ///< a node has it: it lives until the node's end, not until the release
    };

    /// What a storage of the trace is in the recomputation that runs now.
    struct Now
    {
        std::uint32_t block = none; ///< none: itself
        bool byProgram = false;
    };

    std::vector<std::uint32_t> regionOf; ///< by pack
    std::vector<Recomputed> recomputed; ///< by pack
    std::vector<Now> recomputation; ///< by storage
    std::vector<bool> cached; ///< by op: its region's cache holds its outputs
};

/// Replays a step's events under a plan, by the rules of torch/utils/checkpoint.py, non-reentrant and selective:
///
/// - What a region packs in forward holds nothing. The region holds its arguments, and the outputs of its saved ops,
///   until autograd has released the last of its packs.
/// - The first unpack of any of its packs runs it again, up to its last pack: every op that was not saved. A saved op's
///   outputs come from the cache, which gives up its hold to the program; entries past the end stay cached.
/// - While it runs again, the new graph holds everything that is packed, and the program what it has not freed. Both
///   end with it. Then a recomputed tensor is held for each pack that autograd has not released yet: until the end of
///   the node that unpacks it, or its release when no node does.
///
/// `Memory` counts what is alive: LiveMemory all of it, LocalMemory what belongs to one part of the step.
template <class Memory>
class Replay
{
public:
    using Block = std::uint32_t;

    /// `notes` are of this step, and must outlive the replay.
    Replay(const StepTrace& trace, const StepIndex& index, const Regions& plan, Memory memory, ReplayNotes& notes)
        : trace_(trace)
        , index_(index)
        , plan_(plan)
        , memory_(std::move(memory))
        , regionOf_(notes.regionOf)
        , recomputed_(notes.recomputed)
        , recomputation_(notes.recomputation)
        , cached_(notes.cached)
    {
        if (plan.regions.empty())
            return;
        regionOf_.resize(trace.packs.size(), none);
        recomputed_.resize(trace.packs.size());
        recomputation_.resize(trace.storages.size());
        cached_.resize(trace.ops.size(), false);
        for (std::uint32_t i = 0; i < plan.regions.size(); ++i) {
            const Region& region = plan.regions[i];
            std::fill(regionOf_.begin() + region.firstPack, regionOf_.begin() + region.endPack, i);
            ends_.emplace_back(region.end, i);
        }
        std::ranges::sort(ends_);
        nextEnd_ = ends_.front().first;
        ran_.assign(plan.regions.size(), false);
    }

    ~Replay()
    {
        for (const Region& region : plan_.regions) {
            std::fill(regionOf_.begin() + region.firstPack, regionOf_.begin() + region.endPack, none);
            std::fill(recomputed_.begin() + region.firstPack, recomputed_.begin() + region.endPack, Recomputed{});
            if (!plan_.saved.empty())
                std::fill(cached_.begin() + region.firstOp, cached_.begin() + region.endOp, false);
        }
    }

    Replay(const Replay&) = delete;
    Replay& operator=(const Replay&) = delete;

    /// Events in their order; those that concern nothing that the memory counts may be left out.
    void step(std::uint32_t at)
    {
        if (at > nextEnd_)
            endRegionsBefore(at); // an event that was left out may be the end of a region
        event_ = at;
        applyEvent(memory_, *this, trace_, at);
        if (at == nextEnd_)
            endRegionsBefore(at + 1);
    }

    /// What ends after the last event that was stepped over.
    void finish() { endRegionsBefore(static_cast<std::uint32_t>(trace_.events.size())); }

    Memory& memory() { return memory_; }

    // What the plan makes of an event: for applyEvent().

    void autograd(EventKind kind, PackId pack)
    {
        if (const std::uint32_t region = plan_.regions.empty() ? none : regionOf_[pack.value]; region != none)
            autogradOf(region, kind, pack);
        else
            holdForAutograd(memory_, trace_, kind, pack);
    }

    void enter(CallId call)
    {
        if (const Region* region = regionAt(call))
            for (const StorageId argument : trace_.calls.arguments[region->call])
                memory_.hold(argument.value);
    }

    void opEnd(OpId op)
    {
        if (isSaved(op))
            fillCache(op);
    }

private:
    using Recomputed = ReplayNotes::Recomputed;
    using Now = ReplayNotes::Now;
    static constexpr std::uint32_t none = ReplayNotes::none;

    const Region* regionAt(CallId call)
    {
        // Regions begin in the order of the plan's list.
        if (nextRegion_ == plan_.regions.size() || plan_.regions[nextRegion_].call != call)
            return nullptr;
        return &plan_.regions[nextRegion_++];
    }

    bool isSaved(OpId op) const { return !plan_.saved.empty() && plan_.saved[op.value]; }

    void autogradOf(std::uint32_t region, EventKind kind, PackId pack)
    {
        if (kind == EventKind::pack)
            return;
        if (kind == EventKind::unpack && !ran_[region]) {
            ran_[region] = true;
            recompute(plan_.regions[region]);
        }
        Recomputed& tensor = recomputed_[pack.value];
        if (kind == EventKind::unpack)
            tensor.unpacked = true;
        const bool over = kind == EventKind::unpackEnd || (kind == EventKind::release && !tensor.unpacked);
        if (over && tensor.block != none)
            memory_.drop(std::exchange(tensor.block, none));
    }

    /// A saved op has run in forward.
    void fillCache(OpId op)
    {
        cached_[op.value] = true;
        forEachOutput(op, [this](StorageId storage) { memory_.hold(storage.value); });
    }

    template <class Visit>
    void forEachOutput(OpId op, Visit visit) const
    {
        const auto outputs = trace_.ops.outputs[op];
        for (std::size_t i = 0; i < outputs.size(); ++i)
            if (std::find(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(i), outputs[i])
                == outputs.begin() + static_cast<std::ptrdiff_t>(i))
                visit(outputs[i]);
    }

    void endRegionsBefore(std::uint32_t event)
    {
        for (; endsDone_ < ends_.size() && ends_[endsDone_].first < event; ++endsDone_)
            endRegion(plan_.regions[ends_[endsDone_].second]);
        nextEnd_ = endsDone_ < ends_.size() ? ends_[endsDone_].first : none;
    }

    void endRegion(const Region& region)
    {
        for (const StorageId argument : trace_.calls.arguments[region.call])
            memory_.drop(argument.value);
        if (plan_.saved.empty())
            return;
        for (std::uint32_t op = region.firstOp; op < region.endOp; ++op) {
            if (!cached_[op])
                continue;
            cached_[op] = false;
            forEachOutput(OpId(op), [this](StorageId storage) { memory_.drop(storage.value); });
        }
    }

    void recompute(const Region& region)
    {
        const auto kind = [this](std::uint32_t event) { return trace_.events.kind[EventIndex(event)]; };
        const auto& events = index_.memoryEvents;
        const std::uint32_t end = std::min(region.stop + 1, event_);
        for (auto next = std::ranges::lower_bound(events, region.enter); next != events.end() && *next < end; ++next) {
            const std::uint32_t a = trace_.events.a[EventIndex(*next)];
            if (kind(*next) != EventKind::opBegin || !isSaved(OpId(a))) {
                recomputeEvent(EventIndex(*next), kind(*next), a);
                continue;
            }
            while (*next < end && kind(*next) != EventKind::opEnd)
                ++next;
            if (*next >= end)
                break;
            takeFromCache(OpId(a));
        }
        memory_.endOp(); // the last pack may come from inside an op
        for (const Block block : graph_)
            memory_.drop(block);
        graph_.clear();
        for (const StorageId storage : touched_) {
            Now& now = recomputation_[storage.value];
            if (now.byProgram)
                memory_.drop(now.block);
            now = {};
        }
        touched_.clear();
    }

    void recomputeEvent(EventIndex event, EventKind kind, std::uint32_t a)
    {
        switch (kind) {
        case EventKind::opBegin:
            memory_.beginOp(OpId(a), trace_.ops.ms[OpId(a)]);
            memory_.addRecomputeMs(trace_.ops.ms[OpId(a)]);
            break;
        case EventKind::opEnd:
            memory_.endOp();
            break;
        case EventKind::alloc:
            giveToProgram(StorageId(a), memory_.addCopy(StorageId(a), trace_.storages.bytes[StorageId(a)]));
            memory_.hold(recomputation_[a].block);
            break;
        case EventKind::free:
            if (std::exchange(recomputation_[a].byProgram, false))
                memory_.drop(recomputation_[a].block);
            break;
        case EventKind::resize:
            if (const Block block = recomputation_[a].block; block != none && block != a)
                memory_.resize(block, trace_.resizes.bytes[trace_.events.b[event]]);
            break;
        case EventKind::pack:
            packAgain(PackId(a));
            break;
        default:
            break;
        }
    }

    void giveToProgram(StorageId storage, Block block)
    {
        recomputation_[storage.value] = {block, true};
        touched_.push_back(storage);
    }

    void takeFromCache(OpId op)
    {
        if (!cached_[op.value])
            return;
        cached_[op.value] = false;
        forEachOutput(op, [this](StorageId storage) {
            if (recomputation_[storage.value].byProgram)
                memory_.drop(storage.value); // another saved op's result, by another name
            else
                giveToProgram(storage, storage.value);
        });
    }

    void packAgain(PackId pack)
    {
        const StorageId storage = trace_.packs.storage[pack];
        if (!storage.valid())
            return;
        const Block now = recomputation_[storage.value].block;
        const Block block = now == none ? storage.value : now;
        memory_.hold(block);
        graph_.push_back(block);
        if (index_.releaseEvent[pack.value] > event_) {
            memory_.hold(block);
            recomputed_[pack.value].block = block;
        }
    }

    const StepTrace& trace_;
    const StepIndex& index_;
    const Regions& plan_;
    Memory memory_;
    std::uint32_t event_ = 0;

    // As ReplayNotes.
    std::vector<std::uint32_t>& regionOf_;
    std::vector<Recomputed>& recomputed_;
    std::vector<Now>& recomputation_;
    std::vector<bool>& cached_;

    std::vector<std::pair<std::uint32_t, std::uint32_t>> ends_; ///< (event, region), ascending
    std::size_t endsDone_ = 0;
    std::uint32_t nextEnd_ = none; ///< event of the first of them that is to come
    std::vector<bool> ran_; ///< by region: its recomputation
    std::size_t nextRegion_ = 0;

    // The recomputation that runs now.
    std::vector<StorageId> touched_;
    std::vector<Block> graph_; ///< held by the new graph
};

} // namespace headroom
