// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/step_engine.h"

#include <string>

namespace headroom {

/// Why the step can be looked at only, for the end of a sentence; empty: it can be planned.
std::string whyNoPlan(const StepTrace& trace);

/// The engine of the program: StepPlanner, where a plan can be made.
Result<StepEnginePtr> makePlannerEngine(StepTracePtr trace);

} // namespace headroom
