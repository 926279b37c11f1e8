// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <cstdint>
#include <string>
#include <vector>

namespace headroom {

/// An op without a kernel on the simulated GPU: it ran on zeros on the CPU to learn its output shapes.
struct FallbackOp
{
    std::string op;
    std::string module;
    std::int64_t count = 0;
};
std::vector<FallbackOp> fallbackOps(const StepTrace& step);

/// One sentence for each known difference between the recorded step and the user's program on the real GPU: the
/// recorder's remarks, then the fallback ops. Empty: none is known.
std::vector<std::string> remarks(const StepTrace& step);

} // namespace headroom
