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

        /// Whether the call saves a tensor for backward. If not, as in a teacher without gradients, checkpointing the
        /// call has no effect.
        bool saves() const { return firstPack < endPack; }
    };
    std::vector<Call> calls;
    std::vector<std::vector<CallId>> callsOf; ///< by module
    std::vector<std::uint32_t> packEvent; ///< by pack
    std::vector<std::uint32_t> unpackEvent; ///< by pack: the first unpack; `never` if the pack is not unpacked
    std::vector<std::uint32_t> releaseEvent; ///< by pack; `never` if the pack is alive at the end of the step
    std::vector<std::uint32_t> freeEvent; ///< by storage: the program's free; `never` if the storage is not freed
    std::vector<PackId> firstPackOf, lastPackOf; ///< by storage; invalid if no pack has the storage
    std::vector<OpId> allocatedIn; ///< by storage: the op of the allocation; invalid between ops
    std::vector<bool> resized; ///< by storage: changes its size
    std::vector<bool> mutated; ///< by storage: written by a later op than the allocating op
    /// By storage: at some time a parameter that FSDP or ZeRO-3 gathers, with equal content in forward and backward.
    std::vector<bool> gathered;
    std::vector<CallId> firstTaker, lastTaker; ///< by storage: calls with the storage as an argument; invalid: none

    std::vector<OpId> casts; ///< by storage: the cast (opAutocastCast) that made the storage; empty: no casts
    StringId castName; ///< op name of the casts
    std::vector<std::uint32_t> pass; ///< by pack: number of the unpacking backward pass; `never`, or `several`
    static constexpr std::uint32_t several = never - 1;

    /// Whether more than one backward pass unpacks tensors of the call.
    bool isInSeveralPasses(const Call& call) const;

    std::vector<CheckpointObstacle> obstacles; ///< by module
    std::vector<CheckpointObstacle> obstaclesToOffload; ///< by module
    CheckpointObstacle obstacleOfStep = CheckpointObstacle::none; ///< of every module, and of ops outside of modules

    /// Events that memory depends on under some plan, ascending. Left out are exit, backwardEnter and backwardExit, and
    /// the packs of tensors that are not on the device or that the program holds for the whole step.
    std::vector<std::uint32_t> memoryEvents;

private:
    void noteOp(const StepTrace& trace, OpId op);
    void notePass(PackId pack, std::uint32_t asks);
    void findMemoryEvents(const StepTrace& trace, const std::vector<bool>& permanent);
};

/// By storage: whether the storage is of a category at any time of the step.
std::vector<bool> everOf(const StepTrace& trace, Category category);

} // namespace headroom
