// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/chain_problem.h"
#include "core/plan/plan.h"

#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

namespace headroom {

inline constexpr double infiniteCost = std::numeric_limits<double>::infinity();

/// Times are whole picoseconds, so that a better path takes at least 1 less. The margin is below 1, since bounds are
/// rounded.
inline constexpr double leastImprovement = 0.75;

/// The dual price of each memory constraint of the problem, in picoseconds per byte, not negative. Any prices give a
/// lower bound; the duals of the linear relaxation give the best bound.
struct ChainPrices
{
    std::vector<double> position; ///< by position: price of the memory constraint
    double loss = 0; ///< price of the row of ChainProblem::atBoundary

    /// By position, and last for the loss: the price of a byte that is held from there on.
    std::vector<double> ofHeldBytes() const;
};

/// Label-setting dynamic programme for the resource-constrained shortest path along the chain, from both ends. A label
/// of the front is a path so far: the held bytes and the time. A label of the back is the rest of a path: the time, and
/// the memory that the rest needs if nothing is held before. A label is dropped when another label dominates, when the
/// label no longer fits the budget, or when the label's bound by the prices is not below the best known path. The side
/// with less work advances until front and back meet, so that each side enumerates about half of the chain. A pass
/// keeps at most `width` labels per position, by least bound. A pass that dropped no label for that reason proves the
/// answer.
///
/// Consecutive positions of the same class (ChainProblem::classes) are a run. The order of options within a run matters
/// only for the run's own memory constraints. So the constraints of a run are relaxed, and only deviations from the two
/// cheapest options are enumerated. If a path violates a relaxed constraint, the caller passes the constraint's
/// position in `own` to a new ChainLabels: such positions are in no run.
class ChainLabels
{
public:
    ChainLabels(const ChainProblem& problem, Bytes budget, const ChainPrices& prices, std::vector<bool> own = {});

    /// Lower bound of the time of every path.
    double bound() const { return rest_.front(); }

    struct Pass
    {
        /// The best path found that takes less than `below`; empty: none. The path may violate memory constraints of
        /// runs.
        std::optional<ChainPath> path;
        int broken = -1; ///< position of the first violated row; -1: none
        bool complete = false; ///< no label was dropped for `width`; no path takes less than `path`, or than `below`
        std::size_t labels = 0; ///< number of labels kept
    };
    Pass run(std::size_t width, std::optional<Picoseconds> below, const SearchLimit& limit) const;

private:
    class Search;

    void findRuns(const std::vector<double>& rowPrices, const std::vector<bool>& own);
    void findBounds();
    void sortOptions();
    void lineUp(ChainPath& path) const;
    int brokenRow(const ChainPath& path) const;
    bool isFree(std::size_t position) const { return runOf_[position] >= 0; }
    bool sameRun(int position, int other) const;
    double priceOf(const ChainOption& option, const ChainArc& arc) const;

    const ChainProblem* problem_;
    Bytes budget_;
    std::vector<double> price_; ///< ChainPrices::ofHeldBytes()
    std::vector<int> runOf_; ///< by position: first position of the run; -1: in no run
    std::vector<double> rest_; ///< by position: lower bound of all completions, if nothing is held
    std::vector<double> head_; ///< by position: lower bound of all beginnings, the price of the held bytes included
    std::vector<Bytes> leastNeed_; ///< by position: least memory that a completion needs
    std::vector<Bytes> leastHeld_; ///< by position: least bytes that a beginning holds
    std::vector<std::vector<int>> cheapestFirst_; ///< by arc: options by time plus the price of the held bytes
    std::vector<std::vector<int>> cheapestBack_; ///< by arc: options by priceOf()
    std::vector<std::vector<int>> arcsTo_; ///< by position: the arcs that end there
};

} // namespace headroom
