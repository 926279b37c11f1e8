// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/local_replay.h"

#include "core/base/try.h"
#include "core/predict/replay_rules.h"
#include "core/trace/life_category.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace headroom {

namespace {

struct LocalBlock : HeldBlock
{
    bool counted = false;
};

/// The Memory of replays that counts live bytes of chosen storages and of their copies.
class LocalMemory : public TimelessMemory
{
public:
    using Block = std::uint32_t;

    /// `blocks` are all default-constructed; the destructor restores that state.
    LocalMemory(const StepTrace& trace, std::span<const StorageId> storages, std::vector<LocalBlock>& blocks)
        : storages_(storages)
        , blocks_(&blocks)
    {
        blocks.resize(trace.storages.size());
        for (const StorageId storage : storages)
            blocks[storage.value] = {{trace.storages.bytes[storage]}, true};
    }

    ~LocalMemory()
    {
        if (blocks_ == nullptr)
            return;
        for (const StorageId storage : storages_)
            (*blocks_)[storage.value] = {};
    }

    LocalMemory(LocalMemory&& other) noexcept
        : storages_(other.storages_)
        , blocks_(std::exchange(other.blocks_, nullptr))
    {
    }
    LocalMemory& operator=(LocalMemory&&) = delete;

    void hold(Block block)
    {
        LocalBlock& state = (*blocks_)[block];
        if (!state.counted || !state.hold())
            return;
        live_ += state.bytes;
        high_ = std::max(high_, live_);
    }

    void drop(Block block)
    {
        LocalBlock& state = (*blocks_)[block];
        if (state.counted && state.drop())
            live_ -= state.bytes;
    }

    Block addCopy(StorageId, Bytes bytes)
    {
        blocks_->push_back({{bytes}, true});
        return static_cast<Block>(blocks_->size() - 1);
    }

    void resize(Block block, Bytes bytes)
    {
        LocalBlock& state = (*blocks_)[block];
        const Bytes more = state.resize(bytes);
        if (!state.isHeld())
            return;
        high_ = std::max(high_, live_ + bytes); // old and new content are both alive during the move
        live_ += more;
    }

    void addRecomputeMs(double ms) { recomputeMs_ += ms; }

    void copyOut(std::uint32_t, std::uint32_t, Bytes bytes)
    {
        movedBytes_ += bytes;
        ++movedStorages_;
        pinned_ += pinnedBytes(bytes);
    }
    void waitOut(std::uint32_t, std::uint32_t) {}
    void copyIn(std::uint32_t, std::uint32_t, Bytes) {}
    void waitIn(std::uint32_t, std::uint32_t) {}
    void endCopy(std::uint32_t, Bytes) {}
    void endCall(std::uint32_t) {}
    void beginBackward(std::uint32_t) {}
    void addMovedTo(LocalEffect& effect, std::size_t times) const
    {
        effect.movedBytes = movedBytes_ * static_cast<Bytes>(times);
        effect.movedStorages = movedStorages_ * static_cast<std::int64_t>(times);
        effect.pinned = pinned_;
    }

    void beginEvent() { high_ = std::numeric_limits<Bytes>::min(); }
    LocalEffect::Change endEvent() const { return {std::max(high_, live_), live_}; }
    double recomputeMs() const { return recomputeMs_; }

private:
    std::span<const StorageId> storages_;
    std::vector<LocalBlock>* blocks_; ///< the storages, then the copies
    Bytes live_ = 0;
    Bytes high_ = 0;
    double recomputeMs_ = 0;
    Bytes movedBytes_ = 0, pinned_ = 0;
    std::int64_t movedStorages_ = 0;
};

/// Numbers ids by first appearance, so that equal layers get equal numbers.
class Renumbering
{
public:
    std::uint64_t operator()(std::uint32_t id) { return numbers_.emplace(id, numbers_.size()).first->second; }

    /// The number of an id, or the next free number for a new id.
    std::uint64_t of(std::uint32_t id) const
    {
        const auto found = numbers_.find(id);
        return found != numbers_.end() ? found->second : numbers_.size();
    }

private:
    std::unordered_map<std::uint32_t, std::uint64_t> numbers_;
};

} // namespace

struct LocalNotes::Content
{
    ReplayNotes replay;
    std::vector<LocalBlock> blocks;
};

LocalNotes::LocalNotes()
    : content_(std::make_unique<Content>())
{
}

