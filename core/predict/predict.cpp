// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/predict.h"

#include "core/base/try.h"
#include "core/predict/regions.h"
#include "core/predict/step_index.h"
#include "core/predict/step_model.h"
#include "core/trace/graph_ops.h"

#include <algorithm>
#include <map>
#include <utility>

namespace headroom {

namespace {

/// Selective checkpointing sees the op of a tensor subclass, not the ops inside. So the op indices of selective
/// checkpointing differ from the recorded ops.
bool runsInSubclass(const StepTrace& trace, const StepIndex::Call& call)
{
    for (std::uint32_t op = call.firstOp; op < call.endOp; ++op)
        if ((trace.ops.flags[OpId(op)] & opInSubclass) != 0)
            return true;
    return false;
}

Result<Timeline> predictWith(const StepTrace& trace, const StepIndex& index, const CheckpointPlan& plan)
{
    ASSIGN_OR_RETURN(const Regions regions, layOut(trace, index, plan));
    return replay(trace, index, regions);
}

} // namespace

Result<Timeline> predict(const StepTrace& trace, const CheckpointPlan& plan)
{
    return predictWith(trace, StepIndex(trace), plan);
}

StepModel::StepModel(StepTracePtr trace)
    : trace_(std::move(trace))
    , index_(std::make_shared<const StepIndex>(*trace_))
{
    std::vector<std::uint32_t> events;
    recorded_ = std::make_shared<const Timeline>(replay(*trace_, *index_, {}, &events));
    events_ = std::make_shared<const std::vector<std::uint32_t>>(std::move(events));
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
    const CallId call = decidingCall(*index_, module);
    return call.valid() ? countedOps(*trace_, index_->calls[call.value]) : std::vector<OpId>();
}

std::vector<bool> StepModel::savableOps(ModuleId module) const
{
    std::vector<bool> savable;
    // PyTorch's cache releases the tensors in the first backward pass and raises in the second.
    const bool once = module.value >= index_->callsOf.size()
        || std::ranges::none_of(index_->callsOf[module.value],
                                [this](CallId call) { return index_->isInSeveralPasses(index_->calls[call.value]); });
    const bool may = once && !isWholeOnly(module);
    for (const OpId op : regionOps(module)) {
        const auto outputs = trace_->ops.outputs[op];
        const bool inGraph = (trace_->ops.flags[op] & opInCompiledGraph) != 0;
        savable.push_back(may && !inGraph && !outputs.empty() && std::ranges::all_of(outputs, [&](StorageId storage) {
                              return index_->allocatedIn[storage.value] == op && !index_->mutated[storage.value];
                          }));
    }
    return savable;
}

bool StepModel::isWholeOnly(ModuleId module) const
{
    return module.value < index_->callsOf.size()
        && std::ranges::any_of(index_->callsOf[module.value],
                               [this](CallId call) { return runsInSubclass(*trace_, index_->calls[call.value]); });
}

} // namespace headroom
