// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/chain_planner.h"

#include "core/plan/chain_relaxation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace headroom {

namespace {

/// The most labels kept at a position, by pass.
constexpr std::array<std::size_t, 3> widths{100, 6000, 400000};
/// Violated rows of runs that are added one by one; after them all rows are added.
constexpr int mostBroken = 3;

/// One solve: holds the best path so far and a lower bound of the least time.
class ChainSearch
{
public:
    ChainSearch(const ChainProblem& problem, Bytes budget, const ChainOptions& options)
        : problem_(problem)
        , budget_(budget)
        , options_(options)
        , limit_(SearchLimit::after(options.limitMs, options.stop))
    {
    }

    ChainAnswer run()
    {
        const std::optional<ChainPath> leanest = leanestPath(problem_, budget_);
        if (!leanest) {
            answer_.status = ChainStatus::infeasible;
            return answer_;
        }
        take(*leanest);
        answer_.bound = 0;
        if (!good() && !options_.stop.stop_requested())
            label();
        answer_.status = answer_.bound >= answer_.value.time ? ChainStatus::optimal : ChainStatus::feasible;
        answer_.bound = std::min(answer_.bound, answer_.value.time);
        if (limit_.stop.stop_requested() && answer_.status != ChainStatus::optimal)
            answer_.status = ChainStatus::stopped;
        return answer_;
    }

private:
    void take(const ChainPath& path)
    {
        const ChainValue value = valueOf(problem_, path);
        if (value.peak > budget_ || (!answer_.path.empty() && value.time >= answer_.value.time))
            return;
        answer_.path = path;
        answer_.value = value;
    }

    /// Only paths that take less than this are searched.
    Picoseconds limitOfTime() const
    {
        return options_.below ? std::min(*options_.below, answer_.value.time) : answer_.value.time;
    }

    bool good() const
    {
        return answer_.bound >= limitOfTime()
            || static_cast<double>(answer_.value.time - answer_.bound)
            <= options_.gap * static_cast<double>(answer_.value.time);
    }

    /// Improves a path step by step: each step takes the option that is best while all others stay. A path close to the
    /// best one lets the labels be pruned early.
    void improve(ChainPath path)
    {
        const std::vector<Bytes> after = peaksAfter(path);
        ChainValue value = valueOf(problem_, path);
        Bytes before = problem_.constant; // peak of the steps before
        Bytes held = 0;
        for (std::size_t i = 0; i < path.size(); ++i) {
            const std::vector<ChainOption>& options = problem_.arcs[at(path[i].arc)].options;
            const Picoseconds others = value.time - options[at(path[i].option)].time;
            for (std::size_t option = 0; option < options.size(); ++option) {
                const ChainOption& other = options[option];
                const ChainValue changed{others + other.time,
                                         std::max({before, held + other.high, held + other.held + after[i + 1]})};
                const bool fits = changed.peak <= budget_;
                if ((fits && (value.peak > budget_ || changed.time < value.time))
                    || (!fits && changed.peak < value.peak)) {
                    value = changed;
                    path[i].option = static_cast<int>(option);
                }
            }
            const ChainOption& taken = options[at(path[i].option)];
            before = std::max(before, held + taken.high);
            held += taken.held;
        }
        take(path);
    }

    /// By step: the peak from that step on, if nothing were held before it.
    std::vector<Bytes> peaksAfter(const ChainPath& path) const
    {
        std::vector<Bytes> peaks(path.size() + 1, problem_.atLoss);
        for (std::size_t i = path.size(); i-- > 0;) {
            const ChainOption& option = problem_.option(path[i]);
            peaks[i] = std::max(option.high, option.held + peaks[i + 1]);
        }
        return peaks;
    }

    void label()
    {
        ChainRelaxation relaxation = relax(problem_, budget_, answer_.path, limit_);
        improve(std::move(relaxation.rounded));
        answer_.price = std::accumulate(relaxation.prices.position.begin(), relaxation.prices.position.end(),
                                        relaxation.prices.loss);
        ChainLabels labels(problem_, budget_, relaxation.prices);
        answer_.bound = std::max(answer_.bound, static_cast<Picoseconds>(std::ceil(labels.bound() - 0.5)));
        std::vector<bool> own(at(problem_.positions), false);
        int broken = 0;
        for (const std::size_t width : widths) {
            if (good() || limit_.reached() || (!options_.proof && width > widths.front()))
                return;
            while (!good() && !limit_.reached()) {
                const int row = pass(labels, width);
                if (row < 0)
                    break;
                own[at(row)] = true;
                if (++broken > mostBroken)
                    own.assign(own.size(), true);
                labels = ChainLabels(problem_, budget_, relaxation.prices, own);
            }
        }
    }

    /// Runs one pass. Returns the row that its path violates, or -1.
    int pass(const ChainLabels& labels, std::size_t width)
    {
        const ChainLabels::Pass pass = labels.run(width, limitOfTime(), limit_);
        answer_.nodes += static_cast<std::int64_t>(pass.labels);
        if (pass.path && pass.broken < 0)
            take(*pass.path);
        if (pass.complete)
            answer_.bound
                = std::max(answer_.bound, pass.broken < 0 ? limitOfTime() : valueOf(problem_, *pass.path).time);
        return pass.broken;
    }

    const ChainProblem& problem_;
    Bytes budget_;
    const ChainOptions& options_;
    SearchLimit limit_;
    ChainAnswer answer_;
};

} // namespace

ChainAnswer solveChain(const ChainProblem& problem, Bytes budget, const ChainOptions& options)
{
    return ChainSearch(problem, budget, options).run();
}

} // namespace headroom
