// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/joint/ops_schedule.h"
#include "core/predict/module_memory.h"
#include "core/timeline/timeline.h"

#include <cstdint>
#include <vector>

namespace headroom {

/// Where the ops of a step are in its list of events.
struct OpEvents
{
    explicit OpEvents(const StepTrace& trace);
    std::vector<std::uint32_t> begin, end; ///< by op
};

/// The step's timeline under a schedule, by the rules of OpsPlan. Cost: one pass over the events and one over those of
/// each op that runs again.
Timeline replayOps(const JointGraph& graph, const OpEvents& events, const OpsSchedule& schedule);

/// The same replay, counted by module.
ModuleTally tallyOps(const JointGraph& graph, const OpEvents& events, const OpsSchedule& schedule);

} // namespace headroom
