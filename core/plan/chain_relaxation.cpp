// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/chain_relaxation.h"

#include "core/plan/glpk_problem.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace headroom {

namespace {

constexpr double bytesPerUnit = static_cast<double>(MiB); ///< of a row: keeps GLPK's numbers near one
constexpr double violated = 1e-6; ///< of a budget
constexpr double noCount = 1e-9;
constexpr double columnsPerMs = 2000; ///< that GLPK takes in, without a look at the clock

double units(Bytes bytes)
{
    return static_cast<double>(bytes) / bytesPerUnit;
}

/// One LP: a column for each option of a run of equal positions (or of a wide arc), which says how many of them take
/// it.
class Relaxation
{
public:
    Relaxation(const ChainProblem& problem, Bytes budget, const std::set<int>& rows)
        : problem_(problem)
        , budget_(units(budget))
        , rows_(rows)
        , runOf_(at(problem.positions))
    {
        findRuns();
        for (const Run& run : runs_)
            columns_ += static_cast<int>(optionsOf(run).size());
    }

    int columns() const { return columns_; }

    LinearResult solve(double limitMs)
    {
        addColumns();
        addChoices();
        std::vector<GlpkProblem::Term> held;
        for (const Run& run : runs_)
            for (std::size_t o = 0; o < optionsOf(run).size(); ++o)
                held.push_back({run.firstColumn + static_cast<int>(o), units(optionsOf(run)[o].held)});
        lossRow_ = glpk_.addRow(held, -GlpkProblem::infinity, budget_ - units(problem_.atLoss));
        for (const int position : rows_)
            rowOf_.emplace_back(position, addRow(position));
        return glpk_.relax(limitMs);
    }

    /// Where memory is highest and no row says so yet; -1: nowhere. Within a run those that hold least go first.
    int mostViolated(const std::vector<double>& values) const
    {
        std::vector<double> own(at(problem_.positions), 0);
        std::vector<double> change(at(problem_.positions) + 1, 0);
        for (const Run& run : runs_)
            addMemory(run, values, own, change);
        int worst = -1;
        double most = violated * std::max(1.0, budget_);
        double held = 0;
        for (int position = 0; position < problem_.positions; ++position) {
            held += change[at(position)];
            const double excess = own[at(position)] + held - budget_;
            if (excess > most && !rows_.contains(position)) {
                most = excess;
                worst = position;
            }
        }
        return worst;
    }

    ChainPrices prices(const std::vector<double>& duals) const
    {
        const double perByte = static_cast<double>(picoseconds(1)) / bytesPerUnit;
        ChainPrices prices;
        prices.position.assign(at(problem_.positions), 0.0);
        for (const auto& [position, row] : rowOf_)
            prices.position[at(position)] = std::max(0.0, -duals[at(row)]) * perByte;
        prices.loss = std::max(0.0, -duals[at(lossRow_)]) * perByte;
        return prices;
    }

    /// Whole options: where counts are fractions, those that hold less get the rest.
    ChainPath rounded(const std::vector<double>& values) const
    {
        ChainPath path;
        for (int position = 0; position < problem_.positions;) {
            const Run* best = &runs_[at(runOf_[at(position)])];
            for (const int wide : wide_)
                if (const Run& run = runs_[at(wide)]; run.first == position && countOf(run, values) > 0.5)
                    best = &run;
            const int end = best->wide() ? position + 1 : best->last;
            const std::vector<int> order = leanestFirst(*best);
            double upTo = 0;
            std::size_t next = 0;
            for (int member = position; member < end; ++member) {
                while (next + 1 < order.size()
                       && upTo + values[at(best->firstColumn + order[next])] < member - position + noCount)
                    upTo += values[at(best->firstColumn + order[next++])];
                path.push_back({arcAt(*best, member), order[next]});
            }
            position = best->wide() ? best->last : end;
        }
        return path;
    }

private:
    struct Run
    {
        int arc = 0; ///< its first; the arcs of a run follow one another
        int first = 0, last = 0;
        bool ownPositions = true;
        int firstColumn = 0;
        bool wide() const { return !ownPositions; }
    };

    const std::vector<ChainOption>& optionsOf(const Run& run) const { return problem_.arcs[at(run.arc)].options; }
    int arcAt(const Run& run, int position) const { return run.wide() ? run.arc : run.arc + position - run.first; }

    void findRuns()
    {
        const bool plain = static_cast<int>(problem_.arcs.size()) == problem_.positions;
        for (std::size_t i = 0; i < problem_.arcs.size(); ++i) {
            const ChainArc& arc = problem_.arcs[i];
            const int position = arc.first;
            const int kind = problem_.classes[at(position)];
            const bool goesOn = plain && i > 0 && kind >= 0 && problem_.classes[at(position - 1)] == kind
                && !rows_.contains(position) && !rows_.contains(position - 1);
            const bool own = i == 0 || problem_.arcs[i - 1].first != position;
            if (goesOn)
                runs_.back().last = arc.last;
            else
                runs_.push_back({static_cast<int>(i), arc.first, arc.last, own, 0});
            if (own)
                runOf_[at(position)] = static_cast<int>(runs_.size()) - 1;
            else
                wide_.push_back(static_cast<int>(runs_.size()) - 1);
        }
    }

