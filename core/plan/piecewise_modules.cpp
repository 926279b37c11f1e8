// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/piecewise_problem.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace headroom {

namespace {

using Names = std::unordered_map<std::string_view, int>;

/// The nearest module whose name is a proper prefix: "A.layers.0.mlp" → "A.layers.0"; -1 for the root.
int enclosing(const Names& names, std::string_view fqn)
{
    for (std::size_t dot = fqn.rfind('.'); dot != std::string_view::npos; dot = fqn.rfind('.', dot - 1)) {
        const auto found = names.find(fqn.substr(0, dot));
        if (found != names.end())
            return found->second;
        if (dot == 0)
            break;
    }
    return -1;
}

/// Equal but for the noise of a fit: PyTorch's curves of identical layers differ by 1e-7 to 2e-5 of themselves.
bool nearlyEqual(const RecomputeCurve& a, const RecomputeCurve& b)
{
    constexpr double noise = 1e-4;
    const auto close = [&](Bytes bytes) {
        const double ms = a.msAt(bytes);
        return std::abs(ms - b.msAt(bytes)) <= noise * ms;
    };
    for (const RecomputeCurve* curve : {&a, &b}) {
        Bytes corner = curve->freeBytes();
        if (!close(corner))
            return false;
        for (const RecomputeCurve::Piece& piece : curve->pieces())
            if (!close(corner += piece.bytes))
                return false;
    }
    return true;
}

using Members = std::vector<std::vector<RecomputeCurve*>>;

/// Numbers the classes of one coarseness; the curves of each class, first module first.
Members classify(PiecewiseModules& model, std::size_t coarseness)
{
    using Key = std::tuple<Bytes, Bytes, double>;
    std::map<Key, std::vector<std::size_t>> classesOf;
    Members members;
    for (std::size_t module = 0; module < model.modules.size(); ++module) {
        PiecewiseModules::Module& entry = model.modules[module];
        if (!entry.candidate)
            continue;
        const ModuleStats& stats = model.info->stats[module];
        auto& known = classesOf[{stats.activationForward, stats.sacMemory, stats.sacRuntimeMs}];
        const auto same = std::ranges::find_if(known, [&](std::size_t candidate) {
            return coarseness == PiecewiseModules::byMemoryAndTime
                || nearlyEqual(*members[candidate].front(), entry.curve);
        });
        const std::size_t found = same != known.end() ? *same : members.size();
        if (same == known.end()) {
            known.push_back(found);
            members.emplace_back();
        }
        members[found].push_back(&entry.curve);
        entry.classes[coarseness] = static_cast<int>(found);
    }
    return members;
}

/// One curve for all that are equal but for noise, so that identical layers are exactly identical.
void removeNoise(PiecewiseModules& model)
{
    for (auto& curves : classify(model, PiecewiseModules::byCurve)) {
        for (RecomputeCurve* curve : curves)
            *curve = *curves.front();
        model.classCurves[PiecewiseModules::byCurve].push_back(*curves.front());
    }
}

void findEnvelopes(PiecewiseModules& model)
{
    for (const auto& curves : classify(model, PiecewiseModules::byMemoryAndTime))
        model.classCurves[PiecewiseModules::byMemoryAndTime].push_back(
            RecomputeCurve::lowerEnvelope({curves.begin(), curves.end()}));
}

} // namespace

Result<PiecewiseModules> PiecewiseModules::create(ModuleInfoPtr info)
{
    if (info == nullptr || info->stats.empty())
        return badInput("the ModuleInfo has no modules: expected at least the root in mod_stats");
    PiecewiseModules model;
    model.info = std::move(info);

    Names names;
    for (const ModuleStats& stats : model.info->stats)
        if (!names.emplace(stats.fqn, static_cast<int>(names.size())).second)
            return badInput("mod_stats names module `" + stats.fqn + "` twice: expected each name once");
    Names positions;
    for (std::size_t i = 0; i < model.info->fwPostOrder.size(); ++i)
        positions.emplace(model.info->fwPostOrder[i], static_cast<int>(i));

    for (const ModuleStats& stats : model.info->stats) {
        Module module;
        const auto position = positions.find(stats.fqn);
        if (position == positions.end())
            return badInput("module `" + stats.fqn
                            + "` is not in mod_order.fw_post_order: expected every module there");
        module.position = position->second;
        module.parent = enclosing(names, stats.fqn);
        module.candidate
            = !stats.isLeaf && stats.obstacle.empty() && stats.activationForward > 0 && !stats.slopes.empty();
        if (module.candidate)
            module.curve = RecomputeCurve(stats);
        model.modules.push_back(std::move(module));
    }
    removeNoise(model);
    findEnvelopes(model);
    return model;
}

} // namespace headroom
