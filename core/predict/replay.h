// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/regions.h"
#include "core/predict/step_index.h"
#include "core/timeline/timeline.h"

#include <cstdint>
#include <vector>

namespace headroom {

/// The timeline of a step whose regions are checkpointed. Cost: one pass over the events and one over each region.
Timeline replay(const StepTrace& trace, const StepIndex& index, const Regions& plan);

/// The step as it was recorded.
struct RecordedStep
{
    Timeline timeline;
    std::vector<std::uint32_t> events; ///< by change of the timeline: the event that made it
};
RecordedStep replayRecorded(const StepTrace& trace, const StepIndex& index);

/// What the device holds at the boundaries of each region, in the plan's order. The same cost.
std::vector<HeldBytes> replayBoundaries(const StepTrace& trace, const StepIndex& index, const Regions& plan);

} // namespace headroom
