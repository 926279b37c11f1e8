// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/memory_levels.h"

#include <algorithm>
#include <cstdlib>

namespace headroom {

namespace {

std::string bytesText(Bytes bytes)
{
    return groupedDigits(bytes) + " bytes";
}

/// Where in the step an allocation of the predicted timeline is.
std::string placeOf(const StepTrace& trace, const MemoryChange& change)
{
    std::string place = change.recomputed ? "recomputed " : "";
    if (!change.op.valid())
        return place + "between two operators";
    const ModuleId module = trace.ops.module[change.op];
    return place + "`" + std::string(trace.opName(change.op)) + "` of `" + std::string(trace.moduleFqn(module))
        + "` in " + std::string(phaseName(trace.ops.phase[change.op]));
}

double msOf(const StepTrace& trace, bool recomputed)
{
    double ms = 0;
    for (std::uint32_t op = 0; op < trace.ops.size(); ++op) {
        const bool again = (trace.ops.flags[OpId(op)] & opRecomputed) != 0;
        const bool inModel = trace.ops.phase[OpId(op)] <= Phase::backward;
        if (inModel && (!recomputed || again))
            ms += trace.ops.ms[OpId(op)];
    }
    return ms;
}

} // namespace

Bytes MemoryLevels::peak() const
{
    Bytes highest = start;
    for (const Allocation& allocation : allocations)
        highest = std::max(highest, allocation.live);
    return highest;
}

MemoryLevels levelsOf(const Timeline& timeline, std::vector<std::size_t>* changes)
{
    MemoryLevels levels;
    levels.start = total(timeline.start);
    Bytes live = levels.start;
    for (std::size_t i = 0; i < timeline.changes.size(); ++i) {
        const MemoryChange& change = timeline.changes[i];
        live += change.delta;
        // A retyped storage leaves one category and enters another: nothing was allocated.
        const MemoryChange* before = i > 0 ? &timeline.changes[i - 1] : nullptr;
        const bool retyped = before && before->delta == -change.delta && before->storage == change.storage
            && before->recomputed == change.recomputed && before->category != change.category;
        if (change.delta <= 0 || retyped)
            continue;
        levels.allocations.push_back({change.delta, live});
        if (changes)
            changes->push_back(i);
    }
    levels.end = live;
    return levels;
}

LevelComparison compareLevels(const StepTrace& trace, const Timeline& predicted, const MemoryLevels& executed)
{
    LevelComparison result;
    std::vector<std::size_t> changes;
    const MemoryLevels expected = levelsOf(predicted, &changes);
    result.allocations = executed.allocations.size();
    result.executedPeak = executed.peak();
    const auto differ = [&](const std::string& sentence, Bytes difference) {
        if (result.firstDifference.empty())
            result.firstDifference = sentence;
        result.largestDifference = std::max(result.largestDifference, Bytes(std::abs(difference)));
    };
    if (executed.start != expected.start)
        differ("the step starts with " + bytesText(executed.start) + ", predicted were " + bytesText(expected.start),
               executed.start - expected.start);
    const std::size_t common = std::min(executed.allocations.size(), expected.allocations.size());
    for (std::size_t i = 0; i < common; ++i) {
        const MemoryLevels::Allocation& is = executed.allocations[i];
        const MemoryLevels::Allocation& should = expected.allocations[i];
        if (is == should)
            continue;
        ++result.unequalAllocations;
        differ("allocation " + std::to_string(i) + " (" + placeOf(trace, predicted.changes[changes[i]]) + ") takes "
                   + bytesText(is.bytes) + " and makes " + bytesText(is.live) + " live, predicted were "
                   + bytesText(should.bytes) + " and " + bytesText(should.live),
               is.live - should.live);
    }
    if (executed.allocations.size() != expected.allocations.size()) {
        result.unequalAllocations += std::max(executed.allocations.size(), expected.allocations.size()) - common;
        differ("the step allocates " + std::to_string(executed.allocations.size()) + " times, predicted were "
                   + std::to_string(expected.allocations.size()),
               executed.end - expected.end);
    }
    if (executed.end != expected.end)
        differ("the step ends with " + bytesText(executed.end) + ", predicted were " + bytesText(expected.end),
               executed.end - expected.end);
    return result;
}

double modelMs(const StepTrace& trace)
{
    return msOf(trace, false);
}

double recomputedMs(const StepTrace& trace)
{
    return msOf(trace, true);
}

} // namespace headroom
