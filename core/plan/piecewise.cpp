// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/piecewise.h"

#include "core/base/try.h"
#include "core/plan/piecewise_problem.h"
#include "core/plan/piecewise_search.h"

#include <algorithm>
#include <chrono>

namespace headroom {

struct PiecewisePlanner::Model
{
    PiecewiseModules modules;
    Baseline baseline;
};

namespace {

using Clock = std::chrono::steady_clock;

/// The rows of the MILP are the beginnings of backwards.
constexpr auto phaseOfRows = "backward";

double msSince(Clock::time_point begin)
{
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

const std::string& moduleOfRow(const PiecewiseProblem& problem, int row)
{
    const int module = problem.rows()[static_cast<std::size_t>(row)].module;
    return problem.modules().tree.info->stats[static_cast<std::size_t>(module)].fqn;
}

/// Where memory is highest when everything that fits `budget` was discarded.
int tightestRow(const PiecewiseProblem& problem, Bytes budget)
{
    const std::vector<bool> chosen = *problem.mostDiscarding(budget);
    std::vector<Bytes> discarded(chosen.size());
    for (std::size_t unit = 0; unit < chosen.size(); ++unit)
        discarded[unit] = chosen[unit] ? problem.curve(static_cast<int>(unit)).maxBytes() : 0;
    return problem.peak(discarded).row;
}

/// The least budget under another request; 0 when it is not to be had.
Bytes leastUnder(const PiecewiseModules& modules, const PlanRequest& request)
{
    const Result<PiecewiseProblem> problem = PiecewiseProblem::create(modules, request);
    return problem ? problem->leastBudget() : 0;
}

/// What would make the budget feasible, tried out: fewer restrictions, then sharding over more GPUs.
std::string whatWouldHelp(const PiecewiseModules& modules, const PlanRequest& request)
{
    if (!request.acUnits.empty() || !request.pins.empty()) {
        PlanRequest free = request;
        free.acUnits.clear();
        free.pins.clear();
        if (const Bytes least = leastUnder(modules, free); least > 0 && least <= request.budget)
            return "without pins and AC units plans exist from " + formatBytes(least) + " on";
    }
    PlanRequest wider = request;
    for (wider.worldSize = 2; wider.worldSize <= 4096; wider.worldSize *= 2)
        if (wider.worldSize > request.worldSize)
            if (const Bytes least = leastUnder(modules, wider); least > 0 && least <= request.budget)
                return "sharding parameters and gradients over " + std::to_string(wider.worldSize)
                    + " GPUs (world size) would bring that down to " + formatBytes(least);
    return "a smaller batch or a shorter sequence would lower it";
}

std::string whyInfeasible(const PiecewiseProblem& problem, const PlanRequest& request, const std::string& module,
                          Bytes least)
{
    return "No plan fits " + formatBytes(request.budget)
        + ": with all activations discarded that may be, the backward of " + module + " still begins with "
        + formatBytes(least) + " (" + groupedDigits(least) + " B), the least budget; "
        + whatWouldHelp(problem.modules(), request) + ".";
}

} // namespace

PiecewisePlanner::PiecewisePlanner(std::shared_ptr<const Model> model)
    : model_(std::move(model))
{
}

Result<PiecewisePlanner> PiecewisePlanner::create(ModuleInfoPtr info)
{
    ASSIGN_OR_RETURN(PiecewiseModules modules, PiecewiseModules::create(std::move(info)));
    const Baseline baseline = headroom::baseline(*modules.tree.info);
    return PiecewisePlanner(std::make_shared<const Model>(Model{std::move(modules), baseline}));
}

const ModuleInfo& PiecewisePlanner::moduleInfo() const noexcept
{
    return *model_->modules.tree.info;
}

Result<Plan> PiecewisePlanner::solve(const PlanRequest& request, std::stop_token stop) const
{
    const auto begin = Clock::now();
    const PiecewiseModules& modules = model_->modules;
    ASSIGN_OR_RETURN(const PiecewiseProblem problem, PiecewiseProblem::create(modules, request));

    Plan plan;
    plan.budget = request.budget;
    plan.worldSize = request.worldSize;
    plan.baselinePeak = model_->baseline.peak;
    plan.stepMs = model_->baseline.computeMs;
    plan.leastBudget = problem.leastBudget();
    plan.binding.phase = phaseOfRows;
    if (request.budget < plan.leastBudget) {
        plan.binding.module = moduleOfRow(problem, tightestRow(problem, plan.leastBudget));
        plan.reason = whyInfeasible(problem, request, plan.binding.module, plan.leastBudget);
        plan.solveMs = msSince(begin);
        return plan;
    }

    ASSIGN_OR_RETURN(const PiecewiseSolution solution, searchPiecewise(problem, request.budget, std::move(stop)));
    const PiecewiseProblem::Peak peak = problem.peak(solution.discards.bytes);
    plan.status = solution.status;
    plan.peak = peak.bytes;
    plan.binding.module = moduleOfRow(problem, peak.row);
    plan.recomputeMs = solution.discards.ms;
    plan.boundMs = solution.boundMs;
    plan.gap = plan.recomputeMs > 0 ? (plan.recomputeMs - plan.boundMs) / plan.recomputeMs : 0;
    for (std::size_t unit = 0; unit < solution.chosen.size(); ++unit) {
        if (!solution.chosen[unit])
            continue;
        const ModuleStats& stats = modules.tree.info->stats[static_cast<std::size_t>(problem.units()[unit].module)];
        // d = ACM * r - (ACM - IA), where sac_milp takes ACM for no less than IA
        const Bytes all = std::max(stats.sacMemory, stats.activationForward);
        plan.decisions[stats.fqn] = static_cast<double>(solution.discards.bytes[unit] + all - stats.activationForward)
            / static_cast<double>(all);
    }
    plan.solveMs = msSince(begin);
    return plan;
}

} // namespace headroom
