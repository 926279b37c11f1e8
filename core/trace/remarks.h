// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <cstdint>
#include <string>
#include <vector>

namespace headroom {

/// An op without a kernel on the simulated GPU, which ran on zeros to learn its shapes.
struct FallbackOp
{
    std::string op;
    std::string module;
    std::int64_t count = 0;
};
std::vector<FallbackOp> fallbackOps(const StepTrace& step);

/// Whatever makes the recorded step other than the user's program on the card, one sentence each: what the recorder
/// said, and ops that ran on zeros. Empty: nothing is known to.
std::vector<std::string> remarks(const StepTrace& step);

} // namespace headroom
