// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/autocast_casts.h"
#include "core/predict/moved_storages.h"
#include "core/predict/regions.h"
#include "core/predict/step_index.h"
#include "core/trace/memory_event.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

namespace headroom {

/// Scratch arrays of a Replay, by pack, storage and op of the step. A replay restores the arrays at its end. A caller
/// that replays many small plans of a long step passes the same object, so that the time depends only on the replayed
/// events. For a single replay at a time.
struct ReplayNotes
{
    static constexpr std::uint32_t none = static_cast<std::uint32_t>(-1);

    /// A pack with a recomputed tensor.
    struct Recomputed
    {
        std::uint32_t block = none; ///< none: no block is held for the pack
        bool unpacked = false; ///< by a node: the tensor lives until the node's end, not until the release
    };

    /// The block that stands for a storage of the trace in the running recomputation.
    struct Now
    {
        std::uint32_t block = none; ///< none: the storage itself
        bool byProgram = false;
    };

    std::vector<std::uint32_t> regionOf; ///< by pack
    std::vector<std::uint32_t> movedOf; ///< by pack: index in Regions::moved
    std::vector<Recomputed> recomputed; ///< by pack
    std::vector<Now> recomputation; ///< by storage
    std::vector<bool> cached; ///< by op: the region's cache holds the outputs
    std::vector<bool> castKept; ///< by storage: a cast in autocast's cache
};

/// Replays a step's events under a plan, by the rules of torch/utils/checkpoint.py, non-reentrant and selective:
///
/// - A pack of a region in forward holds no tensor. The region holds the arguments, and the outputs of saved ops, until
///   autograd has released the last pack of the region.
/// - In each backward pass, the first unpack of any pack recomputes the region, up to the region's last pack, without
///   the saved ops. A saved op's outputs come from the cache, and the program takes over the cache's hold. Entries that
///   the recomputation does not reach stay cached.
/// - During a recomputation the new graph holds every packed tensor, unless the node of the tensor died in forward, and
///   the program holds what the program has not freed; both holds end with the recomputation. Then a recomputed tensor
///   is held for each pack that autograd has not released yet: until the end of the node that unpacks the pack, or
///   until the pack's release if no node of this pass unpacks the pack.
/// - Autocast's cache of casts of weights is empty at the begin and at the end of a recomputation, as PyTorch's engine
///   leaves the cache on a GPU. The recomputation repeats the casts that the forward found in the cache.
///
/// Offloaded calls recompute nothing, and arguments and outputs of hosted ops leave the device (MovedStorages).
/// `Memory` counts live bytes: LiveMemory counts the whole step over time, LocalMemory a part of the step, ModuleMemory
/// each module.
template <class Memory>
class Replay
{
public:
    using Block = std::uint32_t;

    /// `notes` belong to this step and must outlive the replay.
    Replay(const StepTrace& trace, const StepIndex& index, const Regions& plan, Memory memory, ReplayNotes& notes)
        : trace_(trace)
        , index_(index)
        , plan_(plan)
        , memory_(std::move(memory))
        , moved_(trace, plan, memory_, notes.movedOf)
        , regionOf_(notes.regionOf)
        , recomputed_(notes.recomputed)
        , recomputation_(notes.recomputation)
        , cached_(notes.cached)
        , castKept_(notes.castKept)
    {
        if (plan.regions.empty())
            return;
        castKept_.resize(index.casts.size(), false);
        regionOf_.resize(trace.packs.size(), none);
        recomputed_.resize(trace.packs.size());
        recomputation_.resize(trace.storages.size());
        cached_.resize(trace.ops.size(), false);
        for (std::uint32_t i = 0; i < plan.regions.size(); ++i) {
            const Region& region = plan.regions[i];
            std::fill(regionOf_.begin() + region.firstPack, regionOf_.begin() + region.endPack, i);
            if (region.number != none)
                ends_.emplace_back(index.calls[region.call.value].exit, End::call, i);
            if (region.moves())
                ends_.emplace_back(region.leave, End::stay, i);
            if (region.back != none)
                ends_.emplace_back(region.back - 1, End::absence, i);
            if (!region.offload)
                ends_.emplace_back(region.end, End::region, i);
        }
        const auto order = [](const auto& ending) { // of what comes back, later calls first
            const auto [event, what, region] = ending;
            return std::tuple(event, what, what == End::absence ? none - region : region);
        };
        std::ranges::sort(ends_, {}, order);
        nextEnd_ = std::get<0>(ends_.front());
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
        for (const StorageId cast : castCache_)
            castKept_[cast.value] = false;
    }

    Replay(const Replay&) = delete;
    Replay& operator=(const Replay&) = delete;

