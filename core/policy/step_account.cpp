// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/step_account.h"

#include "core/cost/device_specs.h"

#include <algorithm>

namespace headroom {
namespace {

/// Takes the peaks that the file of a real device has in place of the replay's peaks.
void takeMeasured(const StepTrace& trace, OwnAllocator& own)
{
    Bytes reserved = 0;
    for (const Bytes bytes : trace.reserved.bytes)
        reserved = std::max(reserved, bytes);
    if (const auto& step = trace.info.measured) {
        reserved = std::max(reserved, step->reservedPeak);
        if (step->activePeak > 0) {
            own.stats.activePeak = step->activePeak;
            own.activeMeasured = true;
        }
        if (step->allocatedPeak > 0)
            own.stats.allocatedPeak = step->allocatedPeak;
    }
    if (reserved > 0) {
        own.stats.reservedPeak = reserved;
        own.reservedMeasured = true;
    }
}

} // namespace

OwnAllocator ownAllocator(const StepTrace& trace, const Timeline& timeline)
{
    OwnAllocator own;
    own.settings = recordedAllocatorSettings(trace.info);
    if (const Result<AllocatorRules> rules = withAllocatorSettings({}, own.settings))
        own.rules = *rules;
    else
        own.leftOut = rules.error().message;
    own.stats = simulateAllocator(trace, timeline, own.rules).stats;
    if (!trace.info.simulated)
        takeMeasured(trace, own);
    return own;
}

std::optional<Card> recordedCard(const StepTrace& trace)
{
    const Result<DeviceSpec> gpu = findDeviceSpec(trace.info.gpu);
    const Result<Card> card = gpu ? cardFor(*gpu, trace, recordedAllocatorSettings(trace.info)) : gpu.error();
    return card ? std::optional(*card) : std::nullopt;
}

} // namespace headroom
