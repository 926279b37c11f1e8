// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/offload_bound.h"

#include "core/plan/glpk_problem.h"
#include "core/policy/priced_plans.h"

#include <algorithm>
#include <map>
#include <utility>

namespace headroom {

namespace {

constexpr double budgetUnits = 1000; ///< the budget in the unit of the rows
constexpr double tolerance = 1e-6; ///< ms
constexpr double rowTolerance = PricedPlans::rowTolerance;
constexpr double errorShare = 8e-3; ///< of the known plan's time: error of a bound
constexpr double enoughGap = 5e-3; ///< between a bound and the mixture
constexpr std::size_t mostRounded = 64; ///< plans of OptionChoices
constexpr std::size_t mostRows = 100;

/// Mixes plans in which memory has a price.
class Mixture
{
public:
    Mixture(const RowProblem& problem, const CopyLimits& copies, Bytes budget, double knownMs,
            std::vector<std::uint32_t>& events)
        : problem_(problem)
        , errorMs_(errorShare * knownMs)
        , plans_(problem, copies, errorMs_)
        , budget_(budget)
        , bytesPerUnit_(static_cast<double>(budget) / budgetUnits)
        , events_(events)
    {
        programme_.addRow({}, 1, 1);
        for (const std::uint32_t event : events)
            addRow(event);
    }

    OffloadBound run(double knownMs, double enoughMs, const SearchLimit& limit)
    {
        OffloadBound bound;
        std::vector<std::pair<int, double>> known{{0, 1.0}};
        for (std::size_t row = 0; row < rows_.size(); ++row)
            known.emplace_back(static_cast<int>(row) + 1, unitsLeft(rows_[row]));
        programme_.addColumnTo(known, knownMs);
        while (!limit.reached()) {
            const LinearResult mixed = programme_.relax(limit);
            if (mixed.status != MilpStatus::optimal)
                break;
            OptionShares shares;
            bound.plans.clear();
            for (std::size_t i = 0; i < columns_.size(); ++i)
                if (const double part = mixed.values[i + 1]; part > 0) {
                    bound.plans.push_back(columns_[i]);
                    for (const auto& [option, share] : columns_[i])
                        shares.emplace_back(option, share * part);
                }
            if (mixed.values.front() < 1 - rowTolerance && addRowFor(shares, mixed.values.front()))
                continue;
            const PricedPlans::Found found = plans_.find(costsAt(mixed.duals), limit);
            if (found.options.empty())
                break;
            double ms = found.ms - errorMs_;
            for (std::size_t row = 0; row < rows_.size(); ++row)
                ms += std::min(0.0, mixed.duals[row + 1]) * unitsLeft(rows_[row]);
            if (ms > bound.ms) {
                bound.ms = ms;
                duals_ = mixed.duals;
            }
            if (bound.ms >= enoughMs
                || mixed.objective - ms <= errorMs_ + std::max(tolerance, enoughGap * mixed.objective))
                break;
            addPlan(found.options, plans_.msOf(found.options));
        }
        if (bound.ms < enoughMs && !duals_.empty())
            enumerate(bound, enoughMs, limit);
        return bound;
    }

private:
    double unitsOf(const RowProblem::Row& row, const OptionShares& options) const
    {
        Bytes bytes = 0;
        for (const auto& [option, share] : options)
            bytes += problem_.changeIn(row, option);
        return static_cast<double>(bytes) / bytesPerUnit_;
    }

    /// Raises the bound to the time of the quickest whole plan that fits, or to `enoughMs`, if time allows.
    void enumerate(OffloadBound& bound, double enoughMs, const SearchLimit& limit)
    {
        std::vector<double> duals = duals_;
        while (true) {
            duals.resize(rows_.size() + 1, 0); // rows were added since
            const auto found = plans_.findWithin(rowsOfOptions(duals), costsAt(duals), enoughMs, limit);
            if (!found)
                return;
            bound.ms = std::max(bound.ms, found->ms);
            if (found->options.empty())
                return;
            if (!addRowFor(found->options, 0)) {
                bound.plans.push_back(found->options);
                return;
            }
        }
    }

    std::vector<PricedPlans::MemoryRow> rowsOfOptions(const std::vector<double>& duals) const
    {
        std::vector<PricedPlans::MemoryRow> rows;
        for (std::size_t row = 0; row < rows_.size(); ++row) {
            PricedPlans::MemoryRow& own = rows.emplace_back();
            own.left = unitsLeft(rows_[row]);
            own.price = std::max(0.0, -duals[row + 1]);
            for (std::size_t arc = 0; arc < problem_.arcs().size(); ++arc) {
                std::vector<double>& units = own.units.emplace_back();
                for (const double bytes : problem_.changesIn(rows_[row], arc))
                    units.push_back(bytes / bytesPerUnit_);
            }
        }
        return rows;
    }

