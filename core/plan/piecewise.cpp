// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/piecewise.h"

#include "core/base/elapsed.h"
#include "core/base/try.h"
#include "core/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace headroom {

namespace {

/// The solver counts memory in GiB, so that numbers are neither huge nor tiny.
constexpr double memoryUnit = static_cast<double>(GiB);

} // namespace

PiecewiseRelaxation::PiecewiseRelaxation(const PiecewiseProblem& problem, Bytes budget, std::vector<int> activeRows,
                                         std::size_t coarseness)
    : problem_(&problem)
    , activeRows_(std::move(activeRows))
    , discards_(activeRows_.size())
{
    findGroups(coarseness);
    addColumns();
    addPaths();
    addMemory(budget);
    addCapacity(budget);
}

void PiecewiseRelaxation::findGroups(std::size_t coarseness)
{
    // Units have equal signatures if class, interval and the signatures inside are equal. Inner units come first.
    const auto units = problem_->units();
    std::map<std::vector<int>, int> known;
    std::vector<int> signatures(units.size());
    std::vector<int> outermost;
    std::size_t interval = 0;
    for (std::size_t i = 0; i < units.size(); ++i) {
        while (interval < activeRows_.size()
               && problem_->rows()[static_cast<std::size_t>(activeRows_[interval])].units <= static_cast<int>(i))
            ++interval;
        const PiecewiseModules::Module& module = problem_->modules().modules[static_cast<std::size_t>(units[i].module)];
        std::vector<int> key{module.classes[coarseness], static_cast<int>(interval), units[i].forced ? 1 : 0};
        for (const int child : units[i].children)
            key.push_back(signatures[static_cast<std::size_t>(child)]);
        std::sort(key.begin() + 3, key.end());
        signatures[i] = known.emplace(std::move(key), static_cast<int>(known.size())).first->second;
        if (units[i].parent < 0)
            outermost.push_back(static_cast<int>(i));
    }
    addGroup(outermost, -1, signatures, coarseness);
}

/// Splits siblings into groups by signature, then the units inside each group.
void PiecewiseRelaxation::addGroup(const std::vector<int>& members, int parent, const std::vector<int>& signatures,
                                   std::size_t coarseness)
{
    std::map<int, std::vector<int>> bySignature;
    for (const int member : members)
        bySignature[signatures[static_cast<std::size_t>(member)]].push_back(member);
    for (auto& [signature, same] : bySignature) {
        const auto first = static_cast<std::size_t>(same.front());
        const PlanUnit& unit = problem_->units()[first];
        Group group;
        group.parent = parent;
        group.forced = unit.forced;
        group.curve = &problem_->modules().classCurves[coarseness][static_cast<std::size_t>(
            problem_->modules().modules[static_cast<std::size_t>(unit.module)].classes[coarseness])];
        for (const int row : activeRows_)
            group.interval += problem_->rows()[static_cast<std::size_t>(row)].units <= same.front() ? 1 : 0;
        std::vector<int> inside;
        for (const int member : same) {
            const auto& children = problem_->units()[static_cast<std::size_t>(member)].children;
            inside.insert(inside.end(), children.begin(), children.end());
        }
        group.members = std::move(same);
        // A group that no active memory constraint counts is never worth the time.
        const bool useful = group.interval < static_cast<int>(activeRows_.size()) || group.forced;
        int nearest = parent;
        if (useful) {
            group.countColumn = 0; // numbered by addColumns()
            nearest = static_cast<int>(groups_.size());
            if (parent >= 0)
                groups_[static_cast<std::size_t>(parent)].leaf = false;
            groups_.push_back(std::move(group));
        }
        if (!inside.empty())
            addGroup(inside, nearest, signatures, coarseness);
    }
}

void PiecewiseRelaxation::addColumns()
{
    for (Group& group : groups_) {
        const auto size = static_cast<double>(group.members.size());
        group.countColumn = milp_.addColumn(group.forced ? size : 0, size, group.curve->baseMs(), true);
        const bool counted = group.interval < static_cast<int>(activeRows_.size());
        if (!counted)
            continue;
        auto& terms = discards_[static_cast<std::size_t>(group.interval)];
        if (group.curve->freeBytes() > 0)
            terms.push_back({group.countColumn, static_cast<double>(group.curve->freeBytes()) / memoryUnit});
        for (const RecomputeCurve::Piece& piece : group.curve->pieces()) {
            const double width = static_cast<double>(piece.bytes) / memoryUnit;
            const int column = milp_.addColumn(0, width * size, piece.msPerByte * memoryUnit);
            const GlpkProblem::Term shares[] = {{column, 1}, {group.countColumn, -width}};
            milp_.addRow(shares, -GlpkProblem::infinity, 0);
            terms.push_back({column, 1});
        }
    }
}

