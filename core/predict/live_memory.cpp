// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/live_memory.h"

#include <cassert>
#include <utility>

namespace headroom {

LiveMemory::LiveMemory(const StepTrace& trace)
    : blocks_(trace.storages.size())
    , storages_(trace.storages.size())
{
    for (std::size_t i = 0; i < storages_; ++i) {
        const StorageId storage(static_cast<std::uint32_t>(i));
        blocks_[i] = {trace.storages.bytes[storage], 0, trace.storages.category[storage]};
    }
    timeline_.peakChange = Timeline::npos;
    timeline_.changes.reserve(2 * storages_);
}

void LiveMemory::hold(Block block)
{
    State& state = blocks_[block];
    if (state.holders++ == 0)
        change(block, state.bytes);
}

void LiveMemory::drop(Block block)
{
    State& state = blocks_[block];
    assert(state.holders > 0);
    if (--state.holders > 0)
        return;
    changeMs_ = opEndMs_;
    change(block, -state.bytes);
}

LiveMemory::Block LiveMemory::addCopy(StorageId original, Bytes bytes)
{
    originals_.push_back(original);
    blocks_.push_back({bytes, 0, Category::activation});
    return static_cast<Block>(blocks_.size() - 1);
}

void LiveMemory::resize(Block block, Bytes bytes)
{
    const Bytes before = std::exchange(blocks_[block].bytes, bytes);
    if (blocks_[block].holders == 0)
        return;
    // The content moves: for a moment both are there.
    change(block, bytes);
    change(block, -before);
}

void LiveMemory::retype(StorageId storage, Category category)
{
    State& state = blocks_[storage.value];
    if (state.category == category)
        return;
    if (state.holders > 0)
        change(storage.value, -state.bytes);
    state.category = category;
    if (state.holders > 0)
        change(storage.value, state.bytes);
}

void LiveMemory::beginOp(OpId op, double ms)
{
    op_ = op;
    opEndMs_ = now_ + ms;
}

void LiveMemory::endOp()
{
    op_ = {};
    now_ = opEndMs_;
    changeMs_ = now_;
}

void LiveMemory::mark(Mark mark)
{
    switch (mark) {
    case Mark::stepBegin:
        began_ = true;
        now_ = changeMs_ = opEndMs_ = phaseBeginMs_ = 0;
        timeline_.start = live_;
        timeline_.peak = total_;
        timeline_.atPeak = live_;
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

void LiveMemory::endPhase(Phase phase)
{
    timeline_.phases.push_back({phase, phaseBeginMs_, now_});
    phaseBeginMs_ = now_;
}

Timeline LiveMemory::finish(Phase trailing) &&
{
    if (op_.valid())
        endOp();
    if (now_ > phaseBeginMs_)
        endPhase(trailing);
    timeline_.durationMs = now_;
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
    timeline_.changes.push_back({changeMs_, delta, storage, op_, category, recomputed});
    if (total_ > timeline_.peak) {
        timeline_.peak = total_;
        timeline_.peakChange = timeline_.changes.size() - 1;
        timeline_.atPeak = live_;
    }
}

} // namespace headroom
