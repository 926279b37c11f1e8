// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/timeline.h"
#include "core/trace/memory_event.h"

#include <cstdint>
#include <vector>

namespace headroom {

/// The blocks of a step while it is replayed, each alive as long as someone holds it, and the Timeline that their
/// changes make. A block is a storage of the trace (its number is the storage's id) or a recomputed copy of one.
///
/// Time: ops take their own ms, one after the other; between ops no time passes. What an op allocates is there when the
/// op begins; what dies inside an op is there until it ends, and so is all that the op allocates after that.
class LiveMemory
{
public:
    using Block = std::uint32_t;

    explicit LiveMemory(const StepTrace& trace);

    void hold(Block block) ///< the first holder makes it alive
    {
        State& state = blocks_[block];
        if (state.hold())
            change(block, state.bytes);
    }
    void drop(Block block) ///< with the last holder it dies
    {
        State& state = blocks_[block];
        if (!state.drop())
            return;
        changeMs_ = opEndMs_;
        change(block, -state.bytes);
    }
    Block addCopy(StorageId original, Bytes bytes); ///< recomputed: an activation, not held yet

    void resize(Block block, Bytes bytes);
    void retype(StorageId storage, Category category);

    void beginOp(OpId op, double ms)
    {
        op_ = op;
        opEndMs_ = now_ + ms;
    }
    void endOp()
    {
        op_ = {};
        now_ = opEndMs_;
        changeMs_ = now_;
    }
    void addRecomputeMs(double ms) { timeline_.recomputeMs += ms; }

    void mark(Mark mark); ///< changes count from Mark::stepBegin on

    std::size_t changeCount() const { return timeline_.changes.size(); }
    Bytes live() const { return total_; }

    /// `trailing` is the phase of what came after the last mark.
    Timeline finish(Phase trailing) &&;

private:
    void change(Block block, Bytes delta);
    void countUntilNow();
    void endPhase(Phase phase);

    struct State : HeldBlock
    {
        Category category = Category::other;
    };
    std::vector<State> blocks_; ///< the storages, then the copies
    std::vector<StorageId> originals_; ///< of the copies
    std::size_t storages_;

    CategoryBytes live_{};
    Bytes total_ = 0;
    bool began_ = false;

    // Categories at the peak are known at the end: a new peak comes with almost every allocation of forward.
    CategoryBytes counted_{};
    std::size_t countedUntil_ = 0; ///< number of changes in it; never past the peak

    double now_ = 0; ///< end of the last op
    double changeMs_ = 0; ///< when a change happens that happens now
    double opEndMs_ = 0;
    double phaseBeginMs_ = 0;
    OpId op_;
    Timeline timeline_;
};

} // namespace headroom
