// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/record/verify_text.h"

#include "core/base/bytes.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <iostream>

namespace headroom {

nlohmann::json gradientsJson(const GradientComparison* compared, const std::string& whyNot)
{
    if (!compared)
        return {{"compared", false}, {"reason", whyNot}};
    return {{"compared", true},
            {"parameters", compared->parameters},
            {"largest_difference", compared->largestDifference},
            {"parameter", compared->parameter},
            {"unrepeatable", compared->unrepeatable}};
}

std::string timelineText(const LevelComparison& memory)
{
    if (memory.timelinesAgree())
        return "equal to the byte after each of " + groupedDigits(static_cast<Bytes>(memory.allocations))
            + " allocations\n";
    return std::to_string(memory.unequalAllocations) + " of " + std::to_string(memory.allocations)
        + " allocations differ, by " + exactBytes(memory.largestDifference) + " at most\n";
}

std::string withoutCpu(Bytes peak, double flops, bool wanted)
{
    // A CPU computes a step up to this size in some seconds.
    constexpr Bytes mostBytes = 4 * GiB;
    constexpr double mostFlops = 2e12;
    if (peak <= mostBytes && flops <= mostFlops)
        return {};
    const std::string much = "the step takes " + formatBytes(peak) + " and " + std::to_string(std::llround(flops / 1e9))
        + " GFLOP, which is much for the CPU";
    if (!wanted)
        return much + "; --device cpu compares them all the same";
    std::cerr << "note: " << much << ": it runs several times, which takes minutes\n";
    return {};
}

} // namespace headroom
