// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/sac/step_statistics.h"

#include "core/sac/module_records.h"
#include "core/sac/step_sac.h"

#include <algorithm>

namespace headroom {
namespace {

/// Bytes of the parameters of every module and its submodules, each parameter once (module.parameters()). A tied weight
/// counts for each owner, but once where the owners' paths to the root meet.
std::vector<Bytes> parameterBytes(const StepTrace& trace)
{
    const auto& parents = trace.modules.parent;
    std::vector<Bytes> bytes(trace.modules.size());
    std::vector<std::uint32_t> depth(trace.modules.size());
    for (std::uint32_t i = 0; i < depth.size(); ++i) {
        const ModuleId parent = parents[ModuleId(i)];
        depth[i] = parent.valid() ? depth[parent.value] + 1 : 0;
    }
    const auto meeting = [&](ModuleId a, ModuleId b) {
        while (a != b && a.valid() && b.valid())
            (depth[a.value] >= depth[b.value] ? a : b) = parents[depth[a.value] >= depth[b.value] ? a : b];
        return a == b ? a : ModuleId();
    };
    // Own bytes. A storage of several owners is subtracted once where the paths of neighbouring owners meet.
    std::vector<std::pair<StorageId, ModuleId>> owners;
    for (std::size_t i = 0; i < trace.registered.size(); ++i) {
        if (trace.registered.category[i] == Category::parameter && trace.registered.storage[i].valid())
            owners.emplace_back(trace.registered.storage[i], trace.registered.module[i]);
    }
    std::ranges::sort(owners);
    for (std::size_t i = 0; i < owners.size(); ++i) {
        const auto& [storage, owner] = owners[i];
        bytes[owner.value] += trace.storages.bytes[storage];
        if (i == 0 || owners[i - 1].first != storage)
            continue;
        if (const ModuleId both = meeting(owners[i - 1].second, owner); both.valid())
            bytes[both.value] -= trace.storages.bytes[storage];
    }
    for (std::size_t i = bytes.size(); i-- > 0;) {
        if (const ModuleId parent = parents[ModuleId(static_cast<std::uint32_t>(i))]; parent.valid())
            bytes[parent.value] += bytes[i];
    }
    return bytes;
}

std::vector<std::string> names(const StepTrace& trace, const std::vector<ModuleId>& modules)
{
    std::vector<std::string> result;
    result.reserve(modules.size());
    for (const ModuleId module : modules)
        result.emplace_back(trace.moduleFqn(module));
    return result;
}

/// ilp_utils.py, aggregate_stats: the memory of a module.
void setMemory(ModuleStats& stats, const ModuleRecord& record)
{
    stats.inputBytes = record.inputBytes;
    stats.outputBytes = record.outputBytes;
    stats.activationTotal = record.postForwardActivation;
    stats.activationForward
        = std::max<Bytes>(0, record.postForwardActivation - record.preForwardActivation - record.outputBytes);
    if (!record.backward)
        return;
    stats.gradTotal = record.preBackwardGradient;
    stats.activationBackward = std::max<Bytes>(0, record.peakActivation);
    stats.activationGrad = record.peakTemporary - record.preBackwardTemporary;
}

void setTradeOff(ModuleStats& stats, TradeOff tradeoff)
{
    if (tradeoff.slopes.empty())
        return;
    stats.isLeaf = false;
    stats.sacRuntimeMs = tradeoff.sacRuntimeMs;
    stats.sacMemory = tradeoff.sacMemory;
    stats.slopes = std::move(tradeoff.slopes);
    stats.intercepts = std::move(tradeoff.intercepts);
    stats.breakpoints = std::move(tradeoff.breakpoints);
    stats.tradeoffCurve = std::move(tradeoff.curve);
}

double ms(Femtoseconds time)
{
    return static_cast<double>(time) * 1e-12;
}

} // namespace

std::map<std::string, SacStats> sacStats(const StepTrace& trace)
{
    const ModuleRecords records = recordModules(trace);
    const StepSac sac(trace, records);
    std::map<std::string, SacStats> result;
    for (std::uint32_t i = 0; i < trace.modules.size(); ++i) {
        const ModuleId module(i);
        if (sac.hasChildren(module) && records.modules[i].call.id.valid())
            result.emplace(trace.moduleFqn(module), sac.stats(module, StepSac::Names::with));
    }
    return result;
}

Result<ModuleInfo> moduleInfo(const StepTrace& trace)
{
    const ModuleRecords records = recordModules(trace);
    const StepSac sac(trace, records);
    const std::vector<Bytes> parameters = parameterBytes(trace);
    ModuleInfo info;
    for (std::uint32_t i = 0; i < trace.modules.size(); ++i) {
        const ModuleId module(i);
        const ModuleRecord& record = records.modules[i];
        if (!record.call.id.valid())
            continue;
        ModuleStats stats;
        stats.fqn = trace.moduleFqn(module);
        if (record.call.exitEvent == 0)
            return badInput("the step was interrupted inside module '" + stats.fqn
                            + "', so the module's statistics are incomplete: record a whole step");
        stats.paramBytes = parameters[i];
        stats.gradBytes = parameters[i];
        setMemory(stats, record);
        stats.forwardMs = ms(record.forwardTime);
        stats.backwardMs = ms(record.backwardTime);
        if (sac.hasChildren(module))
            setTradeOff(stats, tradeOff(sac.stats(module, StepSac::Names::without)));
        info.stats.push_back(std::move(stats));
    }
    if (info.stats.empty())
        return badInput("no module ran in the step '" + trace.info.model
                        + "': a plan needs a model with a forward that calls modules, outside of torch.func's "
                          "transforms (vmap, grad), where no checkpoint is possible");
    info.fwPreOrder = names(trace, records.fwPreOrder);
    info.bwPreOrder = names(trace, records.bwPreOrder);
    info.fwPostOrder = names(trace, records.fwPostOrder);
    info.bwPostOrder = names(trace, records.bwPostOrder);
    return info;
}

} // namespace headroom
