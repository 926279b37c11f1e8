// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/joint/joint_graph.h"
#include "core/joint/ops_plan.h"
#include "core/predict/step_clock.h"

namespace headroom {

/// Returns the step's clock under a plan of single ops; meaningful only if hasClock() is true.
StepClock clockOf(const JointGraph& graph, const OpsPlan& plan);

} // namespace headroom
