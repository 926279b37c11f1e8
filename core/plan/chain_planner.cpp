// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/chain_planner.h"

#include "core/plan/glpk_problem.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

namespace headroom {

namespace {

constexpr double bytesPerUnit = static_cast<double>(MiB); ///< scales rows of the master: keeps GLPK's numbers near 1
constexpr double violated = 1e-6; ///< an excess counts above this share of the budget
constexpr double converged = 1e-9; ///< the master may exceed the bound by this share
constexpr int mostPaths = 300;
constexpr double nsPerPathOption = 2; ///< work of an option of a path
constexpr double strideOfShares = 1.0 / 64; ///< resolution of strongestShare()

/// A path, and the excess of the path's memory above the budget.
struct PathExcess
{
    ChainPath path;
    double time = 0;
    std::vector<Bytes> excess; ///< by row: the rows of positions, then the row of the loss
};

/// Solves the dual by cutting planes: each path is a cut.
class Dual
{
public:
    Dual(const ChainProblem& problem, Bytes budget, const SearchLimit& limit)
        : problem_(problem)
        , budget_(budget)
        , limit_(limit)
        , best_{std::vector<double>(at(problem.positions), 0.0), 0}
    {
    }

    ChainRelaxation solve(const ChainPath& fitting)
    {
        PathExcess freely = cheapest(best_);
        const int row = mostViolated(freely.excess);
        if (row < 0)
            return {best_, freely.time, std::move(freely.path)};
        cuts_.push_back(cutOf(fitting));
        cuts_.push_back(std::move(freely));
        rows_.push_back(row);
        auto [rounded, mixture] = solveOneRow();
        for (int worst = mostViolated(mixture); worst >= 0 && !limit_.reached();) {
            rows_.push_back(worst);
            worst = mostViolated(solveRows());
        }
        if (rows_.size() > 1)
            rounded = between(fitting, heaviest()).first;
        return {best_, bound(), std::move(rounded)};
    }

private:
    PathExcess cutOf(ChainPath path) const
    {
        PathExcess cut{std::move(path), 0, {}};
        cut.excess.reserve(at(problem_.positions) + 1);
        Bytes held = 0;
        for (const ChainStep& step : cut.path) {
            const ChainOption& option = problem_.option(step);
            cut.excess.resize(at(problem_.arcs[at(step.arc)].last), held + option.high - budget_);
            cut.time += static_cast<double>(option.time);
            held += option.held;
        }
        cut.excess.push_back(held + problem_.atBoundary - budget_);
        return cut;
    }

    /// The path of least time plus price of the memory.
    PathExcess cheapest(const ChainPrices& prices) const
    {
        struct Reached
        {
            double cost = infiniteCost;
            ChainStep step;
        };
        struct Choice
        {
            int kind = -1; ///< class
            double price = 0;
            double cost = infiniteCost;
            int option = 0;
        };
        std::size_t options = 0;
        const std::vector<double> price = prices.ofHeldBytes();
        std::vector<Reached> best(price.size());
        best.front().cost = 0;
        Choice latest; // parts of the same class at equal prices choose alike
        for (std::size_t i = 0; i < problem_.arcs.size(); ++i) {
            const ChainArc& arc = problem_.arcs[i];
            const double after = price[at(arc.last)];
            const double own = price[at(arc.first)] - after;
            const int kind = arc.last - arc.first == 1 && own == 0 ? problem_.classes[at(arc.first)] : -1;
            if (kind < 0 || latest.kind != kind || latest.price != after) {
                latest = {kind, after, infiniteCost, 0};
                options += arc.options.size();
                for (std::size_t o = 0; o < arc.options.size(); ++o) {
                    const ChainOption& option = arc.options[o];
                    const double cost = static_cast<double>(option.time) + after * static_cast<double>(option.held)
                        + own * static_cast<double>(option.high);
                    if (cost < latest.cost) {
                        latest.cost = cost;
                        latest.option = static_cast<int>(o);
                    }
                }
            }
            const double cost = best[at(arc.first)].cost + latest.cost;
            if (Reached& label = best[at(arc.last)]; cost < label.cost)
                label = {cost, {static_cast<int>(i), latest.option}};
        }
        ChainPath path;
        for (int position = problem_.positions; position > 0; position = problem_.arcs[at(path.back().arc)].first)
            path.push_back(best[at(position)].step);
        std::ranges::reverse(path);
        SearchLimit::count(static_cast<double>(options + problem_.arcs.size()), nsPerPathOption);
        return cutOf(std::move(path));
    }

    double bound()
    {
        const PathExcess cut = cheapest(best_);
        double value = cut.time;
        for (const int row : rows_)
            value += priceOf(row) * static_cast<double>(cut.excess[at(row)]);
        return value;
    }

