// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/step_planner.h"

#include <vector>

namespace headroom {

/// The points that no other beats in memory and time, peak ascending; at most `most` of them, the ends among them.
std::vector<FrontierPoint> undominated(std::vector<FrontierPoint> points, int most);

} // namespace headroom
