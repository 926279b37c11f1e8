// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <cstdint>
#include <vector>

namespace headroom {

/// A time as an integer, so that sums are exact in any order. In 64 bits two and a half hours would overflow.
__extension__ using Femtoseconds = __int128;

/// Memory and time of one module in a step: MemTracker's snapshots and RuntimeEstimator's sums.
struct ModuleRecord
{
    /// The last forward call, recomputations in backward not counted.
    struct Call
    {
        CallId id; ///< invalid: the module did not run
        std::uint32_t firstOp = 0, endOp = 0;
        std::uint32_t exitEvent = 0; ///< 0: the call never ended
    };
    Call call;
    Bytes inputBytes = 0;
    Bytes outputBytes = 0;
    Bytes preForwardActivation = 0; ///< activations alive when the call begins (PRE_FW)
    Bytes postForwardActivation = 0; ///< activations alive when the call ends (POST_FW)

    bool backward = false; ///< backward ran; the four members below are of the last backward
    Bytes preBackwardGradient = 0; ///< PRE_BW
    Bytes preBackwardTemporary = 0;
    Bytes peakActivation = 0; ///< PEAK_BW: at the peak of the device during the module's backward
    Bytes peakTemporary = 0;

    Femtoseconds forwardTime = 0;
    Femtoseconds backwardTime = 0;
};

struct ModuleRecords
{
    std::vector<ModuleRecord> modules; ///< by ModuleId
    std::vector<ModuleId> fwPreOrder, fwPostOrder, bwPreOrder, bwPostOrder;
    std::vector<Bytes> opMemory; ///< by op: bytes of the results' storages, each once, at the op's end
    std::vector<std::uint32_t> firstPack; ///< by storage: event of the first pack, or `never`

    static constexpr std::uint32_t never = static_cast<std::uint32_t>(-1);
};

/// Computes the records in one pass over the events. As in ModTracker.parents, a module is active while forward
/// runs, and from the gradient of a result until the gradients of the arguments. Everything that happens meanwhile
/// counts for the module.
ModuleRecords recordModules(const StepTrace& trace);

} // namespace headroom
