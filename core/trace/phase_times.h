// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <span>

namespace headroom {

/// Time of a step's forward and backward, whatever modules its ops belong to; the optimizer is no part of it.
double forwardBackwardMs(const StepTrace& trace);
/// The same sum over other times of its ops: `ms` has one value for each op of the step.
double forwardBackwardMs(const StepTrace& trace, std::span<const double> ms);

/// The part of it in which ops ran a second time: what checkpoints of the program, or a policy it ran under, cost.
double recomputedMs(const StepTrace& trace);

} // namespace headroom
