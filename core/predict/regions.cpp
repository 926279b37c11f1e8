// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/regions.h"

#include <algorithm>
#include <string>

namespace headroom {

namespace {

std::string nameOf(const StepTrace& trace, ModuleId module)
{
    return std::string(trace.moduleFqn(module));
}

Status refuseNesting(const StepTrace& trace, const CheckpointPlan& plan)
{
    std::vector<bool> chosen(trace.modules.size(), false);
    for (const CheckpointRegion& region : plan) {
        if (region.module.value >= trace.modules.size())
            return badInput("the plan names module number " + std::to_string(region.module.value)
                            + ", but the step has " + std::to_string(trace.modules.size()));
        if (chosen[region.module.value])
            return badInput("the plan names " + nameOf(trace, region.module) + " twice");
        chosen[region.module.value] = true;
    }
    const auto nest = [&](ModuleId outer, ModuleId inner) {
        return badInput("checkpointed modules may not contain one another: " + nameOf(trace, inner) + " is inside "
                        + nameOf(trace, outer));
    };
    for (const CheckpointRegion& region : plan)
        for (ModuleId m = trace.modules.parent[region.module]; m.valid(); m = trace.modules.parent[m])
            if (chosen[m.value])
                return nest(m, region.module);
    // Calls may nest where modules do not, and a module may call itself.
    for (std::size_t i = 0; i < trace.calls.size(); ++i) {
        const CallId call(static_cast<std::uint32_t>(i));
        if (!chosen[trace.calls.module[call].value])
            continue;
        for (CallId c = trace.calls.parent[call]; c.valid(); c = trace.calls.parent[c])
            if (chosen[trace.calls.module[c].value])
                return nest(trace.calls.module[c], trace.calls.module[call]);
    }
    return {};
}

Region regionOf(const StepIndex& index, CallId id)
{
    const StepIndex::Call& call = index.calls[id.value];
    Region region{id, call.enter, call.enter, call.exit, call.firstPack, call.endPack, call.firstOp, call.endOp};
    for (std::uint32_t pack = call.firstPack; pack < call.endPack; ++pack)
        region.end = std::max(region.end, index.releaseEvent[pack]);
    if (call.firstPack < call.endPack)
        region.stop = index.packEvent[call.endPack - 1];
    return region;
}

} // namespace

std::vector<OpId> countedOps(const StepTrace& trace, const StepIndex::Call& call)
{
    std::vector<OpId> ops;
    for (std::uint32_t op = call.firstOp; op < call.endOp; ++op)
        if ((trace.ops.flags[OpId(op)] & opSacIgnored) == 0)
            ops.emplace_back(op);
    return ops;
}

Result<Regions> layOut(const StepTrace& trace, const StepIndex& index, const CheckpointPlan& plan)
{
    if (Status status = refuseNesting(trace, plan); !status)
        return status.error();
    Regions result;
    for (const CheckpointRegion& region : plan) {
        for (const CallId call : index.callsOf[region.module.value]) {
            result.regions.push_back(regionOf(index, call));
            if (region.save.empty())
                continue;
            const std::vector<OpId> ops = countedOps(trace, index.calls[call.value]);
            if (ops.size() != region.save.size())
                return badInput("the plan decides on " + std::to_string(region.save.size()) + " ops of "
                                + nameOf(trace, region.module) + ", but a call of it runs "
                                + std::to_string(ops.size()));
            result.saved.resize(trace.ops.size(), false);
            for (std::size_t i = 0; i < ops.size(); ++i)
                result.saved[ops[i].value] = region.save[i];
        }
    }
    std::ranges::sort(result.regions, {}, &Region::enter);
    return result;
}

} // namespace headroom
