// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/glpk_problem.h"

#include <glpk.h>

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <limits>
#include <utility>

namespace headroom {

namespace {

constexpr double quickSearchMs = 50; ///< limit of the search with GLPK's plain branching

/// The work of an iteration of the simplex method, or of a node of the search tree, in nanoseconds: a constant, and a
/// part for each entry of the matrix.
struct GlpkWork
{
    double constant = 0;
    double perEntry = 0;
    double of(glp_prob* problem) const { return constant + perEntry * glp_get_num_nz(problem); }
};
constexpr GlpkWork iterationWork{2000, 3};
constexpr GlpkWork treeIterationWork{20'000, 5};
constexpr GlpkWork nodeWork{20'000, 50};
constexpr double nsPerActiveNode = 60; ///< work of a node: the next node and the gap are sought among all active nodes
constexpr GlpkWork cutsOfRootWork{0, 150}; ///< a round
constexpr GlpkWork simplexWork{10'000, 30}; ///< of a call

/// GLPK's environment of a thread: silent, and freed at the end of the thread.
struct Environment
{
    std::uint64_t generation = 0; ///< number of errors: each error freed the environment with all problems

    ~Environment() { glp_free_env(); }
};

Environment& environment()
{
    thread_local Environment instance;
    return instance;
}

extern "C" void leaveGlpk(void* info)
{
    std::longjmp(*static_cast<std::jmp_buf*>(info), 1);
}

/// Takes what GLPK would print. An error inside GLPK prints whatever glp_term_out() says, to the standard output, where
/// JSON may stand.
extern "C" int takeOutput(void*, const char*)
{
    return 1; // not to be printed
}

/// Runs `call`, which enters GLPK. Returns false after an error inside GLPK, since such an error would end the process.
/// The documented way out is a jump over GLPK's frames; then the environment must be freed. `call` must hold nothing
/// that has a destructor.
template <class Call>
bool guarded(Call&& call)
{
    std::jmp_buf escape;
    glp_error_hook(leaveGlpk, &escape);
    glp_term_hook(takeOutput, nullptr);
    // NOLINTNEXTLINE(cert-err52-cpp): the jump crosses frames of C only.
    if (setjmp(escape) != 0) {
        glp_free_env();
        ++environment().generation;
        return false;
    }
    call();
    glp_error_hook(nullptr, nullptr);
    return true;
}

int wholeOf(double number)
{
    return static_cast<int>(std::clamp(number, 1.0, static_cast<double>(std::numeric_limits<int>::max())));
}

glp_smcp simplexParameters(glp_prob* problem, const SearchLimit& limit)
{
    glp_smcp parameters;
    glp_init_smcp(&parameters);
    parameters.msg_lev = GLP_MSG_OFF;
    parameters.tm_lim = wholeOf(limit.clockMs());
    parameters.it_lim = wholeOf(limit.remainingMs() * 1e6 / iterationWork.of(problem));
    return parameters;
}

/// glp_simplex(), with the work counted.
int countedSimplex(glp_prob* problem, const SearchLimit& limit, int method = GLP_PRIMAL)
{
    glp_smcp parameters = simplexParameters(problem, limit);
    parameters.meth = method;
    const int before = glp_get_it_cnt(problem);
    const int failure = glp_simplex(problem, &parameters);
    if (failure == GLP_ETMLIM)
        limit.reached(); // notes that the clock ended the search
    SearchLimit::count(1, simplexWork.of(problem));
    SearchLimit::count(glp_get_it_cnt(problem) - before, iterationWork.of(problem));
    return failure;
}

int boundType(double lower, double upper)
{
    if (lower == upper)
        return GLP_FX;
    if (std::isfinite(lower) && std::isfinite(upper))
        return GLP_DB;
    if (std::isfinite(lower))
        return GLP_LO;
    return std::isfinite(upper) ? GLP_UP : GLP_FR;
}

/// The state of the branch-and-bound callback.
struct SearchState
{
    const SearchLimit* limit = nullptr;
    int iterations = 0; ///< GLPK's count, up to which work is counted
    std::vector<double> incumbent; ///< shifted by one, as GLPK counts; empty without an incumbent
    bool incumbentGiven = false;
    bool limitReached = false;
    bool gapReached = false;
    double bound = -std::numeric_limits<double>::infinity();
    std::int64_t nodes = 0;

    /// Sets the solution that the next search starts from, by column.
    void setIncumbent(const std::vector<double>& values)
    {
        incumbent.assign(values.empty() ? 0 : 1, 0.0);
        incumbent.insert(incumbent.end(), values.begin(), values.end());
        incumbentGiven = false;
    }
};

extern "C" void duringSearch(glp_tree* tree, void* info)
{
    auto& state = *static_cast<SearchState*>(info);
    const int reason = glp_ios_reason(tree);
    glp_prob* problem = glp_ios_get_prob(tree);
    const int iterations = glp_get_it_cnt(problem);
    SearchLimit::count(iterations - std::exchange(state.iterations, iterations), treeIterationWork.of(problem));
    if (reason == GLP_ISELECT) {
        ++state.nodes;
        int active = 0;
        glp_ios_tree_size(tree, &active, nullptr, nullptr);
        SearchLimit::count(1, nodeWork.of(problem));
        SearchLimit::count(active, nsPerActiveNode);
    }
    if (reason == GLP_ICUTGEN && glp_ios_node_level(tree, glp_ios_curr_node(tree)) == 0)
        SearchLimit::count(1, cutsOfRootWork.of(problem));
    if (state.limit->reached()) {
        state.limitReached = true;
        if (const int best = glp_ios_best_node(tree))
            state.bound = glp_ios_node_bound(tree, best);
        glp_ios_terminate(tree);
        return;
    }
    if (reason == GLP_IHEUR && !state.incumbent.empty() && !state.incumbentGiven) {
        state.incumbentGiven = true;
        glp_ios_heur_sol(tree, state.incumbent.data());
    }
}

} // namespace

struct GlpkProblem::Handle
{
    glp_prob* problem = nullptr; ///< null after an error
    std::uint64_t generation = environment().generation;

    bool alive() const { return problem != nullptr && generation == environment().generation; }

    MilpStatus solveRelaxation(const SearchLimit& limit) const;
    MilpStatus solveAgain(const SearchLimit& limit, int method) const;
    MilpStatus search(SearchState& state, int branching, const MilpOptions& options, const SearchLimit& limit) const;
    void take(MilpResult& result, const SearchState& state) const;
};

MilpStatus GlpkProblem::Handle::solveRelaxation(const SearchLimit& limit) const
{
    int failure = 0;
    int status = GLP_UNDEF;
    if (!guarded([&] {
            glp_scale_prob(problem, GLP_SF_AUTO);
            glp_adv_basis(problem, 0);
            failure = countedSimplex(problem, limit);
            status = glp_get_status(problem);
            if (failure != 0 || status != GLP_OPT) {
                // A degenerate problem was once called infeasible from the advanced basis: ask again from the plain
                // basis.
                glp_std_basis(problem);
                failure = countedSimplex(problem, limit);
                status = glp_get_status(problem);
            }
        }))
        return MilpStatus::failed;
    if (failure == GLP_ETMLIM || failure == GLP_EITLIM)
        return MilpStatus::timeout;
    if (failure == 0 && status == GLP_OPT)
        return MilpStatus::optimal;
    return failure == 0 && (status == GLP_NOFEAS || status == GLP_INFEAS) ? MilpStatus::infeasible : MilpStatus::failed;
}

/// Solves from the last basis. Rows added since may have made the basis infeasible, so that the dual simplex is the
/// fast method; after new columns the basis is still feasible.
MilpStatus GlpkProblem::Handle::solveAgain(const SearchLimit& limit, int method) const
{
    int failure = 0;
    int status = GLP_UNDEF;
    if (!guarded([&] {
            failure = countedSimplex(problem, limit, method);
            status = glp_get_status(problem);
        }))
        return MilpStatus::failed;
    return failure == 0 && status == GLP_OPT ? MilpStatus::optimal : MilpStatus::failed;
}

MilpStatus GlpkProblem::Handle::search(SearchState& state, int branching, const MilpOptions& options,
                                       const SearchLimit& limit) const
{
    state.limit = &limit;
    state.limitReached = false;
    glp_iocp parameters;
    glp_init_iocp(&parameters);
    parameters.msg_lev = GLP_MSG_OFF;
    parameters.br_tech = branching;
    parameters.bt_tech = GLP_BT_BLB;
    parameters.tol_int = 1e-7;
    parameters.tol_obj = 1e-9;
    parameters.mip_gap = options.gap;
    parameters.tm_lim = wholeOf(limit.clockMs());
    parameters.gmi_cuts = options.cuts ? GLP_ON : GLP_OFF;
    parameters.cb_func = duringSearch;
    parameters.cb_info = &state;
    int failure = 0;
    int status = GLP_UNDEF;
    if (!guarded([&] {
            state.iterations = glp_get_it_cnt(problem);
            failure = glp_intopt(problem, &parameters);
            status = glp_mip_status(problem);
        }))
        return MilpStatus::failed;
    if (state.limitReached && limit.stop.stop_requested())
        return MilpStatus::stopped;
    if (status == GLP_OPT)
        return MilpStatus::optimal;
    if (status == GLP_NOFEAS)
        return MilpStatus::infeasible;
    state.gapReached = failure == GLP_EMIPGAP;
    if (failure == GLP_ETMLIM)
        limit.reached(); // as above
    if (failure == GLP_ETMLIM || state.limitReached || state.gapReached)
        return status == GLP_FEAS ? MilpStatus::feasible : MilpStatus::timeout;
    return MilpStatus::failed;
}

/// Takes the solution of the last search, unless the search ended in an error or the solution before was better.
void GlpkProblem::Handle::take(MilpResult& result, const SearchState& state) const
{
    result.nodes = state.nodes;
    if (!alive())
        return;
    const int found = glp_mip_status(problem);
    if ((found == GLP_OPT || found == GLP_FEAS)
        && (result.values.empty() || glp_mip_obj_val(problem) <= result.objective)) {
        result.objective = glp_mip_obj_val(problem);
        result.values.clear();
        for (int column = 1; column <= glp_get_num_cols(problem); ++column)
            result.values.push_back(glp_mip_col_val(problem, column));
    }
    result.bound = found == GLP_OPT ? result.objective : std::max(result.bound, state.bound);
}

GlpkProblem::GlpkProblem()
    : handle_(std::make_unique<Handle>())
{
    guarded([this] {
        handle_->problem = glp_create_prob();
        glp_set_obj_dir(handle_->problem, GLP_MIN);
    });
}

GlpkProblem::~GlpkProblem()
{
    if (handle_->alive())
        guarded([this] { glp_delete_prob(handle_->problem); });
}

int GlpkProblem::addColumn(double lower, double upper, double cost, bool integer)
{
    const int column = static_cast<int>(integer_.size());
    integer_.push_back(integer);
    if (handle_->alive())
        guarded([&] {
            glp_add_cols(handle_->problem, 1);
            glp_set_col_kind(handle_->problem, column + 1, integer ? GLP_IV : GLP_CV);
            glp_set_col_bnds(handle_->problem, column + 1, boundType(lower, upper), lower, upper);
            glp_set_obj_coef(handle_->problem, column + 1, cost);
        });
    return column;
}

int GlpkProblem::addRow(std::span<const Term> terms, double lower, double upper)
{
    std::vector<int> columns{0};
    std::vector<double> coefficients{0};
    for (const Term& term : terms) {
        columns.push_back(term.column + 1);
        coefficients.push_back(term.coefficient);
    }
    if (handle_->alive())
        guarded([&] {
            const int row = glp_add_rows(handle_->problem, 1);
            glp_set_mat_row(handle_->problem, row, static_cast<int>(terms.size()), columns.data(), coefficients.data());
            glp_set_row_bnds(handle_->problem, row, boundType(lower, upper), lower, upper);
        });
    return rows_++;
}

int GlpkProblem::addColumnTo(std::span<const std::pair<int, double>> rows, double cost)
{
    const int column = addColumn(0, infinity, cost);
    std::vector<int> numbers{0};
    std::vector<double> coefficients{0};
    for (const auto& [row, coefficient] : rows) {
        numbers.push_back(row + 1);
        coefficients.push_back(coefficient);
    }
    if (handle_->alive())
        guarded([&] {
            glp_set_mat_col(handle_->problem, column + 1, static_cast<int>(rows.size()), numbers.data(),
                            coefficients.data());
        });
    hasNewColumns_ = true;
    return column;
}

LinearResult GlpkProblem::relax(const SearchLimit& limit)
{
    LinearResult result;
    if (!handle_->alive())
        return result;
    const int method = std::exchange(hasNewColumns_, false) ? GLP_PRIMAL : GLP_DUALP;
    result.status = relaxed_ ? handle_->solveAgain(limit, method) : handle_->solveRelaxation(limit);
    if (result.status != MilpStatus::optimal && relaxed_ && !limit.reached())
        result.status = handle_->solveRelaxation(limit);
    relaxed_ = result.status == MilpStatus::optimal;
    if (!relaxed_)
        return result;
    glp_prob* problem = handle_->problem;
    result.objective = glp_get_obj_val(problem);
    for (int column = 1; column <= static_cast<int>(integer_.size()); ++column)
        result.values.push_back(glp_get_col_prim(problem, column));
    for (int row = 1; row <= rows_; ++row)
        result.duals.push_back(glp_get_row_dual(problem, row));
    return result;
}

MilpResult GlpkProblem::solve(const MilpOptions& options)
{
    MilpResult result;
    const SearchLimit limit = SearchLimit::after(options.limitMs, options.stop);
    const LinearResult relaxed = relax(limit);
    result.status = relaxed.status;
    if (result.status != MilpStatus::optimal)
        return result;
    result.bound = result.objective = relaxed.objective;
    if (std::ranges::find(integer_, true) == integer_.end()) {
        result.values = relaxed.values;
        return result;
    }

    SearchState state;
    state.setIncumbent(options.incumbent);
    // GLPK's plain branching solves most problems at once; on the others pseudo-costs are ten times faster.
    const SearchLimit quick = SearchLimit::after(std::min(limit.remainingMs(), quickSearchMs), options.stop);
    result.status = handle_->search(state, GLP_BR_DTH, options, quick);
    handle_->take(result, state);
    if (!state.gapReached && (result.status == MilpStatus::feasible || result.status == MilpStatus::timeout)) {
        // After an error the result is that of the first search.
        state.setIncumbent(result.values.empty() ? options.incumbent : result.values);
        const MilpStatus status = handle_->search(state, GLP_BR_PCH, options, limit);
        handle_->take(result, state);
        if (handle_->alive())
            result.status = status == MilpStatus::timeout && !result.values.empty() ? MilpStatus::feasible : status;
    }
    if (state.gapReached)
        result.bound = std::max(result.bound, result.objective - options.gap * std::abs(result.objective));
    return result;
}

} // namespace headroom
