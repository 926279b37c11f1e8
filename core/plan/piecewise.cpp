// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/piecewise.h"

#include "core/base/elapsed.h"
#include "core/base/try.h"
#include "core/plan/piecewise_relaxation.h"
#include "core/plan/plan.h"

#include <algorithm>
#include <numeric>

namespace headroom {

struct PiecewisePlanner::Model
{
    PiecewiseModules modules;
    Baseline baseline;
};

namespace {

/// The rows of the MILP are the beginnings of backwards.
constexpr auto phaseOfRows = "backward";

/// Time limit of a search. After it the best plan so far is returned, with its gap.
constexpr double mostSearchMs = 10000;

/// Differences in ms below this are rounding of the solver.
double tolerance(double ms)
{
    return 1e-7 + 1e-6 * ms;
}

/// The cheapest choice of units that keeps every memory row within the budget.
struct PiecewiseSolution
{
    PlanStatus status = PlanStatus::feasible;
    std::vector<bool> chosen; ///< units that are checkpointed
    PiecewiseProblem::Discards discards;
    double boundMs = 0;
};

/// Solves relaxations with more and more memory rows, until a solution can be placed on single units at its own cost.
/// The budget must be at least problem.leastBudget().
class PiecewiseSearch
{
public:
    PiecewiseSearch(const PiecewiseProblem& problem, Bytes budget, std::stop_token stop)
        : problem_(problem)
        , budget_(budget)
        , limit_(SearchLimit::after(mostSearchMs, std::move(stop)))
        , allRows_(problem.rows().size())
    {
        std::iota(allRows_.begin(), allRows_.end(), 0);
    }

    Result<PiecewiseSolution> run();

private:
    bool start();
    void improve(std::vector<bool> chosen);
    bool proven() const { return best_.discards.ms - best_.boundMs <= tolerance(best_.discards.ms); }
    bool refine(const std::vector<bool>& chosen);
    PiecewiseSolution finished();

    const PiecewiseProblem& problem_;
    Bytes budget_;
    SearchLimit limit_;
    std::vector<int> allRows_;
    std::vector<int> active_; ///< rows of the relaxation
    std::size_t coarseness_ = PiecewiseModules::byMemoryAndTime;
    PiecewiseSolution best_;
};

/// Makes a first plan. Returns false if it is proven optimal already.
bool PiecewiseSearch::start()
{
    const auto units = problem_.units();
    std::vector<bool> forced(units.size());
    for (std::size_t unit = 0; unit < units.size(); ++unit)
        forced[unit] = units[unit].forced;
    if (const auto discards = problem_.allocate(forced, budget_, {}, PiecewiseProblem::Preference::later);
        problem_.peak(discards->bytes).bytes <= budget_) {
        best_.chosen = std::move(forced);
        best_.discards = *discards;
        best_.boundMs = discards->ms;
        return false;
    }
    improve(*problem_.mostDiscarding(budget_));
    active_ = {allRows_.back()};
    return true;
}

void PiecewiseSearch::improve(std::vector<bool> chosen)
{
    auto discards = problem_.allocate(chosen, budget_, allRows_, PiecewiseProblem::Preference::later);
    if (discards && (best_.chosen.empty() || discards->ms < best_.discards.ms)) {
        best_.chosen = std::move(chosen);
        best_.discards = std::move(*discards);
    }
}

/// Tightens the relaxation after a solution that cannot be placed: adds the row that is violated most. If none is, the
/// curves of the classes were too low, and classes get finer. Returns false if nothing is left to tighten.
bool PiecewiseSearch::refine(const std::vector<bool>& chosen)
{
    const auto discards = problem_.allocate(chosen, budget_, active_, PiecewiseProblem::Preference::earlier);
    if (discards) {
        const PiecewiseProblem::Peak peak = problem_.peak(discards->bytes);
        if (peak.bytes > budget_) {
            active_.insert(std::ranges::upper_bound(active_, peak.row), peak.row);
            return true;
        }
    }
    return ++coarseness_ < PiecewiseModules::coarsenessCount;
}

PiecewiseSolution PiecewiseSearch::finished()
{
    if (proven())
        best_.boundMs = best_.discards.ms;
    if (best_.status != PlanStatus::stopped)
        best_.status = proven() ? PlanStatus::optimal : PlanStatus::feasible;
    return std::move(best_);
}

Result<PiecewiseSolution> PiecewiseSearch::run()
{
    if (!start())
        return finished();
    while (limit_.remainingMs() > 0) {
        PiecewiseRelaxation relaxation(problem_, budget_, active_, coarseness_);
        MilpOptions options;
        options.stop = limit_.stop;
        options.limitMs = limit_.remainingMs();
        const MilpResult solution = relaxation.solve(options);
        if (solution.status == MilpStatus::failed || solution.status == MilpStatus::infeasible)
            return Error{ErrorKind::internal,
                         "GLPK found no plan for a budget that has one: please report the model and the budget"};
        best_.boundMs = std::max(best_.boundMs, solution.bound);
        if (solution.status == MilpStatus::stopped || limit_.stop.stop_requested()) {
            best_.status = PlanStatus::stopped;
            return finished();
        }
        if (solution.status != MilpStatus::timeout && !proven()) {
            const std::vector<bool> chosen = relaxation.place(solution, PiecewiseRelaxation::Order::outerFirst);
            improve(chosen);
            improve(relaxation.place(solution, PiecewiseRelaxation::Order::innerFirst));
            if (!proven() && solution.status == MilpStatus::optimal && refine(chosen))
                continue;
        }
        break;
    }
    return finished();
}

const std::string& moduleOfRow(const PiecewiseProblem& problem, int row)
{
    const int module = problem.rows()[static_cast<std::size_t>(row)].module;
    return problem.modules().tree.info->stats[static_cast<std::size_t>(module)].fqn;
}

/// The row of highest memory if as much as possible is discarded under `budget`.
int tightestRow(const PiecewiseProblem& problem, Bytes budget)
{
    const std::vector<bool> chosen = *problem.mostDiscarding(budget);
    std::vector<Bytes> discarded(chosen.size());
    for (std::size_t unit = 0; unit < chosen.size(); ++unit)
        discarded[unit] = chosen[unit] ? problem.curve(static_cast<int>(unit)).maxBytes() : 0;
    return problem.peak(discarded).row;
}

/// The least budget of another request; 0 if the request is not valid.
Bytes leastUnder(const PiecewiseModules& modules, const PlanRequest& request)
{
    const Result<PiecewiseProblem> problem = PiecewiseProblem::create(modules, request);
    return problem ? problem->leastBudget() : 0;
}

/// Tries what would make the budget feasible: fewer restrictions, then sharding over more GPUs.
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
    const auto begin = std::chrono::steady_clock::now();
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
        plan.solveMs = elapsedMs(begin);
        return plan;
    }

    ASSIGN_OR_RETURN(const PiecewiseSolution solution, PiecewiseSearch(problem, request.budget, std::move(stop)).run());
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
    plan.solveMs = elapsedMs(begin);
    return plan;
}

} // namespace headroom