    /// Applies an event. Events come in order; events without effect on `Memory` may be left out.
    void step(std::uint32_t at)
    {
        if (at > nextEnd_)
            endRegionsBefore(at); // an event that was left out may end a region
        event_ = at;
        if (!isCastLetGo(at))
            applyEvent(memory_, *this, trace_, at);
        if (at == nextEnd_)
            endRegionsBefore(at + 1);
    }

    /// Ends the regions that end after the last event.
    void finish() { endRegionsBefore(static_cast<std::uint32_t>(trace_.events.size())); }

    Memory& memory() { return memory_; }

    /// The calls that the backward has reached so far: recomputed ones, and offloaded ones.
    const std::vector<CallId>& ranAgain() const { return ranAgain_; }

    // Functions that applyEvent() calls.

    void autograd(EventKind kind, PackId pack)
    {
        if (const std::uint32_t region = plan_.regions.empty() ? none : regionOf_[pack.value]; region != none)
            autogradOf(region, kind, pack);
        else
            holdForAutograd(memory_, trace_, kind, pack);
    }

    void enter(CallId call)
    {
        const Region* const region = regionAt(call);
        if (region == nullptr || region->offload)
            return;
        forEachKeptArgument(*region, [this](StorageId argument) { memory_.hold(argument.value); });
        moved_.holdArguments(*region);
    }

    void opEnd(OpId op)
    {
        if (isSaved(op))
            fillCache(op);
    }

private:
    /// What ends after an event: the forward of a call, the stay of moved storages on the device, a checkpointed
    /// region, the absence of moved storages.
    enum class End : std::uint8_t { call, stay, region, absence };

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

    /// Tracks autocast's cache. Returns whether the event frees a cast that a recomputation has already dropped.
    bool isCastLetGo(std::uint32_t at)
    {
        const EventKind kind = trace_.events.kind[EventIndex(at)];
        const StorageId storage(trace_.events.a[EventIndex(at)]);
        if (index_.casts.empty() || plan_.regions.empty() || (kind != EventKind::alloc && kind != EventKind::free)
            || !index_.casts[storage.value].valid())
            return false;
        if (kind == EventKind::alloc) {
            castCache_.push_back(storage);
            castKept_[storage.value] = true;
            return false;
        }
        const bool isKept = castKept_[storage.value];
        castKept_[storage.value] = false;
        return !isKept;
    }

    void emptyCastCache()
    {
        for (const StorageId cast : castCache_) {
            if (castKept_[cast.value])
                memory_.drop(cast.value);
            castKept_[cast.value] = false;
        }
        castCache_.clear();
    }

    AutocastCasts casts() const { return {trace_, index_}; }

    bool isSaved(OpId op) const { return !plan_.saved.empty() && plan_.saved[op.value]; }

    void autogradOf(std::uint32_t region, EventKind kind, PackId pack)
    {
        if (plan_.regions[region].offload) {
            if (kind == EventKind::unpack && moved_.bringBackFrom(region))
                ranAgain_.push_back(plan_.regions[region].call);
            if (!moved_.apply(region, kind, pack))
                holdForAutograd(memory_, trace_, kind, pack);
            return;
        }
        if (kind == EventKind::pack)
            return;
        Recomputed& tensor = recomputed_[pack.value];
        if (kind == EventKind::unpack) {
            std::vector<std::uint32_t>& passes = passes_[region];
            const std::uint32_t pass = trace_.events.b[EventIndex(event_)];
            if (std::ranges::find(passes, pass) == passes.end()) {
                passes.push_back(pass);
                moved_.bringBackFrom(region);
                recompute(plan_.regions[region]);
            }
            tensor.unpacked = true;
            return;
        }
        if (dropOfEarlierPasses(kind, pack) && kind == EventKind::unpackEnd)
            return; // the node belonged to that pass
        const bool over = kind == EventKind::unpackEnd || !tensor.unpacked;
        if (over && tensor.block != none)
            memory_.drop(std::exchange(tensor.block, none));
    }

    /// Drops the tensors of a pack that earlier passes recomputed: at unpackEnd the tensors that a node unpacked, else
    /// the others. Returns whether a tensor was dropped.
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

    /// Caches the outputs of a saved op that has run in forward.
    void fillCache(OpId op)
    {
        cached_[op.value] = true;
        forEachOutput(op, [this, op](StorageId storage) {
            if (!moved_.cache(op, storage))
                memory_.hold(storage.value);
        });
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
        for (; endsDone_ < ends_.size() && std::get<0>(ends_[endsDone_]) < event; ++endsDone_)
            end(std::get<1>(ends_[endsDone_]), std::get<2>(ends_[endsDone_]));
        nextEnd_ = endsDone_ < ends_.size() ? std::get<0>(ends_[endsDone_]) : none;
    }

