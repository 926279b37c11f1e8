// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/allocator/first_step.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>
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

bool isOptimizers(const StepTrace& trace, std::uint32_t op)
{
    return trace.ops.phase[OpId(op)] == Phase::optimizer;
}

/// Whether the op works on a list of tensors. Optimizers with such ops make the state of a parameter group before the
/// group's first op.
bool takesLists(const StepTrace& trace, OpId op)
{
    const std::string_view name = trace.opName(op);
    return name.starts_with("aten._foreach_") || name.starts_with("aten._fused_");
}

/// Returns for each op of the optimizer the first op of the same parameter group. State of an earlier group is older;
/// ids are by age. Ops on single tensors count as a single group for each run of ops.
std::vector<OpId> beginsOfGroups(const StepTrace& trace, const std::vector<bool>& isState)
{
    constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
    const auto count = static_cast<std::uint32_t>(trace.ops.size());
    std::vector<OpId> begins(count);
    std::vector<std::uint32_t> oldest(count, none); // state that the op or a later op of the run uses
    const auto visitState = [&](std::uint32_t op, const auto& visit) {
        for (const StorageId input : trace.ops.inputs[OpId(op)])
            if (isState[input.value])
                visit(input.value);
    };
    for (std::uint32_t i = count; i-- > 0;) {
        if (!isOptimizers(trace, i))
            continue;
        oldest[i] = i + 1 < count ? oldest[i + 1] : none;
        visitState(i, [&](std::uint32_t state) { oldest[i] = std::min(oldest[i], state); });
    }
    std::uint32_t end = 0; // one after the newest state that the group has used; 0: none
    for (std::uint32_t i = 0; i < count; ++i) {
        if (!isOptimizers(trace, i))
            continue;
        const bool isFirst = i == 0 || !isOptimizers(trace, i - 1);
        if (isFirst || (end > 0 && end <= oldest[i] && oldest[i] != none && takesLists(trace, OpId(i)))) {
            begins[i] = OpId(i);
            end = 0;
        } else {
            begins[i] = begins[i - 1];
        }
        visitState(i, [&](std::uint32_t state) { end = std::max(end, state + 1); });
    }
    return begins;
}

/// Whether the op is the first of SGD on momentum: `momentum * state + gradient`. SGD's first step copies the gradient
/// there, weight decay included.
bool beginsMomentum(const StepTrace& trace, OpId op)
{
    const OpId next(op.value + 1);
    if (next.value >= trace.ops.size() || trace.ops.inputs[op].empty() || trace.ops.inputs[next].empty())
        return false;
    const std::string_view first = trace.opName(op), second = trace.opName(next);
    const bool areSums = (first == "aten._foreach_mul_.Scalar" && second == "aten._foreach_add_.List")
        || (first == "aten.mul_.Tensor" && second == "aten.add_.Tensor");
    return areSums && trace.ops.inputs[op].front() == trace.ops.inputs[next].front();
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

/// Returns the op before that a storage is made that `use` uses first. GradScaler makes the growth tracker with the
/// scale.
OpId madeBefore(const StepTrace& trace, const std::vector<OpId>& uses, StorageId storage)
{
    const OpId use = uses[storage.value];
    if (trace.opName(use) != "aten._amp_update_scale_.default")
        return use;
    const StorageId scale = trace.ops.inputs[use].front();
    return uses[scale.value];
}

/// Returns the storages of `present` that the program made in a step, as GradScaler's scale: an op uses the storage,
/// and no block that the program made before training fits.
std::vector<StorageId> madeInSteps(const StepTrace& trace, const std::set<StorageId>& present,
                                   const std::vector<OpId>& uses)
{
    std::vector<StorageId> made;
    const auto& before = trace.beforeTraining;
    std::map<std::pair<Bytes, std::uint32_t>, int> blocks; // number by rounded bytes and place
    for (std::uint32_t row = 0; row < before.size(); ++row) {
        if (before.kind[row] == OutsideKind::alloc)
            ++blocks[{roundedToBlock(before.bytes[row]), before.stream[row]}];
        else if (before.kind[row] == OutsideKind::free)
            --blocks[{roundedToBlock(before.bytes[before.block[row]]), before.stream[before.block[row]]}];
    }
    for (const StorageId storage : present) {
        const std::uint32_t place = trace.storages.stream.size() > 0 ? trace.storages.stream[storage] : 0;
        const Category category = trace.storages.category[storage];
        const bool isOfModel = category == Category::parameter || category == Category::buffer;
        if (--blocks[{trace.storages.bytes[storage], place}] < 0 && uses[storage.value] && !isOfModel
            && category != Category::input)
            made.push_back(storage);
    }
    return made;
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
    if (trace.beforeTraining.size() > 0)
        for (const StorageId storage : madeInSteps(trace, first.present, uses)) {
            first.present.erase(storage);
            first.made.push_back({madeBefore(trace, uses, storage), storage, std::numeric_limits<double>::infinity()});
        }
    std::vector<bool> isState(trace.storages.size(), false);
    for (const StorageId storage : later)
        isState[storage.value] = categories[storage.value] == Category::optimizer;
    const std::vector<OpId> begins = beginsOfGroups(trace, isState);
    std::map<OpId, double> known; // when optimizer steps begin
    for (const StorageId storage : later) {
        const OpId use = uses[storage.value];
        if (!use) {
            first.present.insert(storage);
            continue;
        }
        const OpId begin = begins[use.value] && beginsMomentum(trace, use) ? use : begins[use.value];
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
