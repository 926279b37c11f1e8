// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

namespace headroom {

/// The outcome of a solve.
enum class MilpStatus {
    optimal, ///< the values are proven optimal, to the solver's tolerance
    feasible, ///< time limit or gap reached with values; `bound` holds
    infeasible,
    stopped, ///< the caller asked to stop
    timeout, ///< time limit reached without values; `bound` holds
    failed, ///< the solver failed: numerical instability or an internal error
};

struct MilpResult
{
    MilpStatus status = MilpStatus::failed;
    double objective = 0;
    double bound = -std::numeric_limits<double>::infinity(); ///< lower bound of the objective
    std::vector<double> values; ///< by column
    std::int64_t nodes = 0; ///< number of visited nodes of the search tree
};

/// Result of the linear relaxation: integer columns may have any value.
struct LinearResult
{
    MilpStatus status = MilpStatus::failed;
    double objective = 0;
    std::vector<double> values; ///< by column
    std::vector<double> duals; ///< by row: change of the objective when the row's bound grows by 1
};

struct MilpOptions
{
    std::stop_token stop;
    double limitMs = 10000;
    double gap = 0; ///< the search ends at this gap: (objective - bound) / objective
    bool cuts = false; ///< with Gomory's mixed integer cuts
    /// A known solution, by column. Branches without an improvement are pruned from the start.
    std::vector<double> incumbent;
};

/// A mixed integer linear programme (minimisation) in GLPK. GLPK's environment is thread-local: create, solve and
/// destroy a problem on the same thread. An error inside GLPK ends the solve, never the process; solutions found before
/// remain.
class GlpkProblem
{
public:
    struct Term
    {
        int column = 0;
        double coefficient = 0;
    };
    static constexpr double infinity = std::numeric_limits<double>::infinity();

    GlpkProblem();
    ~GlpkProblem();
    GlpkProblem(const GlpkProblem&) = delete;
    GlpkProblem& operator=(const GlpkProblem&) = delete;

    int addColumn(double lower, double upper, double cost, bool integer = false); ///< returns the number, from 0
    int addRow(std::span<const Term> terms, double lower, double upper); ///< returns the number, from 0
    /// Adds a continuous column of 0 or more to the rows so far, given as the numbers and coefficients of the rows.
    int addColumnTo(std::span<const std::pair<int, double>> rows, double cost);

    MilpResult solve(const MilpOptions& options = {});
    /// Solves the linear relaxation. A second call, after rows or columns were added, starts from the basis of the
    /// first.
    LinearResult relax(const SearchLimit& limit = SearchLimit::after(10000, {}));

private:
    struct Handle;
    std::unique_ptr<Handle> handle_;
    std::vector<bool> integer_;
    int rows_ = 0;
    bool relaxed_ = false; ///< a basis exists that relax() can start from
    bool hasNewColumns_ = false; ///< columns were added since
};

} // namespace headroom
