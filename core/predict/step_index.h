// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/obstacles.h"
#include "core/trace/step_trace.h"

#include <cstdint>
#include <vector>

namespace headroom {

/// Where things of a step are in its list of events, found in one pass: what prediction looks up for every plan.
/// Ids of packs and ops rise with the events, so that what happened inside a call is a range of ids.
struct StepIndex
{
    explicit StepIndex(const StepTrace& trace);

    static constexpr std::uint32_t never = static_cast<std::uint32_t>(-1);

    struct Call
    {
        std::uint32_t enter = 0; ///< event
        std::uint32_t exit = 0; ///< event; the end of the step when an interrupted step never left the call
        std::uint32_t firstPack = 0, endPack = 0;
        std::uint32_t firstOp = 0, endOp = 0;

        /// Does it save anything for backward? Else checkpoint() steps aside, as in a teacher without gradients.
        bool saves() const { return firstPack < endPack; }
    };
    std::vector<Call> calls;
    std::vector<std::vector<CallId>> callsOf; ///< by module
    std::vector<std::uint32_t> packEvent; ///< by pack
    std::vector<std::uint32_t> releaseEvent; ///< by pack; `never` when it outlives the step
    std::vector<OpId> allocatedIn; ///< by storage: the op during which it was allocated; invalid between ops
    std::vector<bool> mutated; ///< by storage: changed by an op after the one that allocated it

    std::vector<OpId> casts; ///< by storage: the opAutocastCast that made it; empty when the step has none
    StringId castName; ///< of these ops
    std::vector<std::uint32_t> pass; ///< by pack: number of the backward pass that asks for it; `never`, or `several`
    static constexpr std::uint32_t several = never - 1;

    /// Whether more than one backward pass goes through what the call packed.
    bool isInSeveralPasses(const Call& call) const;

    std::vector<CheckpointObstacle> obstacles; ///< by module
    CheckpointObstacle obstacleOfStep = CheckpointObstacle::none; ///< of what runs in no module, too

    /// Events that memory depends on under some plan, ascending: left out are those of modules' ends and marks in
    /// backward, and what autograd saves that is not on the device or that the program holds for the whole step.
    std::vector<std::uint32_t> memoryEvents;

private:
    void noteOp(const StepTrace& trace, OpId op);
    void notePass(PackId pack, std::uint32_t asks);
    void findMemoryEvents(const StepTrace& trace, const std::vector<bool>& permanent);
};

} // namespace headroom
