// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <string_view>
#include <vector>

namespace headroom {

/// The name of a module without the root's, which is its class: "layers.0.attention"; empty for the root.
std::string_view belowRoot(std::string_view fqn);

/// "aten.add.Tensor" → "aten.add": a profiler's trace names no overloads.
std::string_view withoutOverload(std::string_view op);

/// Does the second step have a module of the first one, besides the root?
bool sharesModules(const StepTrace& first, const StepTrace& second);

/// Which ops of two recordings of one step are the same ones: same op, module and phase, in the same order. As few as
/// possible stay alone. Of a profiler's trace an op has no overload, and modules count only where it names those of the
/// first step.
struct OpPairs
{
    std::vector<OpId> second; ///< by OpId of the first step; invalid: it has no counterpart
    std::size_t count = 0;
};
OpPairs pairOps(const StepTrace& first, const StepTrace& second);

} // namespace headroom
