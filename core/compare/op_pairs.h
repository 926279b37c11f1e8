// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <string_view>
#include <vector>

namespace headroom {

/// The module's name without the root's class name in front: "layers.0.attention"; empty for the root.
std::string_view belowRoot(std::string_view fqn);

/// "aten.add.Tensor" → "aten.add": names in a profiler's trace have no overload.
std::string_view withoutOverload(std::string_view op);

/// Whether the steps have a module of the same name, the root apart.
bool sharesModules(const StepTrace& first, const StepTrace& second);

/// Pairs the ops of two recordings of one step: the same op, module and phase, in the same order, as many as possible.
/// If one is a profiler's trace, overloads are ignored, and so are modules unless it has modules of the first step.
struct OpPairs
{
    std::vector<OpId> second; ///< by OpId of the first step; invalid: the op has no counterpart
    std::size_t count = 0;
};
OpPairs pairOps(const StepTrace& first, const StepTrace& second);

} // namespace headroom
