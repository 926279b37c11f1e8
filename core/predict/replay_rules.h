// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/autocast_casts.h"
#include "core/predict/regions.h"
#include "core/predict/step_index.h"
#include "core/trace/memory_event.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace headroom {

/// What replays note by pack, storage and op of the step. Each replay leaves them as they were, so that a
/// caller that replays many small plans of a long step passes the same object, and the cost follows what is replayed.
/// For one replay at a time.
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
/// - In each backward pass the first unpack of any of its packs runs it again, up to its last pack: every op that was
///   not saved. A saved op's outputs come from the cache, which gives up its hold to the program; entries past the end
///   stay cached.
/// - While it runs again, the new graph holds everything that is packed, and the program what it has not freed. Both
///   end with it. Then a recomputed tensor is held for each pack that autograd has not released yet: until the end of
///   the node that unpacks it, or its release when no node of this pass does.
/// - It begins and ends with an empty cache of autocast's casts of weights, as PyTorch's engine leaves it on a GPU: it
///   makes those that its forward found there.
///
/// `Memory` counts what is alive: LiveMemory all of it, in time; LocalMemory what belongs to one part of the step;
/// ModuleMemory what each module has made.
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
        passes_.resize(plan.regions.size());
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
        if (!isCastLetGo(at))
            applyEvent(memory_, *this, trace_, at);
        if (at == nextEnd_)
            endRegionsBefore(at + 1);
    }

    /// What ends after the last event that was stepped over.
    void finish() { endRegionsBefore(static_cast<std::uint32_t>(trace_.events.size())); }

    Memory& memory() { return memory_; }

    /// The calls that have run again so far, in that order.
    const std::vector<CallId>& ranAgain() const { return ranAgain_; }

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

    /// Keeps account of autocast's cache. Whether an event frees a cast that a recomputation has let go of.
    bool isCastLetGo(std::uint32_t at)
    {
        const EventKind kind = trace_.events.kind[EventIndex(at)];
        const StorageId storage(trace_.events.a[EventIndex(at)]);
        if (index_.casts.empty() || plan_.regions.empty() || (kind != EventKind::alloc && kind != EventKind::free)
            || !index_.casts[storage.value].valid())
            return false;
        if (kind == EventKind::alloc) {
            castCache_.push_back(storage);
            return false;
        }
        return std::erase(castCache_, storage) == 0;
    }

    void emptyCastCache()
    {
        for (const StorageId cast : castCache_)
            memory_.drop(cast.value);
        castCache_.clear();
    }

    AutocastCasts casts() const { return {trace_, index_}; }

    bool isSaved(OpId op) const { return !plan_.saved.empty() && plan_.saved[op.value]; }

    void autogradOf(std::uint32_t region, EventKind kind, PackId pack)
    {
        if (kind == EventKind::pack)
            return;
        Recomputed& tensor = recomputed_[pack.value];
        if (kind == EventKind::unpack) {
            std::vector<std::uint32_t>& passes = passes_[region];
            const std::uint32_t pass = trace_.events.b[EventIndex(event_)];
            if (std::ranges::find(passes, pass) == passes.end()) {
                passes.push_back(pass);
                recompute(plan_.regions[region]);
            }
            tensor.unpacked = true;
            return;
        }
        if (dropOfEarlierPasses(kind, pack) && kind == EventKind::unpackEnd)
            return; // it was the end of a node of that pass
        const bool over = kind == EventKind::unpackEnd || !tensor.unpacked;
        if (over && tensor.block != none)
            memory_.drop(std::exchange(tensor.block, none));
    }

    /// Tensors that an earlier pass recomputed: a node still has one, or none asked, and it lives until the release.
    bool dropOfEarlierPasses(EventKind kind, PackId pack)
    {
        const bool ofNodes = kind == EventKind::unpackEnd;
        const std::size_t before = earlier_.size();
        for (auto earlier = earlier_.begin(); earlier != earlier_.end();) {
            if (earlier->first != pack || earlier->second.unpacked != ofNodes) {
                ++earlier;
                continue;
            }
            memory_.drop(earlier->second.block);
            earlier = earlier_.erase(earlier);
        }
        return earlier_.size() < before;
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
        ranAgain_.push_back(region.call);
        emptyCastCache();
        const auto& events = index_.memoryEvents;
        const std::uint32_t end = std::min(region.stop + 1, event_);
        for (auto next = std::ranges::lower_bound(events, region.enter); next != events.end() && *next < end; ++next) {
            const std::uint32_t a = trace_.events.a[EventIndex(*next)];
            const bool isOp = kind(*next) == EventKind::opBegin;
            if (isOp && !isSaved(OpId(a)) && !index_.casts.empty())
                casts().forEachOf(OpId(a), [&](StorageId cast) { castAgain(cast, region); });
            if (!isOp || !isSaved(OpId(a))) {
                recomputeEvent(EventIndex(*next), kind(*next), a, region);
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

    void recomputeEvent(EventIndex event, EventKind kind, std::uint32_t a, const Region& region)
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
            packAgain(PackId(a), region);
            break;
        default:
            break;
        }
    }

    /// A cast that the region's forward found in autocast's cache is made when it is first needed.
    void castAgain(StorageId storage, const Region& region)
    {
        const OpId cast = index_.casts.empty() ? OpId() : index_.casts[storage.value];
        if (cast.valid() && cast.value < region.firstOp && recomputation_[storage.value].block == none)
            casts().forEachBeside(cast, [this](OpId beside) { makeCast(beside); });
    }

    void makeCast(OpId cast)
    {
        const double ms = trace_.ops.ms[cast];
        memory_.beginOp(cast, ms);
        memory_.addRecomputeMs(ms);
        for (const StorageId storage : trace_.ops.outputs[cast]) {
            if (recomputation_[storage.value].block != none)
                continue;
            giveToProgram(storage, memory_.addCopy(storage, trace_.storages.bytes[storage]));
            memory_.hold(recomputation_[storage.value].block);
        }
        memory_.endOp();
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

    void packAgain(PackId pack, const Region& region)
    {
        const StorageId storage = trace_.packs.storage[pack];
        if (!storage.valid())
            return;
        castAgain(storage, region); // a node saves its inputs before its op begins
        const Block now = recomputation_[storage.value].block;
        const Block block = now == none ? storage.value : now;
        memory_.hold(block);
        graph_.push_back(block);
        if (index_.releaseEvent[pack.value] > event_) {
            Recomputed& tensor = recomputed_[pack.value];
            if (tensor.block != none)
                earlier_.emplace_back(pack, tensor);
            memory_.hold(block);
            tensor = {block, false};
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
    std::vector<std::vector<std::uint32_t>> passes_; ///< by region: the backward passes in which it has run again

    std::vector<std::pair<PackId, Recomputed>> earlier_; ///< what earlier passes recomputed and still is there
    std::size_t nextRegion_ = 0;

    std::vector<StorageId> castCache_; ///< what autocast's cache holds now
    std::vector<CallId> ranAgain_;

    // The recomputation that runs now.
    std::vector<StorageId> touched_;
    std::vector<Block> graph_; ///< held by the new graph
};

} // namespace headroom