    double unitsLeft(const RowProblem::Row& row) const
    {
        return static_cast<double>(row.most - row.bytes) / bytesPerUnit_;
    }

    void addRow(std::uint32_t event)
    {
        const RowProblem::Row& row = rows_.emplace_back(problem_.rowAt(event, RowProblem::Memory::atLeast, budget_));
        std::vector<GlpkProblem::Term> terms;
        if (!columns_.empty())
            terms.push_back({0, unitsLeft(row)});
        for (std::size_t i = 0; i < columns_.size(); ++i)
            terms.push_back({static_cast<int>(i) + 1, unitsOf(row, columns_[i])});
        programme_.addRow(terms, -GlpkProblem::infinity, unitsLeft(row));
    }

    void addPlan(const OptionShares& options, double ms)
    {
        std::vector<std::pair<int, double>> rows{{0, 1.0}};
        for (std::size_t row = 0; row < rows_.size(); ++row)
            rows.emplace_back(static_cast<int>(row) + 1, unitsOf(rows_[row], options));
        programme_.addColumnTo(rows, ms);
        columns_.push_back(options);
    }

    /// `known` is the share of the known plan, which takes the budget at each event.
    bool addRowFor(const OptionShares& shares, double known)
    {
        std::vector<double> memory = problem_.memoryUnder(shares, RowProblem::Memory::atLeast);
        if (known > 0) {
            const std::vector<double> without = problem_.memoryUnder({}, RowProblem::Memory::atLeast);
            for (std::size_t event = 0; event < memory.size(); ++event)
                memory[event] += known * (static_cast<double>(budget_) - without[event]);
        }
        const auto highest = std::ranges::max_element(memory);
        const auto event = static_cast<std::uint32_t>(highest - memory.begin());
        if (*highest <= static_cast<double>(budget_) + rowTolerance * bytesPerUnit_ || rows_.size() >= mostRows
            || std::ranges::find(rows_, event, &RowProblem::Row::event) != rows_.end())
            return false;
        addRow(event);
        events_.push_back(event);
        return true;
    }

    PricedPlans::ByOption costsAt(const std::vector<double>& duals) const
    {
        PricedPlans::ByOption costs;
        for (std::size_t arc = 0; arc < problem_.arcs().size(); ++arc) {
            std::vector<double>& own = costs.emplace_back(problem_.optionCount(arc));
            for (std::size_t option = 0; option < own.size(); ++option)
                own[option] = problem_.effectOf({arc, option}).recomputeMs;
            for (std::size_t row = 0; row < rows_.size(); ++row) {
                const double price = -duals[row + 1] / bytesPerUnit_;
                if (price <= 0)
                    continue;
                const std::span<const double> changes = problem_.changesIn(rows_[row], arc);
                for (std::size_t option = 0; option < changes.size(); ++option)
                    own[option] += price * changes[option];
            }
        }
        return costs;
    }

    const RowProblem& problem_;
    double errorMs_;
    PricedPlans plans_;
    Bytes budget_;
    double bytesPerUnit_;
    std::vector<std::uint32_t>& events_;
    std::vector<RowProblem::Row> rows_;
    std::vector<OptionShares> columns_;
    std::vector<double> duals_; ///< of the best bound
    GlpkProblem programme_;
};

} // namespace

OffloadBound boundOfMixtures(const RowProblem& problem, const CopyLimits& copies, Bytes budget,
                             std::vector<std::uint32_t>& events, double knownMs, double enoughMs,
                             const SearchLimit& limit)
{
    return Mixture(problem, copies, budget, knownMs, events).run(knownMs, enoughMs, limit);
}

std::optional<OptionChoices> choicesNear(const RowProblem& problem, const OptionShares& shares)
{
    OptionChoices choices;
    for (std::size_t position = 0; position < problem.positions();) {
        std::map<std::size_t, double> arcs; // share of the arcs that begin here
        for (const auto& [option, share] : shares)
            if (static_cast<std::size_t>(problem.arcs()[option.arc].first) == position)
                arcs[option.arc] += share;
        if (arcs.empty())
            return std::nullopt;
        const auto largest = std::ranges::max_element(arcs, {}, [](const auto& arc) { return arc.second; });
        std::vector<ArcOption>& options = choices.options.emplace_back();
        for (const auto& [option, share] : shares)
            if (option.arc == largest->first)
                options.push_back(option);
        position = static_cast<std::size_t>(problem.arcs()[largest->first].last);
    }
    for (std::vector<ArcOption>& options : choices.options) {
        if (choices.plans * options.size() > mostRounded)
            options.resize(1);
        choices.plans *= options.size();
    }
    return choices;
}

} // namespace headroom
