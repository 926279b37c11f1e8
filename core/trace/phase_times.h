// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <span>

namespace headroom {

/// Sum of the times of a step's forward and backward ops, in ms, ops outside of modules included; without the
/// optimizer's.
double forwardBackwardMs(const StepTrace& trace);
/// The same sum over other times of its ops: `ms` has one value for each op of the step.
double forwardBackwardMs(const StepTrace& trace, std::span<const double> ms);

/// The part of forwardBackwardMs() spent on ops that ran a second time (opRecomputed): the cost of the program's own
/// checkpoints, or of the policy that the step was recorded with.
double recomputedMs(const StepTrace& trace);

} // namespace headroom
