// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/step_clock.h"

#include <span>

namespace headroom {

struct IssuedOp
{
    OpId op;
    bool again = false; ///< the op runs in a recomputation that the plan adds
};

/// The clock of a step whose ops are issued in the order `ops`, as a plan by op makes it.
StepClock clockOfOps(const StepTrace& trace, std::span<const IssuedOp> ops);

} // namespace headroom
