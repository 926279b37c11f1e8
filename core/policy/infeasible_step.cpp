// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/infeasible_step.h"

#include <algorithm>
#include <map>

namespace headroom {

namespace {

Bytes bytesOf(const Timeline& timeline, Category category)
{
    return timeline.atPeak[static_cast<std::size_t>(category)];
}

/// "optimizer state 1.00 GiB, activation 512 MiB": the largest three categories.
std::string largestParts(const Timeline& timeline)
{
    std::vector<std::pair<Bytes, std::size_t>> parts;
    for (std::size_t category = 0; category < categoryCount; ++category)
        if (timeline.atPeak[category] > 0)
            parts.emplace_back(timeline.atPeak[category], category);
    std::ranges::sort(parts, std::greater<>());
    std::string text;
    for (std::size_t i = 0; i < std::min<std::size_t>(parts.size(), 3); ++i)
        text += (i == 0 ? "" : ", ") + std::string(categoryName(static_cast<Category>(parts[i].second))) + " "
            + formatBytes(parts[i].first);
    return text;
}

/// "; most activations are of Net.output (512 MiB) and Net.layers.0 (96 MiB)": the modules that made them.
std::string largestModules(const StepTrace& trace, const Timeline& timeline)
{
    const std::size_t count = timeline.peakChange == Timeline::npos ? 0 : timeline.peakChange + 1;
    std::map<ModuleId, Bytes> byModule;
    for (const LiveBlock& block : liveBlocks(trace, timeline, count))
        if (block.category == Category::activation && block.creator.valid())
            byModule[trace.ops.module[block.creator]] += block.bytes;
    std::vector<std::pair<Bytes, ModuleId>> largest;
    for (const auto& [module, bytes] : byModule)
        largest.emplace_back(bytes, module);
    std::ranges::sort(largest, std::greater<>());
    std::string text;
    for (std::size_t i = 0; i < std::min<std::size_t>(largest.size(), 2); ++i)
        text += (i == 0 ? "; most activations alive then are of " : " and ")
            + std::string(trace.moduleFqn(largest[i].second)) + " (" + formatBytes(largest[i].first) + ")";
    return text;
}

/// Whether graphs of torch.compile ran: their partitioner decides what they keep.
bool isCompiled(const StepInfo& info)
{
    return std::ranges::any_of(info.settings, [](const auto& setting) { return setting.first == "compiled graphs"; });
}

/// Bytes of temporary memory at the peak that an earlier backward pass or step left: gradients that are not reduced
/// yet.
Bytes waitingGradients(const StepTrace& trace, const Timeline& timeline)
{
    std::vector<bool> alive(trace.storages.size(), false);
    std::vector<bool> waits(trace.storages.size(), false);
    for (std::uint32_t event = 0; event < trace.events.size(); ++event) {
        const EventKind kind = trace.events.kind[EventIndex(event)];
        const std::uint32_t a = trace.events.a[EventIndex(event)];
        if (kind == EventKind::alloc || kind == EventKind::free)
            alive[a] = kind == EventKind::alloc;
        else if (kind == EventKind::mark
                 && (a == static_cast<std::uint32_t>(Mark::stepBegin)
                     || a == static_cast<std::uint32_t>(Mark::backwardEnd)))
            for (std::size_t storage = 0; storage < alive.size(); ++storage)
                waits[storage] = waits[storage] || alive[storage];
    }
    const std::size_t count = timeline.peakChange == Timeline::npos ? 0 : timeline.peakChange + 1;
    Bytes bytes = 0;
    for (const LiveBlock& block : liveBlocks(trace, timeline, count))
        if (block.category == Category::temporary && waits[block.storage.value])
            bytes += block.bytes;
    return bytes;
}

std::string whatWouldHelp(const StepTrace& trace, const Plan& plan, const Timeline& least, Bytes leastWithoutWishes)
{
    if (leastWithoutWishes > 0 && leastWithoutWishes <= plan.budget)
        return "without pins and AC units plans exist from " + formatBytes(leastWithoutWishes) + " on";
    if (isCompiled(trace.info))
        return "what runs inside of a graph of torch.compile is for PyTorch's partitioner to recompute, as `python -m "
               "torch_headroom.record --activation-memory-budget 0.25,0.5,0.75` with the script shows: a step and a "
               "peak for each fraction";
    const Bytes gradients = bytesOf(least, Category::gradient); // a rank's own are at most of its parameters' size
    const bool areWhole = trace.info.distributed && gradients > 2 * bytesOf(least, Category::parameter);
    const Bytes whole
        = bytesOf(least, Category::unshardedGradient) + waitingGradients(trace, least) + (areWhole ? gradients : 0);
    if (whole > least.peak / 2)
        return "most of it is gradients of whole parameters, which wait until they are reduced over the ranks "
               "(no_sync, "
               "set_requires_gradient_sync(False)): reduce them in each backward";
    const Bytes sharded = bytesOf(least, Category::parameter) + bytesOf(least, Category::gradient)
        + bytesOf(least, Category::optimizer);
    if (sharded > least.peak / 2)
        return "most of it is state of the model, which a larger world size shards, and an optimizer with less state "
               "or parameters in a smaller dtype shrink";
    return "a smaller batch or a shorter sequence would lower it";
}

} // namespace

std::string whyStepDoesNotFit(const StepTrace& trace, const Plan& plan, const Timeline& least, Bytes leastWithoutWishes)
{
    std::string where;
    if (!plan.binding.module.empty())
        where = " in " + plan.binding.module;
    if (!plan.binding.phase.empty())
        where += " (" + plan.binding.phase + ")";
    return "No plan fits " + formatBytes(plan.budget) + ": with all recomputed that may be, the step still takes "
        + formatBytes(least.peak) + " (" + groupedDigits(least.peak) + " B)" + where + ", of which "
        + largestParts(least) + largestModules(trace, least) + "; "
        + whatWouldHelp(trace, plan, least, leastWithoutWishes) + ".";
}

} // namespace headroom
