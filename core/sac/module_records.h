// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <cstdint>
#include <vector>

namespace headroom {

/// A time as whole femtoseconds: sums are exact, whatever was summed before. In 64 bits two and a half hours would
/// overflow.
__extension__ using Femtoseconds = __int128;

/// What one pass over a step finds out about one module: MemTracker's snapshots and RuntimeEstimator's sums.
struct ModuleRecord
{
    /// The last forward call, not counting those that run again in backward.
    struct Call
    {
        CallId id; ///< invalid: the module did not run
        std::uint32_t firstOp = 0, endOp = 0;
        std::uint32_t exitEvent = 0; ///< 0: it never ended
    };
    Call call;
    Bytes inputBytes = 0;
    Bytes outputBytes = 0;
    Bytes preForwardActivation = 0; ///< alive when the call begins (PRE_FW)
    Bytes postForwardActivation = 0; ///< alive when the call ends (POST_FW)

    bool backward = false; ///< its backward ran: the following are of the last time that it began
    Bytes preBackwardGradient = 0; ///< PRE_BW
    Bytes preBackwardTemporary = 0;
    Bytes peakActivation = 0; ///< PEAK_BW: when most was alive on the device during the module's backward
    Bytes peakTemporary = 0;

    Femtoseconds forwardTime = 0;
    Femtoseconds backwardTime = 0;
};

struct ModuleRecords
{
    std::vector<ModuleRecord> modules; ///< by ModuleId
    std::vector<ModuleId> fwPreOrder, fwPostOrder, bwPreOrder, bwPostOrder;
    std::vector<Bytes> opMemory; ///< by op: bytes of its results' storages, each once, when the op has ended
    std::vector<std::uint32_t> firstPack; ///< by storage: event with which autograd first saves it, or `never`

    static constexpr std::uint32_t never = static_cast<std::uint32_t>(-1);
};

/// One pass over the events. A module is active while its forward runs, and from the gradient of a result until those
/// of its arguments (ModTracker.parents); all that happens meanwhile is its.
ModuleRecords recordModules(const StepTrace& trace);

} // namespace headroom
