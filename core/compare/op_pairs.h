// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <string_view>
#include <vector>

namespace headroom {

/// Returns a module's name without the class name of the root: "layers.0.attention"; empty for the root.
std::string_view belowRoot(std::string_view fqn);

/// Returns whether the steps have a module of the same name, besides the root.
bool sharesModules(const StepTrace& first, const StepTrace& second);

/// The pairs of ops of two recordings of one step: as many as possible with the same op, module and phase, in the same
/// order. If the second is a profiler's trace, overloads are ignored; modules are ignored if it has none of the
/// first's.
struct OpPairs
{
    std::vector<OpId> second; ///< by OpId of the first step; invalid: the op has no counterpart
    std::size_t count = 0;
};
OpPairs pairOps(const StepTrace& first, const StepTrace& second);

} // namespace headroom
