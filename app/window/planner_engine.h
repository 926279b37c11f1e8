// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/step_engine.h"

namespace headroom {

/// Makes the program's StepEngine: it calls StepPlanner, or only shows a step that is not plannable().
Result<StepEnginePtr> makePlannerEngine(StepTracePtr trace);

} // namespace headroom
