// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/chain_problem.h"

#include <chrono>
#include <optional>
#include <stop_token>
#include <vector>

namespace headroom {

/// What a byte is worth in each row of the problem: picoseconds a byte, not negative. Any prices give a bound; the
/// duals of the linear relaxation give the best.
struct ChainPrices
{
    std::vector<double> position; ///< of the row of each position
    double loss = 0;
};

/// Ends a search early: by the clock, or because nobody waits any more.
struct SearchLimit
{
    std::chrono::steady_clock::time_point end;
    std::stop_token stop;
    bool reached() const { return stop.stop_requested() || std::chrono::steady_clock::now() >= end; }
    double remainingMs() const
    {
        return std::chrono::duration<double, std::milli>(end - std::chrono::steady_clock::now()).count();
    }
};

/// Label-setting dynamic programme along the chain, from both ends: a label of the front is what a path so far holds
/// and takes; one of the back is the memory that the rest of a path needs, if nothing were held before it, and its
/// time. A label goes when another beats it in both, when it can not fit any more, or when the prices say that nothing
/// better than the known path comes of it. Front and back meet at the position where they are cheapest: labels are as
/// many as the sums of half the chain, not of all of it. With at most `width` labels a position (those of least bound)
/// it is quick; a pass that had to leave none of them away proves its answer.
///
/// Equal positions that follow one another are a run: in which order their options come only matters to what they take
/// themselves, so that the rows of a run are left out, and the two options that are cheapest at the prices come last.
/// What is left to combine is how a path deviates from them. A path that breaks such a row says where to look again:
/// `own` positions are in no run.
class ChainLabels
{
public:
    ChainLabels(const ChainProblem& problem, Bytes budget, ChainPrices prices, std::vector<bool> own = {});

    /// No path takes less.
    double bound() const { return rest_.front(); }

    struct Pass
    {
        /// Better than `below`; nothing when none was found. The rows of runs may be broken: `broken` is the first.
        std::optional<ChainPath> path;
        int broken = -1; ///< position
        bool complete = false; ///< nothing was left away: no path below the answer, or below `below`, exists
        std::size_t labels = 0;
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
    std::vector<double> price_; ///< by position: of a byte held from there on
    std::vector<int> runOf_; ///< by position; -1: in none
    std::vector<double> rest_; ///< by position: no completion takes less, for one that holds nothing
    std::vector<double> head_; ///< by position: no beginning takes less, what it holds there paid
    std::vector<Bytes> leastNeed_; ///< by position: the memory that completions need at least
    std::vector<Bytes> leastHeld_; ///< by position: what beginnings hold at least
    std::vector<std::vector<int>> cheapestFirst_; ///< by arc: options by time and the price of what they hold
    std::vector<std::vector<int>> cheapestBack_; ///< by arc: the same, the price of their own row with it
    std::vector<std::vector<int>> arcsTo_; ///< by position: the arcs that end there
};

} // namespace headroom
