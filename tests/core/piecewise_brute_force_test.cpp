// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/glpk_problem.h"
#include "core/plan/piecewise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>

namespace headroom {
namespace {

/// A random model: a few stages of layers, some alike, with submodules, and memory that rises and falls.
class RandomModel
{
public:
    explicit RandomModel(unsigned seed)
        : random_(seed)
    {
        info_.stats.reserve(64);
        module("M", 4, 0);
        Bytes gradients = 0;
        for (auto fqn = info_.fwPostOrder.rbegin(); fqn != info_.fwPostOrder.rend(); ++fqn) {
            ModuleStats& stats = *std::ranges::find(info_.stats, *fqn, &ModuleStats::fqn);
            stats.gradTotal = gradients;
            if (stats.isLeaf)
                gradients += stats.paramBytes;
        }
    }

    const ModuleInfo& info() const { return info_; }

private:
    int number(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }
    double share(double least, double most) { return std::uniform_real_distribution<double>(least, most)(random_); }

    /// `kind`: modules of one kind have one trade-off curve. Returns the bytes of its parameters.
    Bytes module(const std::string& fqn, int depth, int kind)
    {
        const std::size_t index = info_.stats.size();
        info_.stats.emplace_back().fqn = fqn;
        info_.fwPreOrder.push_back(fqn);
        const Bytes before = alive_;
        Bytes parameters = 0;
        const int children = depth == 0 || candidates_ > 7 ? 0 : number(1, 3);
        if (children > 0)
            ++candidates_;
        for (int child = 0; child < children; ++child)
            parameters += module(fqn + ".m" + std::to_string(child), std::max(0, depth - number(1, 2)),
                                 kind * 3 + number(1, 2));
        alive_ += number(0, 40) * MiB + number(0, 3) * 512;
        if (children == 0)
            parameters = number(0, 30) * MiB;

        ModuleStats& stats = info_.stats[index];
        stats.paramBytes = parameters;
        stats.activationTotal = alive_;
        stats.activationGrad = number(-5, 60) * MiB;
        stats.isLeaf = children == 0;
        stats.activationForward = alive_ - before;
        if (children > 0)
            giveCurve(stats, kind);
        info_.fwPostOrder.push_back(fqn);
        return parameters;
    }

    static void giveCurve(ModuleStats& stats, int kind)
    {
        std::mt19937 random(static_cast<unsigned>(kind));
        const auto between
            = [&](double least, double most) { return std::uniform_real_distribution<double>(least, most)(random); };
        stats.sacRuntimeMs = between(0.5, 20);
        stats.sacMemory = static_cast<Bytes>(static_cast<double>(stats.activationForward) * between(0.95, 1.4));
        const double corner = between(0.3, 0.8);
        const double first = between(-0.02, 0.6);
        const double second = between(0.5, 4);
        const double atZero = between(-0.05, 0.2);
        stats.slopes = {first, second};
        stats.intercepts = {atZero, (first - second) * corner + atZero};
    }

