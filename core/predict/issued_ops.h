// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/step_clock.h"

#include <span>

namespace headroom {

struct IssuedOp
{
    OpId op;
    bool again = false; ///< in a recomputation that the plan adds
};

/// The clock of a step's ops in the order that a plan of single ops gives them.
StepClock clockOfOps(const StepTrace& trace, std::span<const IssuedOp> ops);

} // namespace headroom
