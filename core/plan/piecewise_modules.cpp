// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/try.h"
#include "core/plan/piecewise_problem.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace headroom {

namespace {

/// Whether two curves differ only by noise of the fit: PyTorch's curves of identical layers differ by 1e-7 to 2e-5.
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

/// Numbers the classes of one coarseness. Returns the curves of each class, the first module's first.
Members classify(PiecewiseModules& model, std::size_t coarseness)
{
    using Key = std::tuple<Bytes, Bytes, double>;
    std::map<Key, std::vector<std::size_t>> classesOf;
    Members members;
    for (std::size_t module = 0; module < model.modules.size(); ++module) {
        PiecewiseModules::Module& entry = model.modules[module];
        if (!model.tree.modules[module].candidate)
            continue;
        const ModuleStats& stats = model.tree.info->stats[module];
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

/// Gives all modules whose curves differ only by noise the same curve.
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
    ASSIGN_OR_RETURN(PlanModules tree, PlanModules::create(std::move(info)));
    PiecewiseModules model;
    model.tree = std::move(tree);
    for (std::size_t module = 0; module < model.tree.modules.size(); ++module) {
        model.modules.emplace_back();
        if (model.tree.modules[module].candidate)
            model.modules.back().curve = RecomputeCurve(model.tree.info->stats[module]);
    }
    removeNoise(model);
    findEnvelopes(model);
    return model;
}

} // namespace headroom
