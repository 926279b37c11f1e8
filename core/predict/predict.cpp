// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/predict.h"

#include "core/base/try.h"
#include "core/predict/regions.h"
#include "core/predict/replay.h"
#include "core/predict/step_index.h"
#include "core/predict/step_model.h"
#include "core/trace/graph_ops.h"

#include <algorithm>
#include <map>
#include <utility>

namespace headroom {

namespace {

Result<Timeline> predictWith(const StepTrace& trace, const StepIndex& index, const CheckpointPlan& plan)
{
    ASSIGN_OR_RETURN(const Regions regions, layOut(trace, index, plan));
    return replay(trace, index, regions);
}

std::vector<OpId> regionOpsWith(const StepTrace& trace, const StepIndex& index, ModuleId module)
{
    const CallId call = decidingCall(index, module);
    return call.valid() ? countedOps(trace, index.calls[call.value]) : std::vector<OpId>();
}

/// Selective checkpointing sees a tensor subclass's own op, not those that it is made of: its indices are not those of
/// the recorded ops.
bool runsInSubclass(const StepTrace& trace, const StepIndex::Call& call)
{
    for (std::uint32_t op = call.firstOp; op < call.endOp; ++op)
        if ((trace.ops.flags[OpId(op)] & opInSubclass) != 0)
            return true;
    return false;
}

bool isWholeOnlyWith(const StepTrace& trace, const StepIndex& index, ModuleId module)
{
    return module.value < index.callsOf.size() && std::ranges::any_of(index.callsOf[module.value], [&](CallId call) {
               return runsInSubclass(trace, index.calls[call.value]);
           });
}

std::vector<bool> savableOpsWith(const StepTrace& trace, const StepIndex& index, ModuleId module)
{
    std::vector<bool> savable;
    // PyTorch's cache gives up what it keeps in the first backward pass and raises in the second.
    const bool once = module.value >= index.callsOf.size()
        || std::ranges::none_of(index.callsOf[module.value],
                                [&](CallId call) { return index.isInSeveralPasses(index.calls[call.value]); });
    const bool may = once && !isWholeOnlyWith(trace, index, module);
    for (const OpId op : regionOpsWith(trace, index, module)) {
        const auto outputs = trace.ops.outputs[op];
        const bool inGraph = (trace.ops.flags[op] & opInCompiledGraph) != 0;
        savable.push_back(may && !inGraph && !outputs.empty() && std::ranges::all_of(outputs, [&](StorageId storage) {
                              return index.allocatedIn[storage.value] == op && !index.mutated[storage.value];
                          }));
    }
    return savable;
}

} // namespace

Result<Timeline> predict(const StepTrace& trace, const CheckpointPlan& plan)
{
    return predictWith(trace, StepIndex(trace), plan);
}

std::vector<OpId> regionOps(const StepTrace& trace, ModuleId module)
{
    return regionOpsWith(trace, StepIndex(trace), module);
}

std::vector<bool> savableOps(const StepTrace& trace, ModuleId module)
{
    return savableOpsWith(trace, StepIndex(trace), module);
}

StepModel::StepModel(StepTracePtr trace)
    : trace_(std::move(trace))
    , index_(std::make_shared<const StepIndex>(*trace_))
{
    RecordedStep recorded = replayRecorded(*trace_, *index_);
    recorded_ = std::make_shared<const Timeline>(std::move(recorded.timeline));
    events_ = std::make_shared<const std::vector<std::uint32_t>>(std::move(recorded.events));
}

Result<Timeline> StepModel::predict(const CheckpointPlan& plan) const
{
    return predictWith(*trace_, *index_, plan);
}

Result<std::vector<std::vector<HeldBytes>>> StepModel::heldBytes(const CheckpointPlan& plan) const
{
    ASSIGN_OR_RETURN(const Regions laidOut, layOut(*trace_, *index_, plan));
    const std::vector<HeldBytes> held = replayBoundaries(*trace_, *index_, laidOut);
    std::map<ModuleId, std::size_t> places;
    for (std::size_t place = 0; place < plan.size(); ++place)
        places.emplace(plan[place].module, place);
    std::vector<std::vector<HeldBytes>> byModule(plan.size());
    for (std::size_t region = 0; region < held.size(); ++region)
        byModule[places.at(trace_->calls.module[laidOut.regions[region].call])].push_back(held[region]);
    return byModule;
}

std::vector<OpId> StepModel::regionOps(ModuleId module) const
{
    return regionOpsWith(*trace_, *index_, module);
}

std::vector<bool> StepModel::savableOps(ModuleId module) const
{
    return savableOpsWith(*trace_, *index_, module);
}

bool StepModel::isWholeOnly(ModuleId module) const
{
    return isWholeOnlyWith(*trace_, *index_, module);
}

} // namespace headroom
