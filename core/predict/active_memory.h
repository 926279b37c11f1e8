// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/clock_memory.h"
#include "core/predict/live_memory.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace headroom {

/// Whether blocks of the step are used by other streams, at times that are known (Timeline::delayed).
bool delaysFrees(const StepTrace& trace);

/// A LiveMemory that also finds Timeline::delayed: when a block is freed, PyTorch's allocator records an event on each
/// stream that uses the block. At each allocation the allocator asks for the events that have passed.
class ActiveMemory
{
public:
    using Block = LiveMemory::Block;

    explicit ActiveMemory(const StepTrace& trace);

    void hold(Block block);
    void drop(Block block);
    Block addCopy(StorageId original, Bytes bytes) { return live_.addCopy(original, bytes); }
    void place(Block block, std::uint32_t place) { live_.place(block, place); }
    void resize(Block block, Bytes bytes);
    void retype(StorageId storage, Category category) { live_.retype(storage, category); }
    void beginOp(OpId op, double ms)
    {
        clock_.beginOp(op, ms);
        live_.beginOp(op, ms);
    }
    void endOp() { live_.endOp(); }
    void addRecomputeMs(double ms) { live_.addRecomputeMs(ms); }

    void copyOut(std::uint32_t moved, std::uint32_t region, Bytes bytes)
    {
        clock_.copyOut(moved, region, bytes);
        live_.copyOut(moved, region, bytes);
    }
    void waitOut(std::uint32_t moved, std::uint32_t region) { clock_.waitOut(moved, region); }
    void copyIn(std::uint32_t moved, std::uint32_t region, Bytes bytes) { clock_.copyIn(moved, region, bytes); }
    void waitIn(std::uint32_t moved, std::uint32_t region) { clock_.waitIn(moved, region); }
    void endCopy(std::uint32_t moved, Bytes bytes) { live_.endCopy(moved, bytes); }
    void endCall(std::uint32_t region) { clock_.endCall(region); }
    void beginBackward(std::uint32_t region) { clock_.beginBackward(region); }

    void mark(Mark mark);

    void reach(std::uint32_t event) { clock_.reach(event); } ///< before each event of the step
    std::size_t changeCount() const { return live_.changeCount(); }
    Timeline finish() &&;

private:
    void freed(Block block);
    void allocatedSince(std::size_t change);

    struct Pending
    {
        std::size_t change = 0; ///< DelayedFree::change
        double untilMs = 0;
    };

    LiveMemory live_;
    ClockMemory clock_;
    std::vector<Pending> pending_;
    std::vector<DelayedFree> delayed_;
};

} // namespace headroom