    void addColumns()
    {
        int column = 0;
        for (Run& run : runs_) {
            run.firstColumn = column;
            column += static_cast<int>(optionsOf(run).size());
            for (const ChainOption& option : optionsOf(run))
                glpk_.addColumn(0, GlpkProblem::infinity, milliseconds(option.time));
        }
    }

    /// Each position takes one option of its own, or of a wide arc over it.
    void addChoices()
    {
        for (const Run& run : runs_) {
            if (run.wide())
                continue;
            std::vector<GlpkProblem::Term> terms;
            addOptions(run, terms);
            for (const int wide : wide_)
                if (const Run& over = runs_[at(wide)]; over.first <= run.first && run.first < over.last)
                    addOptions(over, terms);
            glpk_.addRow(terms, run.last - run.first, run.last - run.first);
        }
    }

    void addOptions(const Run& run, std::vector<GlpkProblem::Term>& terms) const
    {
        for (std::size_t o = 0; o < optionsOf(run).size(); ++o)
            terms.push_back({run.firstColumn + static_cast<int>(o), 1});
    }

    int addRow(int position)
    {
        std::vector<GlpkProblem::Term> terms;
        for (const Run& run : runs_) {
            const bool before = run.last <= position;
            if (!before && run.first > position)
                continue;
            for (std::size_t o = 0; o < optionsOf(run).size(); ++o) {
                const Bytes bytes = before ? optionsOf(run)[o].held : optionsOf(run)[o].high;
                terms.push_back({run.firstColumn + static_cast<int>(o), units(bytes)});
            }
        }
        return glpk_.addRow(terms, -GlpkProblem::infinity, budget_);
    }

    std::vector<int> leanestFirst(const Run& run) const
    {
        std::vector<int> order(optionsOf(run).size());
        std::iota(order.begin(), order.end(), 0);
        std::ranges::stable_sort(order, {}, [&](int o) { return optionsOf(run)[at(o)].held; });
        return order;
    }

    double countOf(const Run& run, const std::vector<double>& values) const
    {
        double count = 0;
        for (std::size_t o = 0; o < optionsOf(run).size(); ++o)
            count += values[at(run.firstColumn) + o];
        return count;
    }

    void addMemory(const Run& run, const std::vector<double>& values, std::vector<double>& own,
                   std::vector<double>& change) const
    {
        const std::vector<int> order = leanestFirst(run);
        std::vector<double> left;
        for (const int o : order)
            left.push_back(values[at(run.firstColumn + o)]);
        const int end = run.wide() ? run.first + 1 : run.last;
        for (int position = run.first; position < end; ++position) {
            double room = 1;
            for (std::size_t i = 0; i < order.size() && room > noCount; ++i) {
                const double taken = std::min(room, left[i]);
                const ChainOption& option = problem_.arcs[at(arcAt(run, position))].options[at(order[i])];
                for (int within = position; within < (run.wide() ? run.last : position + 1); ++within)
                    own[at(within)] += taken * units(option.high);
                change[at(run.wide() ? run.last : position + 1)] += taken * units(option.held);
                left[i] -= taken;
                room -= taken;
            }
        }
    }

    const ChainProblem& problem_;
    double budget_;
    const std::set<int>& rows_; ///< positions that have one
    GlpkProblem glpk_;
    std::vector<Run> runs_;
    std::vector<int> wide_; ///< of the runs
    std::vector<int> runOf_; ///< by position
    int columns_ = 0;
    int lossRow_ = 0;
    std::vector<std::pair<int, int>> rowOf_; ///< position, row
};

} // namespace

ChainRelaxation relax(const ChainProblem& problem, Bytes budget, const SearchLimit& limit)
{
    ChainRelaxation found;
    if (problem.positions == 0) {
        found.solved = true;
        return found;
    }
    std::set<int> rows{problem.positions - 1}; // where the last part runs, everything else is held
    do {
        Relaxation relaxation(problem, budget, rows);
        if (relaxation.columns() > columnsPerMs * limit.remainingMs())
            break;
        const LinearResult result = relaxation.solve(std::max(1.0, limit.remainingMs()));
        if (result.status != MilpStatus::optimal)
            break;
        // Without some of its rows it gives a bound, too: any prices do.
        found = {true, relaxation.prices(result.duals), relaxation.rounded(result.values)};
        const int worst = relaxation.mostViolated(result.values);
        if (worst < 0)
            break;
        rows.insert(worst);
    } while (!limit.reached());
    return found;
}

} // namespace headroom