    void end(End what, std::uint32_t region)
    {
        if (what == End::region)
            endRegion(plan_.regions[region]);
        else if (what == End::stay)
            moved_.leaveDevice(region);
        else if (what == End::absence)
            moved_.bringBackEarly(region);
        else if constexpr (MovedStorages<Memory>::followsCopies)
            memory_.endCall(region);
    }

    /// Visits the arguments of a checkpointed call that do not move.
    template <class Visit>
    void forEachKeptArgument(const Region& region, Visit visit) const
    {
        for (const StorageId argument : trace_.calls.arguments[region.call])
            if (!moved_.isMoved(region, argument))
                visit(argument);
    }

    void endRegion(const Region& region)
    {
        forEachKeptArgument(region, [this](StorageId argument) { memory_.drop(argument.value); });
        moved_.dropArguments(region);
        if (plan_.saved.empty())
            return;
        for (std::uint32_t op = region.firstOp; op < region.endOp; ++op) {
            if (!cached_[op])
                continue;
            cached_[op] = false;
            forEachOutput(OpId(op), [this, op](StorageId storage) {
                if (!moved_.drop(OpId(op), storage))
                    memory_.drop(storage.value);
            });
        }
    }

    void recompute(const Region& region)
    {
        const auto kind = [this](std::uint32_t event) { return trace_.events.kind[EventIndex(event)]; };
        ranAgain_.push_back(region.call);
        emptyCastCache();
        moved_.takeArguments(region, [this](StorageId argument, Block block) {
            recomputation_[argument.value] = {block, false};
            touched_.push_back(argument);
        });
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
        memory_.endOp(); // the last pack may be inside an op
        for (const auto& [pack, block] : graph_)
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
        case EventKind::release:
            releaseAgain(PackId(a));
            break;
        default:
            break;
        }
    }

    /// Makes a cast that the region's forward found in autocast's cache, at the first need of the cast.
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
        forEachOutput(op, [this, op](StorageId storage) {
            const Block block = moved_.take(op, storage);
            if (recomputation_[storage.value].byProgram)
                memory_.drop(block); // another saved op has already returned this storage
            else
                giveToProgram(storage, block);
        });
    }

    void packAgain(PackId pack, const Region& region)
    {
        const StorageId storage = trace_.packs.storage[pack];
        if (!storage.valid())
            return;
        castAgain(storage, region); // a node packs its inputs before the op begins
        const Block now = recomputation_[storage.value].block;
        const Block block = now == none ? storage.value : now;
        memory_.hold(block);
        graph_.emplace_back(pack, block);
        if (index_.releaseEvent[pack.value] > event_) {
            Recomputed& tensor = recomputed_[pack.value];
            if (tensor.block != none)
                earlier_.emplace_back(pack, tensor);
            memory_.hold(block);
            tensor = {block, false};
        }
    }

    /// A node without a dependent result dies before the end of the forward. An example is the node of a router's
    /// scores, if only the indices are used.
    void releaseAgain(PackId pack)
    {
        const auto found = std::ranges::find(graph_, pack, &std::pair<PackId, Block>::first);
        if (found == graph_.end())
            return;
        memory_.drop(found->second);
        graph_.erase(found);
    }

    const StepTrace& trace_;
    const StepIndex& index_;
    const Regions& plan_;
    Memory memory_;
    MovedStorages<Memory> moved_;
    std::uint32_t event_ = 0;

    // Arrays of the ReplayNotes.
    std::vector<std::uint32_t>& regionOf_;
    std::vector<Recomputed>& recomputed_;
    std::vector<Now>& recomputation_;
    std::vector<bool>& cached_;
    std::vector<bool>& castKept_;

    std::vector<std::tuple<std::uint32_t, End, std::uint32_t>> ends_; ///< (event, what ends, region), ascending
    std::size_t endsDone_ = 0;
    std::uint32_t nextEnd_ = none; ///< event of the first of ends_ that is not done
    std::vector<std::vector<std::uint32_t>> passes_; ///< by region: backward passes with a recomputation

    std::vector<std::pair<PackId, Recomputed>> earlier_; ///< tensors of earlier passes that are still alive
    std::size_t nextRegion_ = 0;

    std::vector<StorageId> castCache_; ///< casts since the cache was empty; castKept_ says which are still there
    std::vector<CallId> ranAgain_;

    // State of the running recomputation.
    std::vector<StorageId> touched_;
    std::vector<std::pair<PackId, Block>> graph_; ///< blocks that the new graph holds
};

} // namespace headroom
