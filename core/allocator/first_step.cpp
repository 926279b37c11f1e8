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

/// Bytes of storages that are alive at the end of the step.
using LivingBytes = std::map<StorageId, Bytes>;

LivingBytes aliveAtEnd(const StepTrace& trace, const Timeline& timeline, const std::set<StorageId>& start)
{
    LivingBytes bytes;
    for (const StorageId storage : start)
        bytes.emplace(storage, trace.storages.bytes[storage]);
    for (const MemoryChange& change : timeline.changes)
        if (!change.recomputed)
            bytes[change.storage] += change.delta;
    std::erase_if(bytes, [](const auto& entry) { return entry.second <= 0; });
    return bytes;
}

/// Returns the storages of `start` that die in the step and that the step replaces: another one of their size lives at
/// its end. Those without a successor are made between two steps, as the batch is.
std::set<StorageId> leftovers(const StepTrace& trace, const LivingBytes& atEnd, const std::set<StorageId>& start)
{
    std::multiset<Bytes> successors;
    for (const auto& [storage, bytes] : atEnd)
        if (!start.contains(storage))
            successors.insert(bytes);
    std::set<StorageId> replaced;
    for (const StorageId storage : start) {
        const auto successor = successors.find(trace.storages.bytes[storage]);
        if (atEnd.contains(storage) || successor == successors.end())
            continue;
        replaced.insert(storage);
        successors.erase(successor);
    }
    return replaced;
}

/// Returns the first op that reads or writes each of the storages; those that no op uses are missing.
std::unordered_map<StorageId, OpId> firstUses(const StepTrace& trace, const std::set<StorageId>& storages)
{
    std::unordered_map<StorageId, OpId> uses;
    for (std::uint32_t i = 0; i < trace.ops.size() && uses.size() < storages.size(); ++i)
        for (const StorageId input : trace.ops.inputs[OpId(i)])
            if (storages.contains(input))
                uses.emplace(input, OpId(i));
    return uses;
}

/// Returns the first of the ops of one optimizer step, given one of these.
OpId beginOfOptimizerStep(const StepTrace& trace, OpId op)
{
    while (op.value > 0 && trace.ops.phase[OpId(op.value - 1)] == Phase::optimizer)
        --op.value;
    return op;
}

/// Returns when an optimizer's step that begins with `op` begins on the timeline's axis: the n-th run of ops of the
/// optimizer is the n-th span of that phase.
double beginOfOptimizerMs(const StepTrace& trace, const Timeline& timeline, OpId op)
{
    std::size_t runs = 0;
    for (std::uint32_t i = 0; i <= op.value; ++i)
        runs += trace.ops.phase[OpId(i)] == Phase::optimizer
            && (i == 0 || trace.ops.phase[OpId(i - 1)] != Phase::optimizer);
    for (const PhaseSpan& span : timeline.phases)
        if (span.phase == Phase::optimizer && --runs == 0)
            return span.beginMs;
    return std::numeric_limits<double>::infinity();
}

} // namespace

FirstStep firstStep(const StepTrace& trace, const Timeline& timeline, const std::set<StorageId>& start)
{
    FirstStep first;
    std::set<StorageId> later;
    const LivingBytes atEnd = aliveAtEnd(trace, timeline, start);
    const std::set<StorageId> replaced = leftovers(trace, atEnd, start);
    std::unordered_map<StorageId, Category> categories;
    for (const LiveBlock& block : liveBlocks(trace, timeline, 0))
        categories.emplace(block.storage, block.category);
    for (const StorageId storage : start) {
        const Category category = categories.at(storage);
        const bool isOfTraining = category == Category::optimizer || category == Category::gradient;
        if (isOfTraining && atEnd.contains(storage))
            later.insert(storage);
        else if (!isOfTraining && !replaced.contains(storage))
            first.present.insert(storage);
    }
    const std::unordered_map<StorageId, OpId> uses = firstUses(trace, later);
    std::map<OpId, double> begins; // of optimizer steps
    for (const StorageId storage : later) {
        const auto use = uses.find(storage);
        if (use == uses.end()) {
            first.present.insert(storage);
            continue;
        }
        if (trace.ops.phase[use->second] != Phase::optimizer) {
            first.made.push_back({use->second, storage, std::numeric_limits<double>::infinity()});
            continue;
        }
        const OpId begin = beginOfOptimizerStep(trace, use->second);
        const auto known = begins.find(begin);
        const double ms = known != begins.end() ? known->second : beginOfOptimizerMs(trace, timeline, begin);
        begins.emplace(begin, ms);
        first.made.push_back({begin, storage, ms});
    }
    std::ranges::sort(first.made, {}, [](const FirstStep::Made& made) { return std::pair(made.op, made.storage); });
    return first;
}

} // namespace headroom
