// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <cstdint>
#include <string>
#include <vector>

namespace headroom {

/// An op without a kernel on the simulated GPU. It ran on zeros on the CPU to determine the shapes of its results.
struct FallbackOp
{
    std::string op;
    std::string module;
    std::int64_t count = 0;
};
std::vector<FallbackOp> fallbackOps(const StepTrace& step);

/// Activations that the program holds beyond the step's end (a loss that is summed up holds its graph).
struct KeptActivations
{
    Bytes earlier = 0; ///< of earlier steps, when this step ends
    Bytes more = 0; ///< by which the step leaves more than it found
};
KeptActivations keptActivations(const StepTrace& step);

/// Returns one sentence for each known difference between the recorded step and the user's program on a real GPU: the
/// recorder's remarks, the fallback ops, and whether each step takes more than the one before.
std::vector<std::string> remarks(const StepTrace& step);

} // namespace headroom
