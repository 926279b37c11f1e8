// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/policy.h"

#include "core/base/try.h"
#include "core/policy/policy_maker.h"

#include <map>
#include <utility>

namespace headroom {

namespace {

constexpr std::string_view modelsPrefix = "models.";

std::string callsText(int count)
{
    return std::to_string(count) + (count == 1 ? " call" : " calls");
}

/// The policy of a module as a region of the step.
Result<CheckpointRegion> regionOf(const StepModel& model, ModuleId module, const Policy::Module& policy)
{
    const StepTrace& trace = *model.trace();
    const std::string where = "policy of module `" + policy.fqn + "`: op `";
    const std::vector<OpId> ops = model.regionOps(module);
    if (ops.empty())
        return badInput("the policy checkpoints module `" + policy.fqn + "`, but the module ran no op in the step");
    CheckpointRegion region{module};
    if (policy.offload) {
        region.offload = Offload{policy.offload->wait, policy.offload->ahead, !policy.offload->tensors.empty(),
                                 policy.offload->prefetch, policy.offload->afterUnpacks};
        if (movesOf(model, region) != policy.offload)
            return badInput("policy of module `" + policy.fqn
                            + "`: the step saves other tensors there than the step that was planned: plan this step");
        return region;
    }
    if (policy.hosted)
        region.hosted = Hosted{{}, *policy.hosted, !policy.arguments.empty()};
    if (!policy.arguments.empty() && movedArgumentsOf(trace, model.index(), module) != policy.arguments)
        return badInput("policy of module `" + policy.fqn
                        + "`: the module has other arguments in this step than in the step that was planned: plan this "
                          "step");
    if (policy.ops.empty())
        return region;

    std::map<std::pair<std::string_view, int>, std::size_t> places;
    std::map<std::string_view, int> ran;
    const std::vector<RegionOpName> names = regionOpNames(trace, ops);
    for (std::size_t place = 0; place < names.size(); ++place) {
        const std::string_view op = trace.strings[names[place].op];
        places.emplace(std::pair(op, names[place].index), place);
        ++ran[op];
    }
    const std::vector<bool> savable = model.savableOps(module);
    region.save.assign(ops.size(), false);
    std::vector<bool> hostable;
    if (policy.hosted) {
        region.hosted->ops.assign(ops.size(), false);
        hostable = hostableOps(trace, model.index(), module);
    }
    std::map<std::string_view, int> named;
    std::vector<bool> seen(ops.size(), false);
    for (const Policy::Op& op : policy.ops) {
        const auto place = places.find({op.op, op.index});
        if (place == places.end())
            return badInput(where + op.op + "` with index " + std::to_string(op.index)
                            + " (from 0) never ran there, since the step has "
                            + callsText(ran.contains(op.op) ? ran[op.op] : 0) + " of the op: plan this step");
        if (seen[place->second])
            return badInput(where + op.op + "` with index " + std::to_string(op.index) + " is there twice");
        if (op.save && !savable[place->second])
            return badInput(where + op.op + "` with index " + std::to_string(op.index) + " cannot be saved: "
                            + (model.isWholeOnly(module)
                                   ? "ops of the module run inside of tensor subclasses, and PyTorch keeps no single "
                                     "ops of subclasses; plan this step again"
                                   : "the op makes no new tensor, or the result is changed later"));
        if (op.offload && !hostable[place->second])
            return badInput(where + op.op + "` with index " + std::to_string(op.index)
                            + " cannot be offloaded: the result is small, or something else keeps the result on the "
                              "device; plan this step again");
        seen[place->second] = true;
        region.save[place->second] = op.save;
        if (op.offload)
            region.hosted->ops[place->second] = true;
        ++named[op.op];
    }
    for (const auto& [op, count] : ran)
        if (named[op] != count)
            return badInput(where + std::string(op) + "`: the policy has " + callsText(named[op]) + ", the step "
                            + std::to_string(count) + "; plan again for this model with these shapes");
    return region;
}

} // namespace

std::string_view policyFqn(const StepTrace& trace, ModuleId module)
{
    const std::string_view fqn = trace.moduleFqn(module);
    return hasSeveralModels(trace) && fqn.starts_with(modelsPrefix) ? fqn.substr(modelsPrefix.size()) : fqn;
}

Result<CheckpointPlan> checkpointPlan(const StepTrace& trace, const Policy& policy)
{
    const StepModel model(trace);
    const ModuleNames names = moduleNames(trace);
    CheckpointPlan plan;
    for (const Policy::Module& module : policy.modules) {
        const auto found = names.find(module.fqn);
        if (found == names.end())
            return badInput("the policy names module `" + module.fqn + "`, but the step of `" + trace.info.model
                            + "` has no such module");
        ASSIGN_OR_RETURN(CheckpointRegion region, regionOf(model, found->second, module));
        plan.push_back(std::move(region));
    }
    return plan;
}

} // namespace headroom
