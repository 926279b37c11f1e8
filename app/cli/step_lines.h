// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/cli/command.h"
#include "core/plan/plan.h"
#include "core/policy/plan_answer.h"
#include "core/predict/step_clock.h"

#include <iosfwd>
#include <span>
#include <string>

/// What several commands print of a step and of a plan.
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

/// Print the first module, and the number of the others. printNotCheckpointable() is for modules that no plan may
/// checkpoint, although that would free memory.
void printNotCheckpointable(std::span<const Obstacle> modules, std::ostream& out);
void printWholeOnly(std::span<const Obstacle> modules, std::ostream& out);

/// Prints the modules with the most exposed collectives as a table; nothing for a step that is not distributed. Error:
/// as clockOf().
Status printCommunication(const StepTrace& trace, std::ostream& out);

} // namespace headroom::cli
