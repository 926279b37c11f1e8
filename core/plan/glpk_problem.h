// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

namespace headroom {

/// How a solve ended.
enum class MilpStatus {
    optimal, ///< the values are proven best, to the solver's tolerance
    feasible, ///< ended by the time limit with values, and `bound` below them
    infeasible,
    stopped, ///< the caller asked to stop
    timeout, ///< ended by the time limit without values; `bound` holds
    failed, ///< the solver gave up: numerical trouble or an error of its own
};

struct MilpResult
{
    MilpStatus status = MilpStatus::failed;
    double objective = 0;
    double bound = -std::numeric_limits<double>::infinity(); ///< nothing better exists
    std::vector<double> values; ///< one a column
    std::int64_t nodes = 0; ///< of the search tree that were looked at
};

/// The linear relaxation: columns are not whole.
struct LinearResult
{
    MilpStatus status = MilpStatus::failed;
    double objective = 0;
    std::vector<double> values; ///< one a column
    std::vector<double> duals; ///< one a row: what the objective gains when the row's bound grows by one
};

struct MilpOptions
{
    std::stop_token stop;
    double limitMs = 10000;
    /// A known solution, one value a column: branches that cannot beat it are cut from the start.
    std::vector<double> incumbent;
};

/// A mixed integer linear programme in GLPK, minimised. GLPK's environment belongs to the thread that first used it:
/// create, solve and destroy a problem on one thread. An error inside GLPK ends the solve, never the process.
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

    int addColumn(double lower, double upper, double cost, bool integer = false); ///< its number, from 0
    int addRow(std::span<const Term> terms, double lower, double upper); ///< its number, from 0

    MilpResult solve(const MilpOptions& options = {});
    /// Asked again after rows were added, it goes on from the answer before.
    LinearResult relax(double limitMs = 10000);

private:
    struct Handle;
    std::unique_ptr<Handle> handle_;
    std::vector<bool> integer_;
    int rows_ = 0;
    bool relaxed_ = false; ///< there is a basis to go on from
};

} // namespace headroom
