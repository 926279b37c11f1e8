// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/step_options.h"
#include "core/policy/step_planner.h"

#include <stop_token>
#include <vector>

namespace headroom {

/// The frontier of memory and time, peak ascending: first at `points` budgets spread evenly, then, where room is left,
/// right below the points found, until every break point is there. Ends early, with what it has, when asked to stop.
/// Budgets far apart come first, so that `grown` soon has a curve from end to end.
Result<std::vector<FrontierPoint>> breakPoints(const StepOptions& options, int points, const std::stop_token& stop,
                                               const FrontierWatch& grown = {});

} // namespace headroom
