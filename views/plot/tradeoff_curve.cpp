// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/tradeoff_curve.h"

#include <algorithm>
#include <cmath>

namespace headroom {
namespace {

constexpr std::size_t mostOthers = 40;

bool sameCurve(const std::vector<TradeOffPoint>& a, const std::vector<TradeOffPoint>& b)
{
    const auto near = [](double x, double y) { return std::abs(x - y) <= 1e-9 * std::max(std::abs(x), std::abs(y)); };
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const TradeOffPoint& p, const TradeOffPoint& q) {
        return near(p.kept, q.kept) && near(p.ms, q.ms);
    });
}

double ratioOf(const Plan* plan, const std::string& fqn)
{
    if (!plan)
        return 0;
    const auto found = plan->decisions.find(fqn);
    return found == plan->decisions.end() ? 0 : found->second;
}

} // namespace

double recomputeMs(const ModuleStats& module, double ratio)
{
    double share = 0;
    for (std::size_t i = 0; i < module.slopes.size(); ++i)
        share = std::max(share, module.slopes[i] * ratio + module.intercepts[i]);
    return ratio <= 0 ? 0 : share * module.sacRuntimeMs;
}

TradeOffPoint tradeOffPoint(const ModuleStats& module, double ratio)
{
    return {ratio, static_cast<double>(module.sacMemory) * (1 - ratio), recomputeMs(module, ratio)};
}

std::vector<TradeOffPoint> tradeOffCurve(const ModuleStats& module)
{
    if (module.isLeaf || module.sacMemory <= 0 || module.slopes.empty())
        return {};
    std::vector<double> ratios{0, 1};
    for (const double ratio : module.breakpoints) {
        if (ratio > 0 && ratio < 1)
            ratios.push_back(ratio);
    }
    std::sort(ratios.begin(), ratios.end());
    ratios.erase(std::unique(ratios.begin(), ratios.end(), [](double a, double b) { return b - a < 1e-9; }),
                 ratios.end());
    std::vector<TradeOffPoint> curve;
    for (const double ratio : ratios)
        curve.push_back(tradeOffPoint(module, ratio));
    return curve;
}

std::string classOf(std::string_view fqn)
{
    std::string made;
    bool atStart = true;
    for (std::size_t i = 0; i < fqn.size(); ++i) {
        const auto end = std::min(fqn.find('.', i), fqn.size());
        const auto part = fqn.substr(i, end - i);
        const bool number
            = !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
        if (!atStart)
            made += '.';
        made += number ? std::string_view("#") : part;
        atStart = false;
        i = end;
    }
    return made;
}

const ModuleStats* findModule(const ModuleInfo& info, std::string_view fqn)
{
    const auto found = std::find_if(info.stats.begin(), info.stats.end(),
                                    [&](const ModuleStats& module) { return module.fqn == fqn; });
    return found == info.stats.end() ? nullptr : &*found;
}

TradeOffPicture tradeOffPicture(const ModuleInfo& info, std::string_view fqn, const Plan* plan)
{
    TradeOffPicture picture;
    picture.selected = findModule(info, fqn);
    if (!picture.selected)
        return picture;
    picture.curve = tradeOffCurve(*picture.selected);
    picture.hasPlan = plan && plan->status != PlanStatus::infeasible;
    picture.chosen = tradeOffPoint(*picture.selected, ratioOf(plan, picture.selected->fqn));
    const auto kind = classOf(fqn);
    for (const auto& module : info.stats) {
        if (&module == picture.selected || classOf(module.fqn) != kind)
            continue;
        auto curve = tradeOffCurve(module);
        if (curve.empty())
            continue;
        if (picture.hasPlan) {
            const auto point = tradeOffPoint(module, ratioOf(plan, module.fqn));
            const auto known = std::find_if(picture.choices.begin(), picture.choices.end(),
                                            [&](const auto& choice) { return sameCurve({choice.point}, {point}); });
            if (known == picture.choices.end())
                picture.choices.push_back({point, 1});
            else
                ++known->modules;
        }
        const bool seen = sameCurve(curve, picture.curve)
            || std::any_of(picture.others.begin(), picture.others.end(),
                           [&](const auto& other) { return sameCurve(other, curve); });
        if (!seen && picture.others.size() < mostOthers)
            picture.others.push_back(std::move(curve));
    }
    const auto include = [&](const std::vector<TradeOffPoint>& curve) {
        for (const auto& point : curve) {
            picture.mostKept = std::max(picture.mostKept, point.kept);
            picture.mostMs = std::max(picture.mostMs, point.ms);
        }
    };
    include(picture.curve);
    for (const auto& other : picture.others)
        include(other);
    return picture;
}

TangentPiece tangent(const TradeOffPicture& picture, double msPerGiB)
{
    const double slope = msPerGiB / static_cast<double>(GiB); // ms per byte
    // As far as a third of the picture to either side, and not below 0 ms nor above the highest curve.
    const double reach = picture.mostKept / 3;
    const auto& at = picture.chosen;
    const double left = std::max({0.0, at.kept - reach, at.kept - (picture.mostMs - at.ms) / slope});
    const double right = std::min({picture.mostKept, at.kept + reach, at.kept + at.ms / slope});
    const auto ms = [&](double kept) { return at.ms - slope * (kept - at.kept); };
    return {left, ms(left), right, ms(right)};
}

} // namespace headroom
