// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/outside_memory.h"

#include "core/device/simulated_state.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace headroom {

namespace {

void append(StepTraceBuilder::Outside& rows, OutsideKind kind, Bytes bytes, std::uint32_t stream, std::uint32_t block)
{
    rows.kind.push_back(kind);
    rows.bytes.push_back(bytes);
    rows.stream.push_back(stream);
    rows.block.push_back(block);
}

void shorten(StepTraceBuilder::Outside& rows, std::size_t size)
{
    rows.kind.resize(size);
    rows.bytes.resize(size);
    rows.stream.resize(size);
    rows.block.resize(size);
}

} // namespace

std::shared_ptr<OutsideMemory> OutsideMemory::watch()
{
    auto memory = std::make_shared<OutsideMemory>();
    sim::SimulatedAllocator& allocator = sim::simulatedState().allocator;
    const sim::MemoryStats stats = allocator.stats();
    memory->knowsStart_ = stats.allocations == 0;
    memory->live_ = stats.live;
    allocator.setLog(memory);
    return memory;
}

void OutsideMemory::stepBegins()
{
    const std::lock_guard lock(mutex_);
    mark_ = {now_.rows.size(), live_, now_.peak, now_.keptPeak};
    stepPeak_ = live_;
    ownLive_ = ownPeak_ = 0;
    wasFull_ = isKept_ = false;
    isInStep_ = true;
}

void OutsideMemory::keepStep()
{
    const std::lock_guard lock(mutex_);
    isKept_ = true;
    Period period = std::exchange(now_, {});
    rowOf_.clear(); // rows of `period`
    shorten(period.rows, mark_.rows);
    period.peak = mark_.peak;
    period.keptPeak = mark_.keptPeak;
    keepWhatStays(period);
    notKept_.clear();
    if (hasFinished_ && period.peak >= betweenSteps_.peak)
        betweenSteps_ = std::move(period);
    else if (!hasFinished_ && knowsStart_)
        beforeTraining_ = std::move(period);
    hasFinished_ = true;
}

void OutsideMemory::stepEnds()
{
    const std::lock_guard lock(mutex_);
    if (!std::exchange(isInStep_, false))
        return;
    if (isKept_) {
        now_ = {};
        rowOf_.clear();
    } else {
        notKept_.push_back({mark_.rows, now_.rows.size(), mark_.live + ownPeak_, wasFull_});
        if (!wasFull_)
            mostNotKept_ = std::max(mostNotKept_, ownPeak_);
    }
}

/// Leaves out the blocks of steps in `notKept_` that do not count.
void OutsideMemory::keepWhatStays(Period& period)
{
    const StepTraceBuilder::Outside all = std::move(period.rows);
    std::vector<bool> isLeftOut(all.size(), false);
    for (const NotKept& step : notKept_) {
        if (!step.wasFull && step.peak <= live_)
            continue;
        if (!step.wasFull)
            peakLeftOut_ = std::max(peakLeftOut_, step.peak);
        for (std::size_t row = step.begin; row < step.end; ++row)
            if (all.kind[row] == OutsideKind::free && all.block[row] >= step.begin
                && (step.wasFull || period.withGradients[all.block[row]]))
                isLeftOut[row] = isLeftOut[all.block[row]] = true;
    }
    period.rows = {};
    std::vector<std::uint32_t> newRow(all.size(), 0);
    Bytes live = 0, peak = 0;
    for (std::size_t row = 0; row < all.size(); ++row) {
        if (isLeftOut[row])
            continue;
        newRow[row] = static_cast<std::uint32_t>(period.rows.size());
        const bool isFree = all.kind[row] == OutsideKind::free;
        append(period.rows, all.kind[row], all.bytes[row], all.stream[row], isFree ? newRow[all.block[row]] : 0);
        if (isFree || all.kind[row] == OutsideKind::alloc)
            live += isFree ? -roundedToBlock(all.bytes[row]) : roundedToBlock(all.bytes[row]);
        peak = std::max(peak, live);
    }
    period.peak -= period.keptPeak - peak;
    period.keptPeak = peak;
}

std::vector<std::string> OutsideMemory::remarks() const
{
    const std::lock_guard lock(mutex_);
    std::vector<std::string> sentences;
    for (const Period* period : {&beforeTraining_, &betweenSteps_})
        if (period->peak > period->keptPeak)
            sentences.push_back("the program's memory changed more than " + std::to_string(mostRows) + " times "
                                + (period == &beforeTraining_ ? "before training" : "between two steps")
                                + ", and later changes, with " + formatBytes(period->peak - period->keptPeak)
                                + " more, are left out of the verdict on a card: leave as much of the card free");
    if (peakLeftOut_ > stepPeak_)
        sentences.push_back("the program ran forward passes that are no training step, with up to "
                            + formatBytes(peakLeftOut_) + ", more than the recorded step; the verdict on a card "
                            + "leaves these passes out, as a plan changes the memory of such passes");
    return sentences;
}

Bytes OutsideMemory::mostNotKept() const
{
    const std::lock_guard lock(mutex_);
    return mostNotKept_;
}

bool OutsideMemory::hasRoom() const
{
    return now_.rows.size() < mostRows;
}

void OutsideMemory::add(OutsideKind kind, Bytes bytes, std::uint32_t stream, std::uint32_t row)
{
    append(now_.rows, kind, bytes, stream, row);
    now_.withGradients.push_back(at::GradMode::is_enabled());
}

void OutsideMemory::taken(std::uint64_t number, Bytes requested, std::uint32_t stream)
{
    const std::lock_guard lock(mutex_);
    live_ += roundedToBlock(requested);
    stepPeak_ = std::max(stepPeak_, live_);
    now_.live += roundedToBlock(requested);
    now_.peak = std::max(now_.peak, now_.live);
    rowOf_.emplace(number, hasRoom() ? static_cast<std::uint32_t>(now_.rows.size()) : leftOut);
    if (!hasRoom())
        return;
    add(OutsideKind::alloc, requested, stream, 0);
    now_.keptPeak = now_.peak;
    if (isInStep_ && now_.withGradients.back()) {
        ownLive_ += roundedToBlock(requested);
        ownPeak_ = std::max(ownPeak_, ownLive_);
    }
}

void OutsideMemory::returned(std::uint64_t number, Bytes requested, std::uint32_t stream)
{
    const std::lock_guard lock(mutex_);
    live_ -= roundedToBlock(requested);
    const auto found = rowOf_.find(number);
    if (found == rowOf_.end()) {
        if (requested > 0 && hasRoom())
            add(OutsideKind::freeOlder, requested, stream, 0);
        return;
    }
    now_.live -= roundedToBlock(requested);
    if (found->second != leftOut) { // at most as many as allocations
        if (isInStep_ && found->second >= mark_.rows && now_.withGradients[found->second])
            ownLive_ -= roundedToBlock(requested);
        add(OutsideKind::free, requested, stream, found->second);
    }
    rowOf_.erase(found);
}

void OutsideMemory::refused()
{
    const std::lock_guard lock(mutex_);
    wasFull_ = true;
}

void OutsideMemory::emptied()
{
    const std::lock_guard lock(mutex_);
    if (hasRoom())
        add(OutsideKind::emptyCache, 0, 0, 0);
}

} // namespace headroom