LocalNotes::~LocalNotes() = default;

LocalReplay::LocalReplay(const StepModel& model, const StorageEvents& events, ModuleId part,
                         const std::vector<bool>& shared, LocalNotes& notes)
    : model_(model)
    , part_(part)
    , replayed_(scopeOf(model.index().callsOf[part.value], events, shared))
    , events_(replayed_.events)
    , recorded_(record(replayed_, notes))
    , signature_(sign(replayed_))
{
    if (replayed_.calls.size() > 1)
        foldEqualCalls(events, shared, notes);
}

LocalReplay::Scope LocalReplay::scopeOf(std::vector<CallId> calls, const StorageEvents& events,
                                        const std::vector<bool>& shared) const
{
    Scope scope;
    scope.calls = std::move(calls);
    scope.storages = storagesOf(scope.calls);
    std::erase_if(scope.storages, [&](StorageId storage) { return shared[storage.value]; });
    findSteps(scope, events);
    findEvents(scope);
    return scope;
}

/// The storages that a region inside some calls can free or keep: packed storages, arguments, and the outputs of ops.
/// Storages of the model's state live through the step and are left out.
std::vector<StorageId> LocalReplay::storagesOf(std::span<const CallId> ids) const
{
    const StepTrace& trace = *model_.trace();
    std::vector<StorageId> storages;
    const auto add = [&](StorageId storage) {
        if (storage.valid() && !isOfModel(trace.storages.category[storage]))
            storages.push_back(storage);
    };
    const auto& calls = model_.index().calls;
    for (const CallId id : ids) {
        const StepIndex::Call& call = calls[id.value];
        std::ranges::for_each(trace.calls.arguments[id], add);
        for (std::uint32_t pack = call.firstPack; pack < call.endPack; ++pack)
            add(trace.packs.storage[PackId(pack)]);
        for (std::uint32_t op = call.firstOp; op < call.endOp; ++op)
            std::ranges::for_each(trace.ops.outputs[OpId(op)], add);
        // Inner calls come right after the outer call.
        for (std::uint32_t inside = id.value + 1; inside < calls.size() && calls[inside].enter < call.exit; ++inside)
            std::ranges::for_each(trace.calls.arguments[CallId(inside)], add);
    }
    std::ranges::sort(storages);
    storages.erase(std::ranges::unique(storages).begin(), storages.end());
    return storages;
}

/// Casts of weights in autocast's cache at the begin of backward: every recomputation frees such casts.
std::vector<StorageId> LocalReplay::castsInBackward() const
{
    const StepTrace& trace = *model_.trace();
    std::vector<StorageId> found;
    bool backward = false;
    for (const std::uint32_t step : replayed_.steps) {
        const EventKind kind = trace.events.kind[EventIndex(step)];
        backward = backward || kind == EventKind::unpack;
        const StorageId storage(trace.events.a[EventIndex(step)]);
        if (backward && kind == EventKind::free && !model_.index().casts.empty()
            && model_.index().casts[storage.value].valid())
            found.push_back(storage);
    }
    return found;
}

std::vector<StorageId> LocalReplay::storagesOf(ModuleId module) const
{
    std::vector<StorageId> storages = storagesOf(model_.index().callsOf[module.value]);
    const std::vector<StorageId> casts = castsInBackward();
    storages.insert(storages.end(), casts.begin(), casts.end());
    std::ranges::sort(storages);
    storages.erase(std::ranges::unique(storages).begin(), storages.end());
    std::erase_if(storages, [this](StorageId id) { return !std::ranges::binary_search(replayed_.storages, id); });
    return storages;
}

void LocalReplay::findSteps(Scope& scope, const StorageEvents& events) const
{
    const StepTrace& trace = *model_.trace();
    const StepIndex& index = model_.index();
    std::vector<std::uint32_t>& steps = scope.steps;
    for (const StorageId storage : scope.storages) {
        const auto own = events.of(storage);
        steps.insert(steps.end(), own.begin(), own.end());
    }
    for (const CallId id : scope.calls) {
        const StepIndex::Call& call = index.calls[id.value];
        for (std::uint32_t pack = call.firstPack; pack < call.endPack; ++pack) {
            const auto own = events.of(PackId(pack));
            steps.insert(steps.end(), own.begin(), own.end());
        }
        for (std::uint32_t event = call.enter; event <= call.exit && event < trace.events.size(); ++event) {
            const EventKind kind = trace.events.kind[EventIndex(event)];
            if (kind == EventKind::enter || kind == EventKind::exit || kind == EventKind::opEnd)
                steps.push_back(event);
        }
    }
    std::ranges::sort(steps);
    steps.erase(std::ranges::unique(steps).begin(), steps.end());
}

