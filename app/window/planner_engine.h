// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/step_engine.h"

namespace headroom {

/// The engine of the program: StepPlanner, where a plan can be made.
Result<StepEnginePtr> makePlannerEngine(StepTracePtr trace);

} // namespace headroom
