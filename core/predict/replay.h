// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/regions.h"
#include "core/predict/step_index.h"
#include "core/timeline/timeline.h"

#include <cstdint>
#include <vector>

namespace headroom {

struct ReplayedStep
{
    Timeline timeline;
    std::vector<std::uint32_t> events; ///< by change of the timeline: the event that caused the change
};

/// Replays a step with the regions of a plan checkpointed. Time: a pass over the events and a pass over each region.
ReplayedStep replay(const StepTrace& trace, const StepIndex& index, const Regions& plan);

/// Live bytes at the boundaries of each region, in the plan's order; as fast as replay().
std::vector<HeldBytes> replayBoundaries(const StepTrace& trace, const StepIndex& index, const Regions& plan);

} // namespace headroom
