// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <string>
#include <vector>

namespace headroom {

/// Live bytes of a step, from its holders: what a storage costs while the program or autograd holds it.
struct Replay
{
    Bytes peak = 0; ///< from stepBegin on
    std::vector<Bytes> atMarks; ///< in order, stepBegin first
    Bytes end = 0;
};
Replay replay(const StepTrace& trace);

/// One line an event, for expectations by hand: "alloc 3 activation 512", "op aten.mm.default in Net.fc", "pack 0 of
/// 3".
std::vector<std::string> listing(const StepTrace& trace);

} // namespace headroom
