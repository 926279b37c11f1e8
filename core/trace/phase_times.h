// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <span>

namespace headroom {

/// Returns the sum of the times of a step's forward and backward ops in ms, with ops outside of modules.
double forwardBackwardMs(const StepTrace& trace);
/// Returns the same sum of other times: `ms` has one value for each op of the step.
double forwardBackwardMs(const StepTrace& trace, std::span<const double> ms);

/// Returns the part of forwardBackwardMs() that ops with opRecomputed took: the cost of the program's own checkpoints,
/// or of the policy that the step was recorded with.
double recomputedMs(const StepTrace& trace);

} // namespace headroom