void LocalReplay::findEvents(Scope& scope) const
{
    const StepTrace& trace = *model_.trace();
    const std::vector<std::uint32_t>& steps = scope.steps;
    const auto goesWithNext = [&](std::size_t step) {
        if (step + 1 == steps.size())
            return false;
        for (std::uint32_t event = steps[step]; event <= steps[step + 1]; ++event)
            if (trace.events.kind[EventIndex(event)] != EventKind::free)
                return false;
        return true;
    };
    for (std::size_t step = 0; step < steps.size(); ++step)
        if (!goesWithNext(step)) {
            scope.events.push_back(steps[step]);
            scope.ends.push_back(step + 1);
        }
}

std::vector<Bytes> LocalReplay::record(const Scope& scope, LocalNotes& notes) const
{
    const Regions nothing;
    Replay<LocalMemory> replay(*model_.trace(), model_.index(), nothing,
                               LocalMemory(*model_.trace(), scope.storages, notes.content_->blocks),
                               notes.content_->replay);
    std::vector<Bytes> recorded;
    recorded.reserve(scope.events.size());
    for (std::size_t i = 0, step = 0; i < scope.events.size(); ++i) {
        while (step < scope.ends[i])
            replay.step(scope.steps[step++]);
        recorded.push_back(replay.memory().endEvent().after);
    }
    return recorded;
}

std::vector<std::uint64_t> LocalReplay::sign(const Scope& scope) const
{
    const StepTrace& trace = *model_.trace();
    const StepIndex& index = model_.index();
    std::vector<std::uint64_t> signature;
    Renumbering storages;
    Renumbering packs;
    Renumbering calls;
    Renumbering passes;
    const auto signStorage = [&](StorageId storage) {
        if (!storage.valid())
            return signature.push_back(~std::uint64_t{0});
        const bool counted = std::ranges::binary_search(scope.storages, storage);
        signature.push_back(storages(storage.value) * 2 + (counted ? 1 : 0));
        signature.push_back(counted ? static_cast<std::uint64_t>(trace.storages.bytes[storage]) : 0);
    };
    const auto signOp = [&](OpId op) {
        signature.push_back(trace.ops.name[op].value);
        signature.push_back(trace.ops.flags[op]);
        signature.push_back(std::bit_cast<std::uint64_t>(trace.ops.ms[op]));
        for (const auto list : {trace.ops.outputs[op], trace.ops.mutated[op]}) {
            signature.push_back(list.size());
            std::ranges::for_each(list, signStorage);
        }
        // A recomputation also makes autocast's casts again that were made outside of the part.
        for (const StorageId input : trace.ops.inputs[op]) {
            const OpId cast = index.casts.empty() ? OpId() : index.casts[input.value];
            if (!cast.valid())
                continue;
            signStorage(input);
            signature.push_back(static_cast<std::uint64_t>(trace.storages.bytes[input]));
            signature.push_back(std::bit_cast<std::uint64_t>(trace.ops.ms[cast]));
        }
    };
    const auto signEvent = [&](std::uint32_t event, bool inside) {
        const EventKind kind = trace.events.kind[EventIndex(event)];
        const std::uint32_t a = trace.events.a[EventIndex(event)];
        signature.push_back(static_cast<std::uint64_t>(kind));
        switch (kind) {
        case EventKind::alloc:
        case EventKind::free:
            signStorage(StorageId(a));
            break;
        case EventKind::resize:
            signStorage(StorageId(a));
            signature.push_back(static_cast<std::uint64_t>(trace.resizes.bytes[trace.events.b[EventIndex(event)]]));
            break;
        case EventKind::pack:
        case EventKind::unpack:
        case EventKind::unpackEnd:
        case EventKind::release:
            signature.push_back(packs(a));
            signature.push_back(kind == EventKind::unpack ? passes(trace.events.b[EventIndex(event)]) : 0);
            signStorage(trace.packs.storage[PackId(a)]);
            break;
        case EventKind::opBegin:
            if (inside)
                signOp(OpId(a));
            break;
        case EventKind::enter:
            signature.push_back(calls(a));
            signature.push_back(trace.calls.module[CallId(a)].value - part_.value);
            std::ranges::for_each(trace.calls.arguments[CallId(a)], signStorage);
            break;
        default:
            break;
        }
    };
    for (const CallId id : scope.calls) {
        const StepIndex::Call& call = index.calls[id.value];
        for (std::uint32_t event = call.enter; event <= call.exit && event < trace.events.size(); ++event)
            signEvent(event, true);
    }
    for (std::size_t i = 0, step = 0; i < scope.events.size(); ++i) {
        std::vector<std::uint32_t> together(scope.steps.begin() + static_cast<std::ptrdiff_t>(step),
                                            scope.steps.begin() + static_cast<std::ptrdiff_t>(scope.ends[i]));
        step = scope.ends[i];
        // Storages that are freed at once, in an order that is the same for equal parts.
        if (together.size() > 1)
            std::ranges::sort(together, {}, [&](std::uint32_t event) {
                const std::uint32_t a = trace.events.a[EventIndex(event)];
                return std::tuple(storages.of(a), trace.storages.bytes[StorageId(a)], a);
            });
        for (const std::uint32_t event : together)
            signEvent(event, false);
        signature.push_back(together.size());
    }
    return signature;
}

