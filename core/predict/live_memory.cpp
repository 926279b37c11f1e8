// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/live_memory.h"

#include "core/predict/regions.h"

#include <algorithm>
#include <utility>

namespace headroom {

namespace {

/// Calls visit(storage, pack, event) for each event of a storage or a pack; the other id is invalid if there is none.
template <class Visit>
void forEachEvent(const StepTrace& trace, Visit visit)
{
    const auto end = static_cast<std::uint32_t>(trace.events.size());
    for (std::uint32_t event = 0; event < end; ++event) {
        const std::uint32_t a = trace.events.a[EventIndex(event)];
        switch (trace.events.kind[EventIndex(event)]) {
        case EventKind::alloc:
        case EventKind::free:
        case EventKind::resize:
            visit(StorageId(a), PackId(), event);
            break;
        case EventKind::pack:
        case EventKind::unpack:
        case EventKind::unpackEnd:
        case EventKind::release:
            visit(trace.packs.storage[PackId(a)], PackId(a), event);
            break;
        default:
            break;
        }
    }
}

} // namespace

StorageEvents::StorageEvents(const StepTrace& trace)
{
    byStorage_.first.assign(trace.storages.size() + 1, 0);
    byPack_.first.assign(trace.packs.size() + 1, 0);
    forEachEvent(trace, [this](StorageId storage, PackId pack, std::uint32_t) {
        if (storage.valid())
            ++byStorage_.first[storage.value + 1];
        if (pack.valid())
            ++byPack_.first[pack.value + 1];
    });
    for (Table* table : {&byStorage_, &byPack_}) {
        for (std::size_t i = 1; i < table->first.size(); ++i)
            table->first[i] += table->first[i - 1];
        table->events.resize(table->first.back());
    }
    std::vector<std::uint32_t> nextOfStorage = byStorage_.first;
    std::vector<std::uint32_t> nextOfPack = byPack_.first;
    forEachEvent(trace, [&](StorageId storage, PackId pack, std::uint32_t event) {
        if (storage.valid())
            byStorage_.events[nextOfStorage[storage.value]++] = event;
        if (pack.valid())
            byPack_.events[nextOfPack[pack.value]++] = event;
    });
}

LiveMemory::LiveMemory(const StepTrace& trace)
    : storages_(trace.storages.size())
{
    // Room for the copies of a plan, so that blocks are not moved. Unused pages take no memory.
    blocks_.reserve(2 * storages_);
    if (const auto ops = static_cast<std::uint32_t>(trace.ops.size()); ops > 0)
        trailing_ = trace.ops.phase[OpId(ops - 1)];
    for (std::size_t i = 0; i < storages_; ++i) {
        const StorageId storage(static_cast<std::uint32_t>(i));
        const std::uint32_t place = trace.storages.stream.size() > 0 ? trace.storages.stream[storage] : 0;
        blocks_.push_back({{trace.storages.bytes[storage]}, trace.storages.category[storage], place});
    }
    timeline_.peakChange = Timeline::npos;
    timeline_.changes.reserve(3 * storages_);
    timeline_.runs.reserve(trace.ops.size());
}

LiveMemory::Block LiveMemory::addCopy(StorageId original, Bytes bytes)
{
    originals_.push_back(original);
    blocks_.push_back({{bytes}, Category::activation, blocks_[original.value].place});
    return static_cast<Block>(blocks_.size() - 1);
}

void LiveMemory::resize(Block block, Bytes bytes)
{
    const Bytes before = std::exchange(blocks_[block].bytes, bytes);
    if (!blocks_[block].isHeld())
        return;
    // Old and new content are both alive while the content moves.
    change(block, bytes);
    change(block, -before);
}

void LiveMemory::retype(StorageId storage, Category category)
{
    State& state = blocks_[storage.value];
    if (state.category == category)
        return;
    change(storage.value, -state.live());
    state.category = category;
    change(storage.value, state.live());
}

void LiveMemory::copyOut(std::uint32_t, std::uint32_t, Bytes bytes)
{
    HostBuffers& buffers = hostBuffers_[bytes];
    buffers.most = std::max(buffers.most, ++buffers.used);
    timeline_.movedBytes += bytes;
}

void LiveMemory::endCopy(std::uint32_t, Bytes bytes)
{
    --hostBuffers_[bytes].used;
}

void LiveMemory::mark(Mark mark)
{
    switch (mark) {
    case Mark::stepBegin:
        began_ = true;
        now_ = changeMs_ = opEndMs_ = phaseBeginMs_ = 0;
        timeline_.runs.clear();
        timeline_.start = live_;
        timeline_.peak = total_;
        countUntilNow();
        break;
    case Mark::forwardEnd:
        endPhase(Phase::forward);
        break;
    case Mark::backwardEnd:
        endPhase(Phase::backward);
        break;
    case Mark::stepEnd:
        endPhase(Phase::optimizer);
        break;
    case Mark::zeroGradEnd:
        endPhase(Phase::zeroGrad);
        break;
    }
    timeline_.snapshots.push_back({mark, live_});
}

void LiveMemory::countUntilNow()
{
    counted_ = live_;
    countedUntil_ = timeline_.changes.size();
}

void LiveMemory::endPhase(Phase phase)
{
    timeline_.phases.push_back({phase, phaseBeginMs_, now_});
    phaseBeginMs_ = now_;
}

Timeline LiveMemory::finish() &&
{
    if (op_.valid())
        endOp();
    if (now_ > phaseBeginMs_)
        endPhase(trailing_);
    timeline_.durationMs = now_;
    for (const auto& [bytes, buffers] : hostBuffers_)
        timeline_.hostBytes += pinnedBytes(bytes) * buffers.most;
    timeline_.atPeak = counted_;
    if (timeline_.peakChange != Timeline::npos)
        for (std::size_t i = countedUntil_; i <= timeline_.peakChange; ++i)
            timeline_.atPeak[static_cast<std::size_t>(timeline_.changes[i].category)] += timeline_.changes[i].delta;
    return std::move(timeline_);
}

void LiveMemory::change(Block block, Bytes delta)
{
    if (delta == 0)
        return;
    const Category category = blocks_[block].category;
    live_[static_cast<std::size_t>(category)] += delta;
    total_ += delta;
    if (!began_)
        return;
    const bool recomputed = block >= storages_;
    const StorageId storage = recomputed ? originals_[block - storages_] : StorageId(block);
    timeline_.changes.push_back({changeMs_, delta, storage, op_, category, recomputed, blocks_[block].place});
    if (total_ > timeline_.peak) {
        timeline_.peak = total_;
        timeline_.peakChange = timeline_.changes.size() - 1;
        if (timeline_.peakChange >= countedUntil_ + 1024)
            countUntilNow();
    }
}

} // namespace headroom
