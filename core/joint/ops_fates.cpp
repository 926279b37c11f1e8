// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/joint/ops_fates.h"

#include <algorithm>

namespace headroom {
namespace {

Bytes savedBytesOf(const StepTrace& trace, const OpsPlan& plan, OpId op)
{
    Bytes bytes = 0;
    for (const StorageId storage : trace.ops.outputs[op])
        if (storage.valid() && trace.storages.creator[storage] == op && std::ranges::binary_search(plan.saved, storage))
            bytes += trace.storages.bytes[storage];
    return bytes;
}

} // namespace

std::vector<OpFate> opFates(const StepTrace& trace, const OpsPlan& plan)
{
    std::vector<OpFate> fates(trace.ops.size(), OpFate::none);
    for (const StorageId storage : plan.saved)
        if (const OpId creator = trace.storages.creator[storage]; creator.valid())
            fates[creator.value] = OpFate::saved;
    for (const OpId op : plan.recomputed)
        fates[op.value] = OpFate::again;
    return fates;
}

std::vector<OpFlip> opFlips(const StepTrace& trace, const OpsPlan& before, const OpsPlan& now)
{
    const std::vector<OpFate> fatesBefore = opFates(trace, before);
    const std::vector<OpFate> fatesNow = opFates(trace, now);
    std::vector<OpFlip> flips;
    for (std::uint32_t i = 0; i < fatesNow.size(); ++i) {
        const OpId op(i);
        const Bytes bytes = savedBytesOf(trace, before, op) - savedBytesOf(trace, now, op);
        if (fatesBefore[i] != fatesNow[i] || bytes != 0)
            flips.push_back({op, fatesBefore[i], fatesNow[i], bytes});
    }
    return flips;
}

OpsPlan planAsRecorded(const OpsPlanner& planner)
{
    OpsPlan plan;
    for (const JointGraph::Value& value : planner.graph().values) {
        if (!value.needed || value.kept || !value.node.valid())
            continue;
        plan.saved.push_back(value.storage);
        plan.savedBytes += value.bytes;
    }
    std::ranges::sort(plan.saved);
    plan.cap = plan.savedBytes;
    plan.peak = planner.recordedPeak();
    return plan;
}

} // namespace headroom
