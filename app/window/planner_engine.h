// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/step_engine.h"

namespace headroom {

/// The engine of the program: StepPlanner.
Result<StepEnginePtr> makePlannerEngine(StepTracePtr trace);

} // namespace headroom
