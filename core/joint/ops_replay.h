// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/joint/ops_schedule.h"
#include "core/predict/module_memory.h"
#include "core/timeline/timeline.h"

#include <cstdint>
#include <vector>

namespace headroom {

/// The positions of a step's ops in its list of events.
struct OpEvents
{
    explicit OpEvents(const StepTrace& trace);
    std::vector<std::uint32_t> begin, end; ///< by op
};

/// Replays the step under a schedule, by the rules of OpsPlan, and returns its timeline. Cost: one pass over all
/// events, and one over the events of each op that runs again.
Timeline replayOps(const JointGraph& graph, const OpEvents& events, const OpsSchedule& schedule);

/// Replays the step likewise, and returns the tally by module.
ModuleTally tallyOps(const JointGraph& graph, const OpEvents& events, const OpsSchedule& schedule);

} // namespace headroom
