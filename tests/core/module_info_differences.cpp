// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/core/module_info_differences.h"

#include "tests/core/squared_residual.h"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace headroom {
namespace {

constexpr std::size_t mostSentences = 40;

class Comparison
{
public:
    explicit Comparison(const ModuleInfoTolerance& tolerance)
        : tolerance_(tolerance)
    {
    }

    template <class Value>
    void same(const std::string& what, const Value& actual, const Value& expected)
    {
        if (actual != expected)
            say(what, actual, expected);
    }

    void near(const std::string& what, double actual, double expected, double tolerance)
    {
        if (!(std::abs(actual - expected) <= tolerance))
            say(what, actual, expected);
    }

    void order(const char* key, const std::vector<std::string>& actual, const std::vector<std::string>& expected)
    {
        same(std::string(key) + " has", actual.size(), expected.size());
        const auto [a, e] = std::ranges::mismatch(actual, expected);
        if (a != actual.end() && e != expected.end())
            say(std::string(key) + "[" + std::to_string(a - actual.begin()) + "]", *a, *e);
    }

    void stats(const ModuleStats& actual, const ModuleStats& expected)
    {
        const std::string at = expected.fqn + ": ";
        same(at + "param_per_module", actual.paramBytes, expected.paramBytes);
        same(at + "grad_per_module", actual.gradBytes, expected.gradBytes);
        same(at + "grad_total", actual.gradTotal, expected.gradTotal);
        same(at + "act_fw_per_module", actual.activationForward, expected.activationForward);
        same(at + "act_bw_per_module", actual.activationBackward, expected.activationBackward);
        same(at + "act_grad_per_module", actual.activationGrad, expected.activationGrad);
        same(at + "act_total", actual.activationTotal, expected.activationTotal);
        same(at + "input_per_module", actual.inputBytes, expected.inputBytes);
        same(at + "output_per_module", actual.outputBytes, expected.outputBytes);
        near(at + "fw_runtime_per_module", actual.forwardMs, expected.forwardMs, tolerance_.ms);
        near(at + "bw_runtime_per_module", actual.backwardMs, expected.backwardMs, tolerance_.ms);
        same(at + "is_leaf", actual.isLeaf, expected.isLeaf);
        same(at + "sac_memory", actual.sacMemory, expected.sacMemory);
        near(at + "sac_runtime", actual.sacRuntimeMs, expected.sacRuntimeMs, tolerance_.ms);
        same(at + "n_segments", actual.slopes.size(), expected.slopes.size());
        curve(at, actual, expected);
    }

    std::vector<std::string> take() { return std::move(sentences_); }

private:
    template <class Value>
    void say(const std::string& what, const Value& actual, const Value& expected)
    {
        if (sentences_.size() >= mostSentences)
            return;
        std::ostringstream text;
        text.precision(17);
        text << what << " is " << actual << ", expected " << expected;
        sentences_.push_back(text.str());
    }

    void curve(const std::string& at, const ModuleStats& actual, const ModuleStats& expected)
    {
        const std::size_t count = expected.tradeoffCurve.size();
        same(at + "points of tradeoff_curve", actual.tradeoffCurve.size(), count);
        if (actual.tradeoffCurve.size() != count)
            return;
        std::vector<double> x;
        std::vector<double> y;
        for (std::size_t i = 0; i < count; ++i) {
            const std::string point = at + "tradeoff_curve[" + std::to_string(i) + "]";
            near(point + " share", actual.tradeoffCurve[i].first, expected.tradeoffCurve[i].first, tolerance_.curve);
            near(point + " time", actual.tradeoffCurve[i].second, expected.tradeoffCurve[i].second, tolerance_.curve);
            if (i + 1 < count) {
                x.push_back(expected.tradeoffCurve[i].first);
                y.push_back(expected.tradeoffCurve[i + 1].second);
            }
        }
        if (actual.slopes.empty() || actual.slopes.size() != expected.slopes.size())
            return;
        const double residual = squaredResidual({actual.breakpoints, actual.slopes, actual.intercepts}, x, y);
        const double other = squaredResidual({expected.breakpoints, expected.slopes, expected.intercepts}, x, y);
        if (residual > other + tolerance_.fit * tolerance_.fit)
            say(at + "squared residual of the fit", residual, other);
    }

    const ModuleInfoTolerance& tolerance_;
    std::vector<std::string> sentences_;
};

} // namespace

std::vector<std::string> moduleInfoDifferences(const ModuleInfo& actual, const ModuleInfo& expected,
                                               const ModuleInfoTolerance& tolerance)
{
    Comparison comparison(tolerance);
    comparison.same("number of modules", actual.stats.size(), expected.stats.size());
    for (std::size_t i = 0; i < std::min(actual.stats.size(), expected.stats.size()); ++i) {
        comparison.same("mod_stats[" + std::to_string(i) + "]", actual.stats[i].fqn, expected.stats[i].fqn);
        if (actual.stats[i].fqn == expected.stats[i].fqn)
            comparison.stats(actual.stats[i], expected.stats[i]);
    }
    if (tolerance.orders) {
        comparison.order("fw_pre_order", actual.fwPreOrder, expected.fwPreOrder);
        comparison.order("bw_pre_order", actual.bwPreOrder, expected.bwPreOrder);
        comparison.order("fw_post_order", actual.fwPostOrder, expected.fwPostOrder);
        comparison.order("bw_post_order", actual.bwPostOrder, expected.bwPostOrder);
    }
    return comparison.take();
}

} // namespace headroom
