// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/step_planner.h"
#include "core/policy/step_solver.h"

#include <stop_token>
#include <vector>

namespace headroom {

/// The frontier of memory and time, by ascending peak. Solves `points` budgets spread evenly, those far apart first,
/// then budgets just below the points found, until all break points are known or `points` are found. A stop request
/// ends it early with the points so far. Calls `grown` with intermediate frontiers.
Result<std::vector<FrontierPoint>> breakPoints(const StepSolver& options, const PlanRequest& request, int points,
                                               const std::stop_token& stop, const FrontierWatch& grown = {});

} // namespace headroom
