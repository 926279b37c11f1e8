// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/chain_search.h"

#include "core/plan/chain_problem.h"
#include "core/policy/chain_completions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

namespace headroom {

namespace {

constexpr float unitTolerance = 3e-3F; ///< of a memory constraint, in units: sums of floats are not exact
constexpr double msTolerance = 1e-6; ///< of a bound: sums are not exact
constexpr float similarUnits = 0.1F; ///< so much more memory may a partial plan take that replaces another one
constexpr double similarShare = 0.02; ///< the same for time, as a share of the time above the relaxation's
constexpr double leastSimilar = 0.1; ///< both for a bound, at first, in times
constexpr std::size_t strata = 16; ///< ranges of time; each keeps as many partial plans
constexpr std::size_t mostFound = 32; ///< plans
constexpr std::size_t atOnce = 8; ///< memory constraints that are compared at once
constexpr std::size_t timesAtOnce = 64; ///< partial plans that are compared at once
constexpr double nsPerComparison = 2; ///< work of a partial plan that is compared with another
constexpr double nsPerNext = 60; ///< work of an option that is added to a partial plan
constexpr double nsPerRow = 1.5; ///< the same for each memory constraint
constexpr float bucketUnits = 0.5F; ///< least width of a bucket of memory
constexpr std::size_t bucketTimes = 16; ///< most buckets, in times of the width
constexpr std::size_t mostBuckets = 2048;
constexpr double nsPerBucket = 0.6; ///< work of an option in a bucket

} // namespace

/// The partial plans by position.
class ChainSearch::Diagram
{
public:
    /// A relaxed diagram gives a bound; a restricted one has plans.
    Diagram(const RelaxedChain& chain, const std::vector<std::uint32_t>& events, RowProblem::Memory memory,
            bool isRelaxed, double belowMs, std::size_t width, const SearchLimit& limit)
        : problem_(chain.problem)
        , copies_(chain.copies)
        , costs_(chain.costs)
        , arcs_(chain.problem.arcs())
        , positions_(chain.problem.positions())
        , unit_(static_cast<double>(chain.budget) / budgetUnits)
        , isRelaxed_(isRelaxed)
        , belowMs_(belowMs)
        , mostReduced_(belowMs - chain.costs.boundMs)
        , width_(width)
        , limit_(limit)
        , layers_(positions_ + 1)
    {
        addRows(events, memory, chain.budget);
        for (std::size_t arc = 0; arc < arcs_.size() && !limit_.reached(); ++arc)
            addChoices(arc);
        if (limit_.reached())
            return;
        findRest();
        addCompletions();
        layers_.front().list.push_back({0, 0, 0, {}, {}, 0});
        layers_.front().units.assign(rows_, 0);
    }

    /// Returns false if time is up.
    bool run()
    {
        if (limit_.reached())
            return false;
        for (std::size_t arc = 0; arc < arcs_.size(); ++arc) {
            const std::size_t first = at(arcs_[arc].first);
            if (first > 0 && at(arcs_[arc - 1].first) < first)
                keepBest(layers_[first]);
            goOn(arc);
            if (limit_.reached())
                return false;
        }
        return true;
    }

