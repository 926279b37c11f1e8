// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/chain_counts.h"

#include "core/plan/glpk_problem.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>

namespace headroom {

namespace {

constexpr double unit = static_cast<double>(MiB); ///< bytes in a row's unit: keeps GLPK's numbers near one
constexpr int mostRounds = 40;
constexpr int fewestEqual = 3; ///< positions a class on average, for counting to be worth it

std::size_t at(int index)
{
    return static_cast<std::size_t>(index);
}

/// The counts of one class: how many of its first m positions take each option, for those m that matter.
struct CountedClass
{
    std::vector<int> positions; ///< ascending
    std::map<int, std::vector<int>> columns; ///< by m: one column an option
};

class Counting
{
public:
    Counting(const ChainProblem& problem, Bytes budget)
        : problem_(problem)
        , budget_(budget)
        , classOf_(at(problem.positions))
    {
        std::map<int, int> numbers;
        for (int position = 0; position < problem.positions; ++position) {
            const auto [found, added]
                = numbers.emplace(problem.classes[at(position)], static_cast<int>(classes_.size()));
            if (added)
                classes_.emplace_back();
            classOf_[at(position)] = found->second;
            classes_[at(found->second)].positions.push_back(position);
        }
    }

    bool worthIt() const
    {
        return static_cast<int>(problem_.arcs.size()) == problem_.positions
            && std::ranges::find(problem_.classes, -1) == problem_.classes.end()
            && problem_.positions >= fewestEqual * static_cast<int>(classes_.size());
    }

    ChainCounts solve(const std::stop_token& stop, double limitMs)
    {
        const auto begin = std::chrono::steady_clock::now();
        ChainCounts counts;
        addTotals();
        for (int round = 0; round < mostRounds; ++round) {
            MilpOptions options;
            options.stop = stop;
            options.limitMs
                = limitMs - std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
            if (options.limitMs <= 0)
                break;
            const MilpResult result = glpk_.solve(options);
            counts.nodes += result.nodes;
            const bool found = result.status == MilpStatus::optimal || result.status == MilpStatus::feasible;
            if (std::isfinite(result.bound))
                counts.bound = std::max(counts.bound, picoseconds(result.bound * (1 - 1e-9)));
            if (!found)
                break;
            const ChainPath path = pathOf(result.values);
            const ChainValue value = valueOf(problem_, path);
            if (value.peak <= budget_) {
                counts.path = path;
                if (result.status == MilpStatus::optimal)
                    counts.bound = value.time;
                break;
            }
            if (result.status != MilpStatus::optimal || !addRowWhereItIsHighest(path))
                break;
        }
        return counts;
    }

private:
    using Terms = std::vector<GlpkProblem::Term>;

    const std::vector<ChainOption>& options(int position) const { return problem_.arcs[at(position)].options; }

    /// Columns for the first m positions of a class.
    std::vector<int> newColumns(const CountedClass& counted, int m, bool paid)
    {
        std::vector<int> columns;
        Terms all;
        for (const ChainOption& option : options(counted.positions.front())) {
            columns.push_back(glpk_.addColumn(0, m, paid ? milliseconds(option.time) : 0, true));
            all.push_back({columns.back(), 1});
        }
        glpk_.addRow(all, m, m);
        return columns;
    }

    void addTotals()
    {
        Terms held;
        for (CountedClass& counted : classes_) {
            const int m = static_cast<int>(counted.positions.size());
            counted.columns[m] = newColumns(counted, m, true);
            addHeld(counted, counted.columns[m], held);
        }
        glpk_.addRow(held, -GlpkProblem::infinity, static_cast<double>(budget_ - problem_.atLoss) / unit);
    }

    void addHeld(const CountedClass& counted, const std::vector<int>& columns, Terms& terms) const
    {
        const std::vector<ChainOption>& choices = options(counted.positions.front());
        for (std::size_t o = 0; o < choices.size(); ++o)
            terms.push_back({columns[o], static_cast<double>(choices[o].held) / unit});
    }

    /// What the first m positions take is among what more of them take.
    void addRise(const std::vector<int>& fewer, const std::vector<int>& more)
    {
        for (std::size_t o = 0; o < fewer.size(); ++o) {
            const Terms terms{{fewer[o], 1}, {more[o], -1}};
            glpk_.addRow(terms, -GlpkProblem::infinity, 0);
        }
    }

