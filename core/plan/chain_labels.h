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

/// Label-setting dynamic programme along the chain: a label is what a path so far holds and takes. A label goes when
/// another beats it in both, when it can not fit any more, or when the prices say that nothing better than the known
/// path comes of it. With at most `width` labels a position (those of least bound) it is quick; a pass that had to
/// leave none of them away proves its answer.
class ChainLabels
{
public:
    ChainLabels(const ChainProblem& problem, Bytes budget, ChainPrices prices);

    /// No path takes less.
    double bound() const { return rest_.front(); }

    struct Pass
    {
        std::optional<ChainPath> path; ///< better than `below`; nothing when none was found
        bool complete = false; ///< nothing was left away: no path below the answer, or below `below`, exists
        std::size_t labels = 0;
    };
    Pass run(std::size_t width, std::optional<Picoseconds> below, const SearchLimit& limit) const;

private:
    struct Label
    {
        Bytes held = 0;
        Picoseconds time = 0;
        std::uint32_t before = 0; ///< index among the labels of the arc's first position
        ChainStep step;
    };
    using Labels = std::vector<Label>; ///< at a position: held ascending, time descending, so that none beats another

    double boundOf(const Label& label, int position) const;
    class Front;
    void extend(const Labels& from, int arc, double below, const SearchLimit& limit, Front& to) const;
    void narrow(Labels& labels, int position, std::size_t width) const;
    ChainPath pathTo(const std::vector<Labels>& labels, std::size_t end) const;

    const ChainProblem& problem_;
    Bytes budget_;
    std::vector<double> price_; ///< by position: of a byte held from there on
    std::vector<double> rest_; ///< by position: no completion takes less, for one that holds nothing
    std::vector<Bytes> leanest_; ///< by position: least that completions add to what is held
    std::vector<std::vector<int>> cheapestFirst_; ///< by arc: options by time and the price of what they hold
};

} // namespace headroom
