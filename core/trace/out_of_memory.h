// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <string>
#include <vector>

namespace headroom {

/// The program of a step or a snapshot asked for memory that the device did not have.
struct OutOfMemory
{
    double ms = 0; ///< on the step's time axis
    OpId op; ///< that stands for it in the step, by the name "out of memory"
    Bytes requested = 0;
    Bytes deviceFree = 0; ///< what the device still had
    Bytes reserved = 0; ///< what the allocator had reserved then
    Bytes active = 0; ///< of it, in blocks in use
};

/// All that a step holds, in order.
std::vector<OutOfMemory> outOfMemoryEvents(const StepTrace& step);

/// Why there was no room, one sentence.
std::string whyOutOfMemory(const OutOfMemory& event);

} // namespace headroom
