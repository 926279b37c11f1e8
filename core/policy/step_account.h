// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/allocator/replay.h"
#include "core/policy/card.h"
#include "core/timeline/timeline.h"

#include <optional>
#include <string>

namespace headroom {

/// The caching allocator's memory for the step: as the file has it, or replayed under the program's own settings.
struct OwnAllocator
{
    std::string settings;
    std::string leftOut; ///< why the settings are not applied; empty: applied
    AllocatorRules rules;
    CachingAllocator::Stats stats;
    bool activeMeasured = false; ///< the file of a real device has the peak; otherwise the peak is replayed
    bool reservedMeasured = false;
};
OwnAllocator ownAllocator(const StepTrace& trace, const Timeline& timeline);

/// The GPU that the step was recorded for, with the recorded program's settings of the allocator; nullopt: the GPU or a
/// setting is unknown.
std::optional<Card> recordedCard(const StepTrace& trace);

} // namespace headroom