    /// nullptr: of no positions there is nothing to count.
    const std::vector<int>* counts(CountedClass& counted, int m)
    {
        if (m == 0)
            return nullptr;
        const auto after = counted.columns.lower_bound(m);
        if (after->first == m)
            return &after->second;
        std::vector<int> columns = newColumns(counted, m, false);
        addRise(columns, after->second);
        if (after != counted.columns.begin())
            addRise(std::prev(after)->second, columns);
        return &counted.columns.emplace(m, std::move(columns)).first->second;
    }

    bool addRow(int position)
    {
        if (std::ranges::find(rows_, position) != rows_.end())
            return false;
        rows_.push_back(position);
        std::map<int, double> coefficients;
        const auto add = [&](const std::vector<int>* columns, auto bytesOf, double sign) {
            for (std::size_t o = 0; columns != nullptr && o < columns->size(); ++o)
                coefficients[(*columns)[o]] += sign * static_cast<double>(bytesOf(o)) / unit;
        };
        for (std::size_t c = 0; c < classes_.size(); ++c) {
            CountedClass& counted = classes_[c];
            const auto before = std::ranges::lower_bound(counted.positions, position) - counted.positions.begin();
            const std::vector<ChainOption>& choices = options(counted.positions.front());
            const std::vector<int>* fewer = counts(counted, static_cast<int>(before));
            add(
                fewer, [&](std::size_t o) { return choices[o].held; }, 1);
            if (static_cast<int>(c) != classOf_[at(position)])
                continue;
            const std::vector<int>* more = counts(counted, static_cast<int>(before) + 1);
            const std::vector<ChainOption>& own = options(position);
            add(
                more, [&](std::size_t o) { return own[o].high; }, 1);
            add(
                fewer, [&](std::size_t o) { return own[o].high; }, -1);
        }
        Terms terms;
        for (const auto& [column, coefficient] : coefficients)
            terms.push_back({column, coefficient});
        glpk_.addRow(terms, -GlpkProblem::infinity, static_cast<double>(budget_) / unit);
        return true;
    }

    /// False: there is a row already, and GLPK's tolerance let it pass.
    bool addRowWhereItIsHighest(const ChainPath& path)
    {
        Bytes held = 0;
        Bytes most = budget_;
        int worst = -1;
        for (int position = 0; position < problem_.positions; ++position) {
            const ChainOption& option = options(position)[at(path[at(position)].option)];
            if (option.high + held > most) {
                most = option.high + held;
                worst = position;
            }
            held += option.held;
        }
        return worst >= 0 && addRow(worst);
    }

    ChainPath pathOf(const std::vector<double>& values) const
    {
        ChainPath path(at(problem_.positions));
        for (const CountedClass& counted : classes_) {
            const std::vector<ChainOption>& choices = options(counted.positions.front());
            std::vector<int> leanestFirst(choices.size());
            std::iota(leanestFirst.begin(), leanestFirst.end(), 0);
            std::ranges::stable_sort(leanestFirst, {}, [&](int o) { return choices[at(o)].held; });
            std::vector<long> taken(choices.size(), 0);
            auto place = counted.positions.begin();
            for (const auto& [m, columns] : counted.columns)
                for (const int o : leanestFirst)
                    for (const long upTo = std::lround(values[at(columns[at(o)])]);
                         taken[at(o)] < upTo && place != counted.positions.end(); ++taken[at(o)], ++place)
                        path[at(*place)] = {*place, o};
        }
        return path;
    }

    const ChainProblem& problem_;
    Bytes budget_;
    std::vector<int> classOf_; ///< by position
    std::vector<CountedClass> classes_;
    std::vector<int> rows_; ///< positions that have one
    GlpkProblem glpk_;
};

} // namespace

ChainCounts countChain(const ChainProblem& problem, Bytes budget, const std::stop_token& stop, double limitMs)
{
    Counting counting(problem, budget);
    return counting.worthIt() ? counting.solve(stop, limitMs) : ChainCounts();
}

} // namespace headroom
