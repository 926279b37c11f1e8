// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/timeline.h"
#include "core/trace/memory_event.h"
#include "core/trace/step_trace.h"

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace headroom {

/// The events of a step by storage and by pack, so that a few storages can be replayed without the rest of the step.
/// Built once for a step.
class StorageEvents
{
public:
    explicit StorageEvents(const StepTrace& trace);

    /// Events alloc, free and resize of the storage, and the events of its packs; ascending.
    std::span<const std::uint32_t> of(StorageId storage) const { return byStorage_.of(storage.value); }
    /// Events pack, unpack, unpackEnd and release of the pack; ascending.
    std::span<const std::uint32_t> of(PackId pack) const { return byPack_.of(pack.value); }

private:
    struct Table
    {
        std::vector<std::uint32_t> first;
        std::vector<std::uint32_t> events;
        std::span<const std::uint32_t> of(std::uint32_t id) const
        {
            return std::span(events).subspan(first[id], first[id + 1] - first[id]);
        }
    };
    Table byStorage_;
    Table byPack_;
};

/// The Memory of replays that builds a Timeline. A block is a storage of the trace (the block's number is the storage's
/// id) or a recomputed copy of a storage. A block is alive while some holder exists.
///
/// Time: ops take their ms in sequence; no time passes between ops. An allocation inside an op is at the op's begin; a
/// free inside an op, and every allocation after it in that op, is at the op's end.
class LiveMemory
{
public:
    using Block = std::uint32_t;

    explicit LiveMemory(const StepTrace& trace);

    void hold(Block block) ///< adds a holder; the first makes the block alive
    {
        State& state = blocks_[block];
        if (state.hold())
            change(block, state.bytes);
    }
    void drop(Block block) ///< removes a holder; the block dies with the last
    {
        State& state = blocks_[block];
        if (!state.drop())
            return;
        changeMs_ = opEndMs_;
        change(block, -state.bytes);
    }
    Block addCopy(StorageId original, Bytes bytes); ///< a recomputed activation, without a holder yet

    void place(Block block, std::uint32_t place) { blocks_[block].place = place; } ///< from the next allocation on
    void resize(Block block, Bytes bytes);
    void retype(StorageId storage, Category category);

    void beginOp(OpId op, double ms)
    {
        op_ = op;
        opEndMs_ = now_ + ms;
        timeline_.runs.push_back({now_, op});
    }
    void endOp()
    {
        op_ = {};
        now_ = opEndMs_;
        changeMs_ = now_;
    }
    void addRecomputeMs(double ms) ///< of the op that runs
    {
        timeline_.recomputeMs += ms;
        timeline_.runs.back().again = true;
    }

    // Copies of moved storages.
    void copyOut(std::uint32_t moved, std::uint32_t region, Bytes bytes);
    void waitOut(std::uint32_t, std::uint32_t) {}
    void copyIn(std::uint32_t, std::uint32_t, Bytes) {}
    void waitIn(std::uint32_t, std::uint32_t) {}
    void endCopy(std::uint32_t moved, Bytes bytes);
    void endCall(std::uint32_t) {}
    void beginBackward(std::uint32_t) {}

    void mark(Mark mark); ///< changes count from Mark::stepBegin on

    std::size_t changeCount() const { return timeline_.changes.size(); }
    Bytes live() const { return total_; }

    /// Returns the timeline. The time after the last mark is in the phase of the step's last op.
    Timeline finish() &&;

private:
    void change(Block block, Bytes delta);
    void countUntilNow();
    void endPhase(Phase phase);

    struct State : HeldBlock
    {
        Category category = Category::other;
        std::uint32_t place = 0; ///< MemoryChange::place
    };
    std::vector<State> blocks_; ///< the storages, then the copies
    std::vector<StorageId> originals_; ///< by copy: the storage that was recomputed
    std::size_t storages_;
    Phase trailing_ = Phase::forward; ///< phase of the time after the last mark

    CategoryBytes live_{};
    Bytes total_ = 0;
    bool began_ = false;

    // Categories at the peak are computed in finish(), since almost every allocation of forward is a new peak. counted_
    // and countedUntil_ are a starting point near the peak.
    CategoryBytes counted_{};
    std::size_t countedUntil_ = 0; ///< number of changes that counted_ includes; never past the peak

    /// Host buffers of a size.
    struct HostBuffers
    {
        std::int64_t used = 0;
        std::int64_t most = 0;
    };
    std::map<Bytes, HostBuffers> hostBuffers_;

    double now_ = 0; ///< end of the last op
    double changeMs_ = 0; ///< time of a change that happens now
    double opEndMs_ = 0;
    double phaseBeginMs_ = 0;
    OpId op_;
    Timeline timeline_;
};

} // namespace headroom
