// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/fit/fit.h"
#include "core/plan/plan.h"
#include "core/policy/step_planner.h"
#include "core/sac/module_info.h"
#include "core/timeline/timeline.h"
#include "views/plot/tradeoff_curve.h"

#include <vector>

namespace headroom {

/// A training step that exists only as numbers: a transformer of 96 blocks whose recorded step peaks near 70 GiB, and
/// plans for it. For tests and pictures of views, which need timelines and plans but no planner.
struct MadeUpStep
{
    int blocks = 96;
    int tensorsPerBlock = 12; ///< more of them: more changes
    double scale = 1; ///< of all bytes: 1e-3 for a model in the MiB range
};

/// The step when each block discards `discarded` of its activations (0: the recorded step) and recomputes them.
TimelinePtr madeUpTimeline(const MadeUpStep& step, double discarded);

ModuleInfoPtr madeUpModules(const MadeUpStep& step);

/// A plan in which the blocks discard about `discarded`.
Plan madeUpPlan(const MadeUpStep& step, double discarded);

/// What that plan does, as PyTorch estimates it.
PlannedPoint madeUpPoints(const ModuleInfoPtr& modules, const Plan& plan);

/// Least feasible budget to no checkpointing.
std::vector<FrontierPoint> madeUpFrontier(const MadeUpStep& step, int points = 40);

/// What fits on an RTX 4090 and, with smaller batches, on an RTX 3090: batches that run, that run with a plan, that run
/// out of memory; on the second card one fails. Rows have no steps.
FitResult madeUpFit();

} // namespace headroom