void PiecewiseRelaxation::addPaths()
{
    for (const Group& group : groups_) {
        if (!group.leaf || group.parent < 0)
            continue; // a path with a single group needs no row: the column's bound is enough
        const auto size = static_cast<double>(group.members.size());
        std::vector<GlpkProblem::Term> path{{group.countColumn, 1}};
        for (int outer = group.parent; outer >= 0; outer = groups_[static_cast<std::size_t>(outer)].parent) {
            const Group& around = groups_[static_cast<std::size_t>(outer)];
            path.push_back({around.countColumn, size / static_cast<double>(around.members.size())});
        }
        milp_.addRow(path, -GlpkProblem::infinity, size);
    }
}

void PiecewiseRelaxation::addMemory(Bytes budget)
{
    int before = -1;
    for (std::size_t row = 0; row < activeRows_.size(); ++row) {
        const Bytes required = problem_->rows()[static_cast<std::size_t>(activeRows_[row])].required;
        const double least = static_cast<double>(std::max<Bytes>(required - budget, 0)) / memoryUnit;
        const int sum = milp_.addColumn(least, GlpkProblem::infinity, 0);
        std::vector<GlpkProblem::Term> terms = discards_[row];
        if (before >= 0)
            terms.push_back({before, 1});
        terms.push_back({sum, -1});
        milp_.addRow(terms, 0, 0);
        before = sum;
    }
}

/// Adds rows with the least number of units that must be checkpointed, if each unit discards everything. The memory
/// constraints imply this number only to the solver's tolerance; counted in multiples of the units' greatest common
/// divisor the solver sees the difference of a byte.
void PiecewiseRelaxation::addCapacity(Bytes budget)
{
    for (std::size_t row = 0; row < activeRows_.size(); ++row) {
        Bytes measure = 0;
        for (const Group& group : groups_)
            if (group.interval <= static_cast<int>(row))
                measure = std::gcd(measure, group.curve->maxBytes());
        const Bytes missing = problem_->rows()[static_cast<std::size_t>(activeRows_[row])].required - budget;
        if (measure == 0 || missing <= 0)
            continue;
        std::vector<GlpkProblem::Term> terms;
        for (const Group& group : groups_)
            if (group.interval <= static_cast<int>(row)) {
                const Bytes multiple = group.curve->maxBytes() / measure;
                terms.push_back({group.countColumn, static_cast<double>(multiple)});
            }
        const Bytes least = (missing + measure - 1) / measure;
        milp_.addRow(terms, static_cast<double>(least), GlpkProblem::infinity);
    }
}

MilpResult PiecewiseRelaxation::solve(const MilpOptions& options)
{
    return milp_.solve(options);
}

std::vector<bool> PiecewiseRelaxation::place(const MilpResult& solution, Order order) const
{
    const auto units = problem_->units();
    std::vector<bool> chosen(units.size());
    for (const Group& group : groups_) {
        std::vector<int> available;
        for (const int member : group.members) {
            bool inside = false;
            for (int outer = units[static_cast<std::size_t>(member)].parent; outer >= 0 && !inside;
                 outer = units[static_cast<std::size_t>(outer)].parent)
                inside = chosen[static_cast<std::size_t>(outer)];
            if (!inside)
                available.push_back(member);
        }
        const auto wanted
            = static_cast<std::size_t>(std::lround(solution.values[static_cast<std::size_t>(group.countColumn)]));
        const std::size_t count = std::min(wanted, available.size());
        const std::size_t first = order == Order::innerFirst && !group.leaf ? available.size() - count : 0;
        for (std::size_t i = first; i < first + count; ++i)
            chosen[static_cast<std::size_t>(available[i])] = true;
    }
    return chosen;
}

struct PiecewisePlanner::Model
{
    PiecewiseModules modules;
    Baseline baseline;
};

namespace {

/// The rows of the MILP are the beginnings of backwards.
constexpr auto phaseOfRows = "backward";

/// Time limit of a search. After the limit the best plan so far is returned, with the gap.
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

/// Solves relaxations with more and more memory constraints, until a solution can be placed on single units at the
/// solution's cost. The budget must be at least problem.leastBudget().
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

/// Makes a first plan. Returns false if that plan is proven optimal already.
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
                         "GLPK found no plan although a plan exists: please report the model and the budget"};
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
    return "a smaller batch or a shorter sequence would lower the peak";
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
    plan.gap = gapTo(plan.boundMs, plan.recomputeMs);
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