    std::vector<Found> plans() const
    {
        std::vector<std::size_t> order(layers_.back().list.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        const auto msOf = [&](std::size_t number) { return timeOf(layers_.back().list[number]); };
        const auto kept = order.begin() + static_cast<std::ptrdiff_t>(std::min(order.size(), mostFound));
        std::ranges::partial_sort(order, kept, {}, msOf);
        std::vector<Found> found;
        for (auto number = order.begin(); number != kept; ++number)
            found.push_back({optionsTo(*number), msOf(*number)});
        return found;
    }

    Bound bound() const
    {
        double least = belowMs_;
        for (const PartialPlan& plan : layers_.back().list)
            least = std::min(least, std::max(timeOf(plan), costs_.boundMs + plan.reduced) - msTolerance);
        return {least, !isCut_};
    }

private:
    /// An option that a plan of less than belowMs_ may have.
    struct Choice
    {
        std::size_t option = 0;
        double ms = 0; ///< recomputation
        double reduced = 0; ///< reduced cost
        OptionCopies times;
    };
    struct Choices
    {
        std::vector<Choice> list; ///< ascending by `reduced`
        std::vector<float> units; ///< by choice, by row
    };
    /// A plan of the parts before a position. In a relaxed diagram also of all plans that it replaces.
    struct PartialPlan
    {
        double ms = 0; ///< recomputation
        double reduced = 0; ///< reduced costs
        double least = 0; ///< reduced costs of all plans that begin so
        CopiesLeft copies;
        ArcOption option; ///< the last one
        std::size_t from = 0; ///< the partial plan before
    };
    struct Layer
    {
        std::vector<PartialPlan> list;
        std::vector<float> units; ///< by partial plan, by row: the memory taken
    };
    /// Times of partial plans, by field: many are compared at once.
    struct Times
    {
        std::vector<float> ms, outMs, inMs, idleOutMs, idleInMs;

        void add(const PartialPlan& own)
        {
            ms.push_back(static_cast<float>(own.ms));
            outMs.push_back(static_cast<float>(own.copies.outMs));
            inMs.push_back(static_cast<float>(own.copies.inMs));
            idleOutMs.push_back(static_cast<float>(own.copies.idleOutMs));
            idleInMs.push_back(static_cast<float>(own.copies.idleInMs));
        }
    };
    /// The partial plans that are kept.
    struct Kept
    {
        Layer layer;
        Times times;
    };

    static double timeOf(const PartialPlan& plan) { return plan.ms + plan.copies.exposedMs(); }

    /// The rows: memory constraints, and pinned host memory where limited. The number of rows is a multiple of
    /// atOnce.
    void addRows(const std::vector<std::uint32_t>& events, RowProblem::Memory memory, Bytes budget)
    {
        for (const std::uint32_t event : events) {
            const RowProblem::Row& row = constraints_.emplace_back(problem_.rowAt(event, memory, budget));
            left_.push_back(static_cast<float>(static_cast<double>(row.most - row.bytes) / unit_));
            const auto price = costs_.memory.find(event);
            prices_.push_back(price == costs_.memory.end() ? 0 : price->second * unit_);
        }
        if (copies_.host > 0)
            left_.push_back(static_cast<float>(static_cast<double>(copies_.host) / unit_));
        rows_ = (left_.size() + atOnce - 1) / atOnce * atOnce;
        left_.resize(rows_, std::numeric_limits<float>::max());
        prices_.resize(rows_, 0);
    }

    /// Whether each row of `units` is at most that of `most`, and `tolerance` more.
    bool areWithin(const float* units, const float* most, float tolerance) const
    {
        for (std::size_t begin = 0; begin < rows_; begin += atOnce) {
            int beyond = 0;
            for (std::size_t row = begin; row < begin + atOnce; ++row)
                beyond += units[row] > most[row] + tolerance ? 1 : 0;
            if (beyond > 0)
                return false;
        }
        return true;
    }

    /// Lowers what a partial plan or choice takes, so that no plan takes less with one that is replaced. `exposedMs`:
    /// the most by which more copies are exposed; `unusedMs`: the most by which more of the streams' time is unused.
    template <class T>
    void lower(T& by, float* units, const T& own, const float* ownUnits, double exposedMs, double unusedMs) const
    {
        double loweredMs = 0; // memory that stays unused has a price
        for (std::size_t row = 0; row < rows_; ++row) {
            const double unused = prices_[row] * static_cast<double>(ownUnits[row] - units[row]);
            (unused > 0 ? unusedMs : loweredMs) += std::abs(unused);
            units[row] = std::min(units[row], ownUnits[row]);
        }
        by.ms = std::min(by.ms, own.ms - exposedMs);
        by.reduced = std::min(by.reduced - loweredMs, own.reduced - unusedMs);
    }

    /// The most that idle time of the streams of copies costs.
    double costOf(const std::pair<double, double>& idleMs) const
    {
        return costs_.idle[0].back() * idleMs.first + costs_.idle[1].back() * idleMs.second;
    }

    /// Adds the options of an arc, without those that are similar to a better one.
    void addChoices(std::size_t arc)
    {
        Choices& choices = choices_.emplace_back();
        std::vector<std::pair<double, std::size_t>> order;
        for (std::size_t option = 0; option < problem_.optionCount(arc); ++option)
            if (const double reduced = costs_.options[arc][option]; reduced < mostReduced_)
                order.emplace_back(reduced, option);
        std::ranges::sort(order);
        SearchLimit::count(static_cast<double>(order.size()), nsPerNext);
        std::vector<std::span<const double>> changes;
        for (const RowProblem::Row& row : constraints_)
            changes.push_back(problem_.changesIn(row, arc));
        std::vector<float> units(rows_, 0);
        for (const auto& [reduced, option] : order) {
            const LocalEffect& effect = problem_.effectOf({arc, option});
            for (std::size_t row = 0; row < changes.size(); ++row)
                units[row] = changes[row].empty() ? 0 : static_cast<float>(changes[row][option] / unit_);
            if (copies_.host > 0)
                units[changes.size()] = static_cast<float>(static_cast<double>(effect.pinned) / unit_);
            const Choice choice{option, effect.recomputeMs, reduced, copies_.timesOf(problem_, {arc, option})};
            if (!replaced(choices, choice, units.data())) {
                choices.list.push_back(choice);
                choices.units.insert(choices.units.end(), units.begin(), units.end());
            }
        }
    }

    bool replaced(Choices& choices, const Choice& choice, const float* units) const
    {
        const double times = isRelaxed_ ? leastSimilar : 1;
        const double similarMs = choice.ms + times * similarShare * mostReduced_;
        for (std::size_t number = 0; number < choices.list.size(); ++number) {
            Choice& by = choices.list[number];
            SearchLimit::count(1, nsPerComparison);
            if (by.ms > similarMs)
                continue;
            const double exposedMs = by.times.mostExposedMs(choice.times);
            float* own = choices.units.data() + number * rows_;
            if (by.ms + exposedMs > similarMs || !areWithin(own, units, static_cast<float>(times) * similarUnits))
                continue;
            if (isRelaxed_)
                lower(by, own, choice, units, exposedMs, costOf(choice.times.mostIdleMs(by.times)));
            return true;
        }
        return false;
    }

    /// What the parts from each position on take at least and at most.
    void findRest()
    {
        constexpr double none = std::numeric_limits<double>::infinity();
        leastMs_.assign(positions_ + 1, none);
        leastReduced_.assign(positions_ + 1, none);
        leastUnits_.assign(positions_ + 1, std::vector<float>(rows_, std::numeric_limits<float>::max()));
        mostUnits_.assign(positions_ + 1, std::vector<float>(rows_, std::numeric_limits<float>::lowest()));
        leastMs_.back() = leastReduced_.back() = 0;
        leastUnits_.back().assign(rows_, 0);
        mostUnits_.back().assign(rows_, 0);
        for (std::size_t arc = arcs_.size(); arc-- > 0;) {
            const std::size_t first = at(arcs_[arc].first), last = at(arcs_[arc].last);
            for (std::size_t number = 0; leastMs_[last] < none && number < choices_[arc].list.size(); ++number) {
                const Choice& choice = choices_[arc].list[number];
                const float* units = choices_[arc].units.data() + number * rows_;
                leastMs_[first] = std::min(leastMs_[first], choice.ms + leastMs_[last]);
                leastReduced_[first] = std::min(leastReduced_[first], choice.reduced + leastReduced_[last]);
                for (std::size_t row = 0; row < rows_; ++row) {
                    float& least = leastUnits_[first][row];
                    float& most = mostUnits_[first][row];
                    least = std::min(least, units[row] + leastUnits_[last][row]);
                    most = std::max(most, units[row] + mostUnits_[last][row]);
                }
            }
        }
    }

    void addCompletions()
    {
        std::vector<ChainCompletions::Option> options;
        for (std::size_t row = 0; row < rows_; ++row) {
            if (prices_[row] <= 0)
                continue;
            options.clear();
            for (std::size_t arc = 0; arc < arcs_.size(); ++arc)
                for (std::size_t number = 0; number < choices_[arc].list.size(); ++number)
                    options.push_back({at(arcs_[arc].first), at(arcs_[arc].last),
                                       static_cast<float>(choices_[arc].list[number].reduced),
                                       choices_[arc].units[number * rows_ + row]});
            ChainCompletions::Buckets buckets;
            for (std::size_t position = 0; position < positions_; ++position)
                if (leastUnits_[position][row] <= mostUnits_[position][row]) { // some options lead to the end
                    buckets.begin = std::min(buckets.begin, leastUnits_[position][row]);
                    buckets.end = std::max(buckets.end, mostUnits_[position][row]);
                }
            const auto most = static_cast<float>(std::min(mostBuckets, bucketTimes * width_));
            buckets.width = std::max(bucketUnits, (buckets.end - buckets.begin) / most);
            completions_.emplace_back(
                row,
                ChainCompletions(options, positions_, buckets, static_cast<float>(prices_[row]), 2 * unitTolerance));
            SearchLimit::count(static_cast<double>(options.size() * completions_.back().second.size()), nsPerBucket);
        }
    }

    /// The least reduced costs of the parts from a position on, after a partial plan that takes `units`.
    double leastReduced(std::size_t position, const std::vector<float>& units) const
    {
        double least = leastReduced_[position];
        for (const auto& [row, completions] : completions_)
            least = std::max(least, completions.least(position, left_[row] - units[row]) - msTolerance);
        return least;
    }

    /// Adds each option of an arc to each partial plan, as long as time is left.
    void goOn(std::size_t arc)
    {
        const std::size_t first = at(arcs_[arc].first), last = at(arcs_[arc].last);
        const Choices& choices = choices_[arc];
        std::vector<float> most = left_; // with more units, nothing of the rest fits
        std::vector<float> least = left_; // with less, all of the rest fits
        for (std::size_t row = 0; row < rows_; ++row) {
            most[row] -= leastUnits_[last][row];
            least[row] -= mostUnits_[last][row];
        }
        std::vector<float> units(rows_);
        for (std::size_t from = 0; from < layers_[first].list.size() && !limit_.reached(); ++from) {
            std::size_t number = 0;
            for (; number < choices.list.size(); ++number) {
                const PartialPlan& before = layers_[first].list[from];
                if (before.reduced + choices.list[number].reduced + leastReduced_[last] >= mostReduced_)
                    break;
                const float* taken = layers_[first].units.data() + from * rows_;
                const float* more = choices.units.data() + number * rows_;
                for (std::size_t row = 0; row < rows_; ++row)
                    units[row] = taken[row] + more[row];
                if (!areWithin(units.data(), most.data(), unitTolerance))
                    continue;
                PartialPlan next = nextOf(before, from, arc, choices.list[number], units, least);
                next.least = next.reduced + leastReduced(last, units);
                if (next.least >= mostReduced_
                    || next.ms + leastMs_[last] + (last == positions_ ? next.copies.exposedMs() : 0) >= belowMs_)
                    continue;
                append(layers_[last], next, units.data());
            }
            SearchLimit::count(static_cast<double>(number), nsPerNext + nsPerRow * static_cast<double>(rows_));
        }
    }

    /// A partial plan with one more option. `units`, what the partial plan takes, is at least `least`: with less, all
    /// later options fit, and the memory that stays unused has a price.
    PartialPlan nextOf(const PartialPlan& before, std::size_t from, std::size_t arc, const Choice& choice,
                       std::vector<float>& units, const std::vector<float>& least) const
    {
        PartialPlan next{before.ms + choice.ms,
                         before.reduced + choice.reduced,
                         0,
                         copies_.after(before.copies, arcs_[arc], choice.times),
                         {arc, choice.option},
                         from};
        for (std::size_t row = 0; row < rows_; ++row)
            if (units[row] < least[row]) {
                next.reduced += prices_[row] * static_cast<double>(least[row] - units[row]);
                units[row] = least[row];
            }
        // Where a stream of copies was idle, the later copies have less time.
        const std::size_t first = at(arcs_[arc].first);
        double idleOut = next.copies.outMs - before.copies.outMs - choice.times.out + choice.times.moreOut;
        double idleIn
            = next.copies.inMs - before.copies.inMs - choice.times.in + choice.times.again + choice.times.moreIn;
        for (std::size_t position = first; position < at(arcs_[arc].last); ++position) {
            idleOut += copies_.forwardMs[position];
            idleIn += copies_.backwardMs[position];
        }
        next.reduced += costs_.idle[0][first] * std::max(idleOut, 0.0) + costs_.idle[1][first] * std::max(idleIn, 0.0);
        return next;
    }

    /// Leaves out partial plans that are similar to a better one, and keeps about width_.
    void keepBest(Layer& layer)
    {
        std::vector<std::pair<double, std::size_t>> order;
        for (std::size_t number = 0; number < layer.list.size(); ++number)
            order.emplace_back(layer.list[number].least, number);
        std::ranges::sort(order);
        layer = isRelaxed_ ? merged(layer, order) : quickest(layer, order);
    }

    void append(Layer& to, const PartialPlan& plan, const float* units) const
    {
        to.list.push_back(plan);
        to.units.insert(to.units.end(), units, units + rows_);
    }
    void append(Kept& to, const PartialPlan& plan, const float* units) const
    {
        to.times.add(plan);
        append(to.layer, plan, units);
    }

    /// The partial plans of least reduced cost in each range of time.
    Layer quickest(const Layer& layer, const std::vector<std::pair<double, std::size_t>>& order) const
    {
        Kept best;
        if (order.empty())
            return {};
        const auto [least, most] = std::ranges::minmax_element(layer.list, {}, &PartialPlan::ms);
        const double rangeMs = std::max((most->ms - least->ms) / strata, std::numeric_limits<double>::min());
        std::array<std::size_t, strata + 1> kept{};
        for (const auto& [reduced, number] : order) {
            const PartialPlan& own = layer.list[number];
            const float* units = layer.units.data() + number * rows_;
            std::size_t& keptHere = kept[static_cast<std::size_t>((own.ms - least->ms) / rangeMs)];
            if (keptHere * strata >= width_ || limit_.reached()
                || similarIn(best, own, units, 1) < best.layer.list.size())
                continue;
            ++keptHere;
            append(best, own, units);
        }
        return std::move(best.layer);
    }

    /// Partial plans that take no more than those that they replace. The more there are, the less similar these are.
    Layer merged(const Layer& layer, const std::vector<std::pair<double, std::size_t>>& order)
    {
        Layer best;
        Kept before; // as they were before they were lowered, so that all that one replaces are similar
        double times = std::max(leastSimilar, times_ / 4);
        const auto add = [&](const PartialPlan& own, const float* units) {
            const std::size_t number = similarIn(before, own, units, times);
            if (number == best.list.size()) {
                append(best, own, units);
                append(before, own, units);
                return;
            }
            PartialPlan& by = best.list[number];
            lower(by, best.units.data() + number * rows_, own, units, by.copies.mostExposedMs(own.copies),
                  costOf(own.copies.mostIdleMs(by.copies)));
        };
        for (const auto& [reduced, added] : order) {
            if (limit_.reached())
                break;
            add(layer.list[added], layer.units.data() + added * rows_);
            while (best.list.size() > width_) {
                const Layer all = std::exchange(best, {});
                before = {};
                times *= 2;
                isCut_ = true;
                for (std::size_t number = 0; number < all.list.size(); ++number)
                    add(all.list[number], all.units.data() + number * rows_);
            }
        }
        times_ = times;
        return best;
    }

    /// Number of a partial plan that takes no more than `own`, or little more; the number of partial plans if there is
    /// none. `times`: tolerance, in times of a restricted diagram's.
    std::size_t similarIn(const Kept& kept, const PartialPlan& own, const float* units, double times) const
    {
        const auto outMs = static_cast<float>(own.copies.outMs), inMs = static_cast<float>(own.copies.inMs);
        const auto idleOutMs = static_cast<float>(own.copies.idleOutMs);
        const auto idleInMs = static_cast<float>(own.copies.idleInMs);
        const auto mostMs = static_cast<float>(own.ms + times * similarShare * mostReduced_);
        const auto mostUnits = static_cast<float>(times) * similarUnits;
        const auto more = [](float difference) { return difference > 0 ? difference : 0; };
        const Times& by = kept.times;
        std::array<float, timesAtOnce> ms{}; // with the copies that are more exposed
        for (std::size_t begin = 0; begin < by.ms.size(); begin += timesAtOnce) {
            const std::size_t count = std::min(timesAtOnce, by.ms.size() - begin);
            for (std::size_t i = 0; i < count; ++i)
                ms[i] = by.ms[begin + i] + more(by.outMs[begin + i] - outMs) + more(by.inMs[begin + i] - inMs)
                    + more(idleOutMs - by.idleOutMs[begin + i]) + more(idleInMs - by.idleInMs[begin + i]);
            SearchLimit::count(static_cast<double>(count), nsPerComparison);
            for (std::size_t i = 0; i < count; ++i)
                if (ms[i] <= mostMs && areWithin(kept.layer.units.data() + (begin + i) * rows_, units, mostUnits))
                    return begin + i;
        }
        return kept.layer.list.size();
    }

    OptionShares optionsTo(std::size_t number) const
    {
        OptionShares options;
        for (std::size_t position = positions_; position > 0;) {
            const PartialPlan& plan = layers_[position].list[number];
            options.emplace_back(plan.option, 1.0);
            position = at(arcs_[plan.option.arc].first);
            number = plan.from;
        }
        std::ranges::reverse(options);
        return options;
    }

    const RowProblem& problem_;
    const CopyLimits& copies_;
    const ReducedCosts& costs_;
    const std::vector<PartArcs::Arc>& arcs_;
    std::size_t positions_;
    double unit_; ///< bytes
    bool isRelaxed_;
    bool isCut_ = false; ///< more than width_ partial plans were merged
    double belowMs_;
    double mostReduced_; ///< reduced costs of a plan that takes belowMs_
    std::size_t width_;
    double times_ = 0; ///< tolerance of the last merged(), in times of a restricted diagram's
    const SearchLimit& limit_;
    std::vector<RowProblem::Row> constraints_;
    std::size_t rows_ = 0; ///< number
    std::vector<float> left_; ///< by row: units
    std::vector<double> prices_; ///< by row: ms of an unused unit
    std::vector<Choices> choices_; ///< by arc
    std::vector<double> leastMs_, leastReduced_; ///< by position
    std::vector<std::vector<float>> leastUnits_, mostUnits_; ///< by position, by row
    std::vector<std::pair<std::size_t, ChainCompletions>> completions_; ///< by memory constraint with a price
    std::vector<Layer> layers_; ///< by position
};

std::vector<ChainSearch::Found> ChainSearch::plansBelow(double belowMs, const std::vector<std::uint32_t>& events,
                                                        RowProblem::Memory memory, std::size_t width,
                                                        const SearchLimit& limit) const
{
    Diagram diagram(chain_, events, memory, false, belowMs, width, limit);
    if (!diagram.run())
        return {};
    return diagram.plans();
}

ChainSearch::Bound ChainSearch::boundBelow(double belowMs, std::size_t width, const SearchLimit& limit) const
{
    std::vector<std::uint32_t> events;
    for (const auto& [event, price] : chain_.costs.memory)
        events.push_back(event);
    Diagram diagram(chain_, events, RowProblem::Memory::atLeast, true, belowMs, width, limit);
    return diagram.run() ? diagram.bound() : Bound();
}

} // namespace headroom