    template <class Excess>
    int mostViolated(const std::vector<Excess>& excess) const
    {
        int worst = -1;
        auto most = static_cast<Excess>(violated * static_cast<double>(budget_));
        for (int row = 0; row <= problem_.positions; ++row)
            if (excess[at(row)] > most && std::ranges::find(rows_, row) == rows_.end()) {
                most = excess[at(row)];
                worst = row;
            }
        return worst;
    }

    double& priceOf(int row) { return row == problem_.positions ? best_.loss : best_.position[at(row)]; }

    static double valueAt(double price, const PathExcess& cut, int row)
    {
        return cut.time + price * static_cast<double>(cut.excess[at(row)]);
    }

    /// Finds the price of the only memory constraint. At this price a path that fits costs as much as a path that does
    /// not, and no path costs less. Returns a path that begins like the fitting path, ends like the other path, and
    /// fits. Also returns the excess of a mixture: of the returned path and the next such path, which does not fit. The
    /// mixture fills the constraint.
    std::pair<ChainPath, std::vector<double>> solveOneRow()
    {
        const int row = rows_.front();
        PathExcess fits = cuts_[0];
        PathExcess exceeds = cuts_[1];
        for (int i = 0; i < mostPaths && !limit_.reached(); ++i) {
            priceOf(row)
                = (fits.time - exceeds.time) / static_cast<double>(exceeds.excess[at(row)] - fits.excess[at(row)]);
            PathExcess cut = cheapest(best_);
            if (valueAt(priceOf(row), cut, row) >= valueAt(priceOf(row), exceeds, row) - leastImprovement)
                break;
            cuts_.push_back(cut);
            (cut.excess[at(row)] > 0 ? exceeds : fits) = std::move(cut);
        }
        auto [path, last] = between(fits.path, exceeds.path, row);
        const std::vector<Bytes> below = cutOf(path).excess;
        const std::vector<Bytes> above = cutOf(std::move(last)).excess;
        const double all = static_cast<double>(above[at(row)] - below[at(row)]);
        const double share = all > 0 ? static_cast<double>(above[at(row)]) / all : 1;
        std::vector<double> mixture;
        for (std::size_t i = 0; i < below.size(); ++i)
            mixture.push_back(share * static_cast<double>(below[i]) + (1 - share) * static_cast<double>(above[i]));
        return {std::move(path), std::move(mixture)};
    }

    /// Joins the begin of `fits` with as much of the end of `exceeds` as fits the memory constraint `row` (-1: the
    /// budget). The second path takes another step of `exceeds` and does not fit. Among equal parts, the least held
    /// bytes come first.
    std::pair<ChainPath, ChainPath> between(const ChainPath& fits, const ChainPath& exceeds, int row = -1) const
    {
        std::vector<std::pair<std::size_t, std::size_t>> common; // steps of both at common positions
        for (std::size_t a = 0, b = 0; a < fits.size() && b < exceeds.size();) {
            const int first = problem_.arcs[at(fits[a].arc)].first;
            const int other = problem_.arcs[at(exceeds[b].arc)].first;
            if (first == other)
                common.emplace_back(a, b);
            a += first <= other ? 1 : 0;
            b += other <= first ? 1 : 0;
        }
        common.emplace_back(fits.size(), exceeds.size());
        const auto joined = [&](std::size_t place) {
            ChainPath path(fits.begin(), fits.begin() + static_cast<std::ptrdiff_t>(common[place].first));
            path.insert(path.end(), exceeds.begin() + static_cast<std::ptrdiff_t>(common[place].second), exceeds.end());
            return path;
        };
        std::size_t tooEarly = 0;
        std::size_t enough = common.size() - 1;
        while (tooEarly + 1 < enough) {
            const std::size_t middle = (tooEarly + enough) / 2;
            ChainPath path = joined(middle);
            const bool good
                = row < 0 ? valueOf(problem_, path).peak <= budget_ : cutOf(std::move(path)).excess[at(row)] <= 0;
            (good ? enough : tooEarly) = middle;
        }
        return {joined(enough), joined(tooEarly)};
    }

