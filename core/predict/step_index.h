// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/obstacles.h"
#include "core/trace/step_trace.h"

#include <cstdint>
#include <vector>

namespace headroom {

/// An index over the events of a step that predictions of all plans share. Ids of packs and ops ascend with the events,
/// so that the packs and the ops of a call are ranges of ids.
struct StepIndex
{
    explicit StepIndex(const StepTrace& trace);

    static constexpr std::uint32_t never = static_cast<std::uint32_t>(-1);

    struct Call
    {
        std::uint32_t enter = 0; ///< event
        std::uint32_t exit = 0; ///< event; the number of events if an interrupted step never left the call
        std::uint32_t firstPack = 0, endPack = 0;
        std::uint32_t firstOp = 0, endOp = 0;

        /// Whether the call saves a tensor for backward. If not, as in a teacher without gradients, checkpointing it
        /// has no effect.
        bool saves() const { return firstPack < endPack; }
    };
    std::vector<Call> calls;
    std::vector<std::vector<CallId>> callsOf; ///< by module
    std::vector<std::uint32_t> packEvent; ///< by pack
    std::vector<std::uint32_t> releaseEvent; ///< by pack; `never` if it is alive at the end of the step
    std::vector<OpId> allocatedIn; ///< by storage: the op during which it was allocated; invalid between ops
    std::vector<bool> mutated; ///< by storage: written by a later op than the one that allocated it

    std::vector<OpId> casts; ///< by storage: the op with opAutocastCast that made it; empty if the step has none
    StringId castName; ///< op name of the casts
    std::vector<std::uint32_t> pass; ///< by pack: number of the backward pass that unpacks it; `never`, or `several`
    static constexpr std::uint32_t several = never - 1;

    /// Whether more than one backward pass unpacks tensors of the call.
    bool isInSeveralPasses(const Call& call) const;

    std::vector<CheckpointObstacle> obstacles; ///< by module
    CheckpointObstacle obstacleOfStep = CheckpointObstacle::none; ///< of every module, and of ops outside of modules

    /// Events that memory depends on under some plan, ascending. Left out are exit, backwardEnter and backwardExit, and
    /// the packs of tensors that are not on the device or that the program holds for the whole step.
    std::vector<std::uint32_t> memoryEvents;

private:
    void noteOp(const StepTrace& trace, OpId op);
    void notePass(PackId pack, std::uint32_t asks);
    void findMemoryEvents(const StepTrace& trace, const std::vector<bool>& permanent);
};

} // namespace headroom
