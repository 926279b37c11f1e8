// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/allocator/first_step.h"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

namespace headroom {
namespace {

/// Bytes that are alive at the end of the step, by storage; 0 or less: the storage is dead.
std::vector<Bytes> bytesAtEnd(const StepTrace& trace, const Timeline& timeline, const std::set<StorageId>& start)
{
    std::vector<Bytes> bytes(trace.storages.size());
    for (const StorageId storage : start)
        bytes[storage.value] = trace.storages.bytes[storage];
    for (const MemoryChange& change : timeline.changes)
        if (!change.recomputed)
            bytes[change.storage.value] += change.delta;
    return bytes;
}

/// Returns the first op that reads or writes each storage; invalid: no op does.
std::vector<OpId> firstUses(const StepTrace& trace)
{
    std::vector<OpId> uses(trace.storages.size());
    for (std::uint32_t i = 0; i < trace.ops.size(); ++i)
        for (const StorageId input : trace.ops.inputs[OpId(i)])
            if (!uses[input.value])
                uses[input.value] = OpId(i);
    return uses;
}

/// Returns the storages of `start` that no op uses, that die in the step, and that have a successor: a new storage of
/// the same size lives at the end of the step. A storage without a successor is made between two steps, as a batch is.
/// A storage that an op uses exists in the first step too, as a batch that the step replaces by the next batch.
std::set<StorageId> leftovers(const StepTrace& trace, const std::vector<Bytes>& atEnd, const std::set<StorageId>& start,
                              const std::vector<OpId>& uses)
{
    std::unordered_map<Bytes, int> successors; // number by bytes
    for (std::uint32_t i = 0; i < atEnd.size(); ++i)
        if (atEnd[i] > 0 && !start.contains(StorageId(i)))
            ++successors[atEnd[i]];
    std::set<StorageId> replaced;
    for (const StorageId storage : start) {
        const auto successor = successors.find(trace.storages.bytes[storage]);
        if (uses[storage.value] || atEnd[storage.value] > 0 || successor == successors.end() || successor->second == 0)
            continue;
        replaced.insert(storage);
        --successor->second;
    }
    return replaced;
}

/// Returns for each op of the optimizer the first op of the same optimizer step.
std::vector<OpId> beginsOfOptimizerSteps(const StepTrace& trace)
{
    std::vector<OpId> begins(trace.ops.size());
    for (std::uint32_t i = 0; i < begins.size(); ++i)
        if (trace.ops.phase[OpId(i)] == Phase::optimizer)
            begins[i] = i > 0 && begins[i - 1] ? begins[i - 1] : OpId(i);
    return begins;
}

/// Returns when an op begins on the timeline's axis; infinite: the timeline has no runs of ops. The span of the
/// optimizer's phase begins earlier, with ops between backward and the optimizer, such as those of clip_grad_norm_.
double beginMs(const Timeline& timeline, OpId op)
{
    for (const OpRun& run : timeline.runs)
        if (run.op == op)
            return run.beginMs;
    return std::numeric_limits<double>::infinity();
}

} // namespace

FirstStep firstStep(const StepTrace& trace, const Timeline& timeline, const std::set<StorageId>& start)
{
    FirstStep first;
    std::vector<StorageId> later;
    const std::vector<Bytes> atEnd = bytesAtEnd(trace, timeline, start);
    const std::vector<OpId> uses = firstUses(trace);
    const std::set<StorageId> replaced = leftovers(trace, atEnd, start, uses);
    std::vector<Category> categories(trace.storages.size());
    for (const LiveBlock& block : liveBlocks(trace, timeline, 0))
        categories[block.storage.value] = block.category;
    for (const StorageId storage : start) {
        const Category category = categories[storage.value];
        const bool isOfTraining = category == Category::optimizer || category == Category::gradient;
        if (isOfTraining && atEnd[storage.value] > 0)
            later.push_back(storage);
        else if (!isOfTraining && !replaced.contains(storage))
            first.present.insert(storage);
    }
    const std::vector<OpId> begins = beginsOfOptimizerSteps(trace);
    std::map<OpId, double> known; // when optimizer steps begin
    for (const StorageId storage : later) {
        const OpId use = uses[storage.value];
        if (!use) {
            first.present.insert(storage);
            continue;
        }
        const OpId begin = begins[use.value];
        if (!begin) {
            first.made.push_back({use, storage, std::numeric_limits<double>::infinity()});
            continue;
        }
        const auto [ms, isNew] = known.try_emplace(begin);
        if (isNew)
            ms->second = beginMs(timeline, begin);
        first.made.push_back({begin, storage, ms->second});
    }
    std::ranges::sort(first.made, {}, [](const FirstStep::Made& made) { return std::pair(made.op, made.storage); });
    return first;
}

} // namespace headroom