    /// Prices several memory constraints by the linear programme (the master) over the paths so far, and adds the
    /// cheapest path until that path is no cheaper than the master's bound. Returns the excess of the master's mixture
    /// of paths.
    std::vector<double> solveRows()
    {
        GlpkProblem master;
        const int bound = master.addColumn(-GlpkProblem::infinity, GlpkProblem::infinity, -1);
        for (std::size_t i = 0; i < rows_.size(); ++i)
            master.addColumn(0, GlpkProblem::infinity, 0);
        for (const PathExcess& cut : cuts_)
            addTo(master, cut);
        std::vector<double> mixture(at(problem_.positions) + 1, 0.0);
        double most = -infiniteCost;
        while (cuts_.size() < mostPaths && !limit_.reached()) {
            const LinearResult solved = master.relax(limit_);
            if (solved.status != MilpStatus::optimal)
                break;
            ChainPrices prices{std::vector<double>(at(problem_.positions), 0.0), 0};
            for (std::size_t i = 0; i < rows_.size(); ++i) {
                const double price = std::max(0.0, solved.values[i + 1]) * perByte;
                (rows_[i] == problem_.positions ? prices.loss : prices.position[at(rows_[i])]) = price;
            }
            PathExcess cut = cheapest(prices);
            double value = cut.time;
            for (std::size_t i = 0; i < rows_.size(); ++i)
                value += std::max(0.0, solved.values[i + 1]) * perByte * static_cast<double>(cut.excess[at(rows_[i])]);
            if (value > most) {
                most = value;
                best_ = std::move(prices);
            }
            weights_ = solved.duals;
            if (value >= solved.values[at(bound)] * perMs * (1 - converged)) {
                for (std::size_t i = 0; i < cuts_.size(); ++i)
                    for (std::size_t row = 0; row < mixture.size(); ++row)
                        mixture[row] -= weights_[i] * static_cast<double>(cuts_[i].excess[row]);
                break;
            }
            addTo(master, cut);
            cuts_.push_back(std::move(cut));
        }
        return mixture;
    }

    void addTo(GlpkProblem& master, const PathExcess& cut) const
    {
        std::vector<GlpkProblem::Term> terms{{0, 1}};
        for (std::size_t i = 0; i < rows_.size(); ++i)
            terms.push_back({static_cast<int>(i) + 1, -static_cast<double>(cut.excess[at(rows_[i])]) / bytesPerUnit});
        master.addRow(terms, -GlpkProblem::infinity, cut.time / perMs);
    }

    /// The path with the largest weight in the master's solution.
    const ChainPath& heaviest() const
    {
        std::size_t most = 0;
        for (std::size_t i = 0; i < weights_.size() && i < cuts_.size(); ++i)
            if (weights_[i] < weights_[most]) // duals of upper bounds are not positive
                most = i;
        return cuts_[most].path;
    }

    const double perMs = static_cast<double>(picoseconds(1));
    const double perByte = perMs / bytesPerUnit;
    const ChainProblem& problem_;
    Bytes budget_;
    const SearchLimit& limit_;
    ChainPrices best_;
    std::vector<PathExcess> cuts_;
    std::vector<int> rows_;
    std::vector<double> weights_; ///< by cut
};

} // namespace

double strongestShare(const ChainProblem& a, const ChainProblem& b, Bytes budget, const SearchLimit& limit)
{
    const auto boundOf = [&](const ChainProblem& problem) {
        const std::optional<ChainPath> fitting = minMemoryPath(problem, budget);
        return fitting ? relax(problem, budget, *fitting, limit).bound : infiniteCost;
    };
    double most = boundOf(a);
    double share = 0;
    const auto take = [&](double other, double bound) {
        if (bound <= most)
            return;
        most = bound;
        share = other;
    };
    take(1, boundOf(b));
    // The bound first rises with the share, then falls.
    for (double stride = 0.5; stride >= strideOfShares && !limit.reached(); stride /= 2)
        for (const double other : {share - stride, share + stride})
            if (other > 0 && other < 1)
                take(other, boundOf(mixed(a, b, other)));
    return share;
}

ChainRelaxation relax(const ChainProblem& problem, Bytes budget, const ChainPath& fitting, const SearchLimit& limit)
{
    return problem.positions == 0 ? ChainRelaxation() : Dual(problem, budget, limit).solve(fitting);
}

namespace {

/// The most labels kept at a position, by pass.
constexpr std::array<std::size_t, 3> widths{100, 6000, 400000};
/// Violated memory constraints of runs that are added separately; after this number all constraints are added.
constexpr int mostBroken = 3;

/// A solve: holds the best path so far and a lower bound of the least time.
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
        const std::optional<ChainPath> minMemoryPlan = minMemoryPath(problem_, budget_);
        if (!minMemoryPlan) {
            answer_.status = ChainStatus::infeasible;
            return answer_;
        }
        take(*minMemoryPlan);
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

    /// Improves a path step by step: each step takes the best option while all other steps stay. With a path close to
    /// the best path, the labels are pruned early.
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

    /// By step: the peak from that step on, if nothing were held before the step.
    std::vector<Bytes> peaksAfter(const ChainPath& path) const
    {
        std::vector<Bytes> peaks(path.size() + 1, problem_.atBoundary);
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

    /// Runs a pass. Returns the memory constraint that the pass's path violates, or -1.
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
