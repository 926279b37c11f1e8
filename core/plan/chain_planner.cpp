// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/chain_planner.h"

#include "core/plan/chain_counts.h"
#include "core/plan/chain_relaxation.h"

#include <array>
#include <cmath>
#include <numeric>

namespace headroom {

namespace {

using Clock = std::chrono::steady_clock;

/// Labels kept at a position, pass by pass.
constexpr std::array<std::size_t, 4> widths{200, 3000, 40000, 400000};
/// Where labels become many, GLPK may count in the meantime: for so much of the time that is left.
constexpr std::size_t widthOfCounting = 400000;
constexpr double countingShare = 0.25;

/// One solve: the best path so far and what is known of the least time.
class ChainSearch
{
public:
    ChainSearch(const ChainProblem& problem, Bytes budget, const ChainOptions& options)
        : problem_(problem)
        , budget_(budget)
        , options_(options)
        , limit_{Clock::now()
                     + std::chrono::duration_cast<Clock::duration>(
                         std::chrono::duration<double, std::milli>(options.limitMs)),
                 options.stop}
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
        if (options_.known)
            take(*options_.known);
        answer_.bound = 0;
        if (!good() && !limit_.reached())
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

    bool good() const
    {
        return static_cast<double>(answer_.value.time - answer_.bound)
            <= options_.gap * static_cast<double>(answer_.value.time);
    }

    double remainingMs() const { return std::chrono::duration<double, std::milli>(limit_.end - Clock::now()).count(); }

    void count()
    {
        const ChainCounts counts = countChain(problem_, budget_, options_.stop, remainingMs() * countingShare);
        answer_.nodes += counts.nodes;
        answer_.bound = std::max(answer_.bound, counts.bound);
        if (counts.path)
            take(*counts.path);
    }

    /// With a path close to the best one the labels have little to look at.
    void improve(ChainPath path)
    {
        ChainValue value = valueOf(problem_, path);
        for (ChainStep& step : path) {
            const ChainStep before = step;
            ChainStep best = step;
            const auto options = static_cast<int>(problem_.arcs[static_cast<std::size_t>(step.arc)].options.size());
            for (int option = 0; option < options; ++option) {
                step = {before.arc, option};
                const ChainValue changed = valueOf(problem_, path);
                const bool fits = changed.peak <= budget_;
                if ((fits && (value.peak > budget_ || changed.time < value.time))
                    || (!fits && changed.peak < value.peak)) {
                    value = changed;
                    best = step;
                }
            }
            step = best;
        }
        take(path);
    }

    void label()
    {
        ChainRelaxation relaxation = relax(problem_, budget_, std::max(1.0, remainingMs()));
        if (relaxation.rounded)
            improve(*std::move(relaxation.rounded));
        answer_.price = std::accumulate(relaxation.prices.position.begin(), relaxation.prices.position.end(),
                                        relaxation.prices.loss);
        if (!relaxation.solved)
            relaxation.prices = {std::vector<double>(static_cast<std::size_t>(problem_.positions), 0.0), 0};
        const ChainLabels labels(problem_, budget_, std::move(relaxation.prices));
        answer_.bound = std::max(answer_.bound, static_cast<Picoseconds>(std::ceil(labels.bound() - 0.5)));
        for (const std::size_t width : widths) {
            if (good() || limit_.reached())
                return;
            if (width == widthOfCounting)
                count();
            if (good() || limit_.reached())
                return;
            const ChainLabels::Pass pass = labels.run(width, answer_.value.time, limit_);
            answer_.nodes += static_cast<std::int64_t>(pass.labels);
            if (pass.path)
                take(*pass.path);
            if (pass.complete)
                answer_.bound = answer_.value.time;
        }
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
