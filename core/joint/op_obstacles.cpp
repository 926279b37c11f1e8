// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/joint/op_obstacles.h"

#include <algorithm>

namespace headroom {

namespace {

constexpr std::string_view severalPasses
    = "several backward passes go through what it saves, and what a selective checkpoint keeps is gone after the first";

} // namespace

std::vector<std::string_view> opsObstacles(const StepTrace& trace, const StepIndex& index)
{
    std::vector<std::string_view> reasons(trace.modules.size());
    for (std::size_t module = 0; module < reasons.size(); ++module) {
        reasons[module] = obstacleText(index.obstacles[module]);
        const bool again = std::ranges::any_of(
            index.callsOf[module], [&](CallId call) { return index.isInSeveralPasses(index.calls[call.value]); });
        if (reasons[module].empty() && again)
            reasons[module] = severalPasses;
    }
    return reasons;
}

OpObstacles::OpObstacles(const StepTrace& trace, const StepIndex& index)
    : trace_(trace)
    , index_(index)
    , reasons_(opsObstacles(trace, index))
    , hasChildren_(trace.modules.size(), false)
{
    for (const ModuleId parent : trace.modules.parent)
        if (parent.valid())
            hasChildren_[parent.value] = true;
}

bool OpObstacles::keep(OpId op) const
{
    if (!trace_.ops.call[op].valid())
        return index_.obstacleOfStep != CheckpointObstacle::none;
    bool inTheWay = false;
    for (CallId call = trace_.ops.call[op]; call.valid(); call = trace_.calls.parent[call]) {
        const bool reason = !reasons_[trace_.calls.module[call].value].empty();
        const StepIndex::Call& around = index_.calls[call.value];
        if (!reason && around.saves())
            return false;
        inTheWay = inTheWay || reason;
    }
    return inTheWay;
}

void OpObstacles::addModules(OpId op, std::vector<ModuleId>& modules) const
{
    for (CallId call = trace_.ops.call[op]; call.valid(); call = trace_.calls.parent[call]) {
        const ModuleId module = trace_.calls.module[call];
        if (!reasons_[module.value].empty() && (hasChildren_[module.value] || !trace_.calls.parent[call].valid()))
            modules.push_back(module);
    }
}

std::vector<KeptModule> OpObstacles::named(std::vector<ModuleId> modules) const
{
    std::ranges::sort(modules);
    modules.erase(std::ranges::unique(modules).begin(), modules.end());
    std::vector<KeptModule> named;
    for (const ModuleId module : modules)
        named.push_back({module, reasons_[module.value]});
    return named;
}

} // namespace headroom
