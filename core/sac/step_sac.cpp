// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/sac/step_sac.h"

#include <algorithm>

namespace headroom {

StepSac::StepSac(const StepTrace& trace, const ModuleRecords& records)
    : trace_(trace)
    , records_(records)
    , names_(trace)
    , hasChildren_(trace.modules.size())
{
    for (const ModuleId parent : trace.modules.parent) {
        if (parent.valid())
            hasChildren_[parent.value] = true;
    }
    indexOutputs();
}

void StepSac::indexOutputs()
{
    outputFirst_.assign(trace_.storages.size() + 1, 0);
    const auto forEachOutput = [this](auto visit) {
        for (std::uint32_t i = 0; i < trace_.ops.size(); ++i) {
            for (const StorageId storage : trace_.ops.outputs[OpId(i)]) {
                if (storage.valid())
                    visit(OpId(i), storage);
            }
        }
    };
    forEachOutput([this](OpId, StorageId storage) { ++outputFirst_[storage.value + 1]; });
    for (std::size_t i = 1; i < outputFirst_.size(); ++i)
        outputFirst_[i] += outputFirst_[i - 1];
    outputOps_.resize(outputFirst_.back());
    std::vector<std::uint32_t> next = outputFirst_;
    forEachOutput([&](OpId op, StorageId storage) { outputOps_[next[storage.value]++] = op; });
}

bool StepSac::counted(OpId op) const
{
    return (trace_.ops.flags[op] & opSacIgnored) == 0 && !names_[op].skipped;
}

bool StepSac::random(OpId op) const
{
    return (trace_.ops.flags[op] & opRandom) != 0;
}

/// The event from which on autograd has saved all results of an op.
std::uint32_t StepSac::savedSince(OpId op) const
{
    std::uint32_t since = 0;
    for (const StorageId storage : trace_.ops.outputs[op]) {
        if (storage.valid())
            since = std::max(since, records_.firstPack[storage.value]);
    }
    return since;
}

/// The first op since `firstOp` with results in all storages of an in-place op's results; the op itself if no other
/// has.
OpId StepSac::inPlaceParent(OpId op, std::uint32_t firstOp) const
{
    const auto outputs = trace_.ops.outputs[op];
    if (outputs.empty() || !outputs.front().valid())
        return op;
    const std::uint32_t storage = outputs.front().value;
    const auto begin = outputOps_.begin() + outputFirst_[storage];
    const auto end = outputOps_.begin() + outputFirst_[storage + 1];
    const auto hasAll = [&](OpId candidate) {
        const auto others = trace_.ops.outputs[candidate];
        return std::ranges::all_of(outputs,
                                   [&](StorageId wanted) { return std::ranges::find(others, wanted) != others.end(); });
    };
    // The op itself has results in all, so such an op exists.
    return *std::find_if(std::lower_bound(begin, end, OpId(firstOp)), end, hasAll);
}

std::vector<OpId> StepSac::ops(ModuleId module) const
{
    const ModuleRecord::Call& call = records_.modules[module.value].call;
    std::vector<OpId> result;
    for (std::uint32_t i = call.firstOp; i < call.endOp; ++i) {
        if (counted(OpId(i)))
            result.emplace_back(i);
    }
    return result;
}

SacStats StepSac::stats(ModuleId module, Names names) const
{
    const ModuleRecord::Call& call = records_.modules[module.value].call;
    const std::vector<OpId> ops = this->ops(module);
    SacStats stats;
    stats.forceStoreRandom = call.id.valid() && trace_.calls.arguments[call.id].empty();
    stats.runtimes.reserve(ops.size());
    stats.memory.reserve(ops.size());
    std::vector<bool> skip(ops.size()); // views and in-place ops, which allocate no result
    for (std::size_t i = 0; i < ops.size(); ++i) {
        const OpId op = ops[i];
        const OpNameFacts& facts = names_[op];
        const int index = static_cast<int>(i);
        if (names == Names::with)
            stats.funcNames.emplace_back(facts.packet);
        stats.runtimes.push_back(trace_.ops.ms[op]);
        stats.memory.push_back(facts.viewLike ? 0 : records_.opMemory[op.value]);
        if (facts.viewLike)
            stats.viewLikeOps.push_back(index);
        if (random(op))
            stats.randOps.push_back(index);
        if (savedSince(op) < call.exitEvent)
            stats.savedAutogradOps.push_back(index);
        if (facts.inPlace) {
            // A parent that is not counted has no index: the op stands for itself.
            const OpId parent = inPlaceParent(op, call.firstOp);
            const auto found = std::ranges::lower_bound(ops, parent);
            const bool indexed = found != ops.end() && *found == parent;
            stats.inplaceOps.emplace_back(index, indexed ? static_cast<int>(found - ops.begin()) : index);
        }
        skip[i] = facts.viewLike || facts.inPlace;
    }
    // The module's result is stored in any case, so that the last op that allocates a result costs no memory (if no op
    // allocates, the last op of all, as memory[-1] in PyTorch).
    const auto maker = std::find(skip.rbegin(), skip.rend(), false);
    if (maker != skip.rend())
        stats.memory[static_cast<std::size_t>(skip.rend() - maker) - 1] = 0;
    else if (!ops.empty())
        stats.memory.back() = 0;
    return stats;
}

} // namespace headroom