/// Whether autograd releases every pack of the calls, so that no region outlives the last event of the calls.
bool LocalReplay::releasesAll(const Scope& scope) const
{
    const StepIndex& index = model_.index();
    return std::ranges::all_of(scope.calls, [&](CallId id) {
        const StepIndex::Call& call = index.calls[id.value];
        return std::all_of(index.releaseEvent.begin() + call.firstPack, index.releaseEvent.begin() + call.endPack,
                           [](std::uint32_t event) { return event != StepIndex::never; });
    });
}

/// Replays only the first call if the calls follow in sequence with equal signatures, and each call has separate
/// storages, all freed at the end of the call.
void LocalReplay::foldEqualCalls(const StorageEvents& events, const std::vector<bool>& shared, LocalNotes& notes)
{
    std::vector<std::uint32_t> allEvents;
    std::vector<std::uint64_t> signature;
    std::size_t storages = 0;
    std::uint32_t last = 0;
    Scope first;
    for (const CallId call : replayed_.calls) {
        Scope scope = scopeOf({call}, events, shared);
        if (scope.steps.empty() || scope.steps.front() < last || !releasesAll(scope))
            return;
        last = scope.steps.back();
        storages += scope.storages.size();
        allEvents.insert(allEvents.end(), scope.events.begin(), scope.events.end());
        std::vector<std::uint64_t> own = sign(scope);
        if (signature.empty()) {
            signature = std::move(own);
            first = std::move(scope);
        } else if (own != signature) {
            return;
        }
    }
    std::vector<Bytes> recorded = record(first, notes);
    if (storages != replayed_.storages.size() || recorded.back() != 0)
        return;
    repeats_ = replayed_.calls.size();
    replayed_ = std::move(first);
    events_ = std::move(allEvents);
    recorded_ = std::move(recorded);
    signature_ = std::move(signature);
    signature_.push_back(repeats_);
}

Result<LocalEffect> LocalReplay::of(const CheckpointPlan& plan, LocalNotes& notes) const
{
    const StepTrace& trace = *model_.trace();
    const std::uint32_t end = replayed_.steps.empty() ? 0 : replayed_.steps.back() + 1;
    ASSIGN_OR_RETURN(const Regions regions, layOut(trace, model_.index(), plan, end));
    Replay<LocalMemory> replay(trace, model_.index(), regions,
                               LocalMemory(trace, replayed_.storages, notes.content_->blocks), notes.content_->replay);
    LocalEffect effect;
    effect.changes.reserve(replayed_.events.size());
    for (std::size_t i = 0, step = 0; i < replayed_.events.size(); ++i) {
        replay.memory().beginEvent();
        while (step < replayed_.ends[i])
            replay.step(replayed_.steps[step++]);
        const LocalEffect::Change change = replay.memory().endEvent();
        effect.changes.push_back({change.high - recorded_[i], change.after - recorded_[i]});
    }
    effect.recomputeMs = replay.memory().recomputeMs() * static_cast<double>(repeats_);
    replay.memory().addMovedTo(effect, repeats_);
    return effect;
}

} // namespace headroom
