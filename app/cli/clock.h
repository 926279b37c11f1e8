// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/cli/command.h"
#include "core/plan/plan.h"
#include "core/predict/step_clock.h"

#include <iosfwd>
#include <string>

namespace headroom::cli {

/// Returns how the time axis of a distributed step differs from the clock, as the end of a duration on it; empty: the
/// step is not distributed.
std::string axisNote(const StepTrace& trace);

/// Adds the clock of the step under `plan` as the object "clock". An empty plan means the recorded step. Error: as
/// clockOf().
Status addClock(Json& json, const StepTrace& trace, const CheckpointPlan& plan);

Json clockJson(const StepClock& clock);

/// Returns "272.0 ms: the GPU works 270.2 ms, the CPU issues 1,743 kernels in 63.7 ms; the GPU binds".
std::string clockText(const StepClock& clock);
/// Error: as clockOf().
Result<std::string> clockText(const StepTrace& trace, const CheckpointPlan& plan);

/// Prints what a plan moves to the host; nothing if nothing moves.
void printOffload(const Plan& plan, std::ostream& out);

/// Prints the modules with the most exposed collectives as a table; nothing for a step that is not distributed. Error:
/// as clockOf().
Status printCommunication(const StepTrace& trace, std::ostream& out);

} // namespace headroom::cli