    std::mt19937 random_;
    ModuleInfo info_;
    Bytes alive_ = 100 * MiB;
    int candidates_ = 0;
};

/// sac_milp with the checkpointed modules given: a linear programme, as sac_ilp.py writes it.
std::optional<double> leastMs(const ModuleInfo& info, const std::vector<const ModuleStats*>& chosen,
                              const PlanRequest& request)
{
    const auto position = [&](const std::string& fqn) { return std::ranges::find(info.fwPostOrder, fqn); };
    const auto unit = static_cast<double>(MiB);
    GlpkProblem problem;
    struct Columns
    {
        int ratio;
        double all;
        double kept;
    };
    std::vector<Columns> columns;
    for (const ModuleStats* stats : chosen) {
        const auto kept = static_cast<double>(stats->activationForward);
        const double all = std::max(static_cast<double>(stats->sacMemory), kept);
        const int ratio = problem.addColumn((all - kept) / all, 1, 0);
        const int ms = problem.addColumn(0, GlpkProblem::infinity, 1);
        for (std::size_t i = 0; i < stats->slopes.size(); ++i) {
            const GlpkProblem::Term terms[] = {{ms, 1}, {ratio, -stats->sacRuntimeMs * stats->slopes[i]}};
            problem.addRow(terms, stats->sacRuntimeMs * stats->intercepts[i], GlpkProblem::infinity);
        }
        columns.push_back({ratio, all, kept});
    }
    for (const ModuleStats& stats : info.stats) {
        double required = static_cast<double>(stats.activationTotal + stats.activationGrad)
            + static_cast<double>(info.stats.front().paramBytes + stats.gradTotal) / request.worldSize;
        std::vector<GlpkProblem::Term> terms;
        for (std::size_t i = 0; i < chosen.size(); ++i)
            if (position(chosen[i]->fqn) < position(stats.fqn)) {
                terms.push_back({columns[i].ratio, columns[i].all / unit});
                required += columns[i].all - columns[i].kept;
            }
        const double excess = (required - static_cast<double>(request.budget)) / unit;
        if (terms.empty() && excess > 0)
            return std::nullopt;
        if (!terms.empty())
            problem.addRow(terms, excess, GlpkProblem::infinity);
    }
    if (chosen.empty())
        return 0;
    const MilpResult result = problem.solve();
    return result.status == MilpStatus::optimal ? std::optional<double>(result.objective) : std::nullopt;
}

/// The least time over all sets of modules without nesting.
std::optional<double> bruteForce(const ModuleInfo& info, const PlanRequest& request)
{
    std::vector<const ModuleStats*> candidates;
    for (const ModuleStats& stats : info.stats)
        if (!stats.isLeaf && stats.activationForward > 0)
            candidates.push_back(&stats);
    std::optional<double> best;
    for (std::size_t set = 0; set < (std::size_t{1} << candidates.size()); ++set) {
        std::vector<const ModuleStats*> chosen;
        for (std::size_t i = 0; i < candidates.size(); ++i)
            if ((set >> i & 1) != 0)
                chosen.push_back(candidates[i]);
        const bool nested = std::ranges::any_of(chosen, [&](const ModuleStats* outer) {
            return std::ranges::any_of(
                chosen, [&](const ModuleStats* inner) { return inner->fqn.starts_with(outer->fqn + "."); });
        });
        if (nested)
            continue;
        const std::optional<double> ms = leastMs(info, chosen, request);
        if (ms && (!best || *ms < *best))
            best = ms;
    }
    return best;
}

class BruteForce : public testing::TestWithParam<unsigned>
{
};

TEST_P(BruteForce, findsNothingBetter)
{
    const RandomModel model(GetParam());
    const Result<PiecewisePlanner> planner = PiecewisePlanner::create(std::make_shared<const ModuleInfo>(model.info()));
    ASSERT_TRUE(planner.ok()) << planner.error().message;
    PlanRequest request;
    request.worldSize = GetParam() % 3 == 0 ? 4 : 1;
    request.budget = Bytes{1} << 40;
    const Bytes most = planner->solve(request)->peak;
    request.budget = 1;
    const Bytes least = planner->solve(request)->leastBudget;
    ASSERT_LE(least, most);
    request.budget = least - 8;
    EXPECT_FALSE(bruteForce(model.info(), request)) << "a plan exists below the least budget";

    for (int step = 0; step < 5; ++step) {
        request.budget = least + 8 + (most - least) / 5 * step;
        const Plan plan = *planner->solve(request);
        EXPECT_EQ(plan.status, PlanStatus::optimal);
        EXPECT_EQ(plan.gap, 0);
        EXPECT_LE(plan.peak, request.budget);
        const std::optional<double> best = bruteForce(model.info(), request);
        ASSERT_TRUE(best);
        EXPECT_NEAR(plan.recomputeMs, *best, 1e-5 + 1e-5 * *best) << "at " << groupedDigits(request.budget);
    }
}

INSTANTIATE_TEST_SUITE_P(RandomModels, BruteForce, testing::Range(1U, 41U));

} // namespace
} // namespace headroom
