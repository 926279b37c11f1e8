// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/piecewise_relaxation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace headroom {

namespace {

/// The solver counts memory in GiB, so that its numbers are neither huge nor tiny.
constexpr double memoryUnit = static_cast<double>(GiB);

} // namespace

PiecewiseRelaxation::PiecewiseRelaxation(const PiecewiseProblem& problem, Bytes budget, std::vector<int> activeRows,
                                         std::size_t coarseness)
    : problem_(&problem)
    , activeRows_(std::move(activeRows))
    , discards_(activeRows_.size())
{
    findGroups(coarseness);
    addColumns();
    addPaths();
    addMemory(budget);
    addCapacity(budget);
}

void PiecewiseRelaxation::findGroups(std::size_t coarseness)
{
    // Units have equal signatures if class, interval and the signatures inside are equal. Inner units come first.
    const auto units = problem_->units();
    std::map<std::vector<int>, int> known;
    std::vector<int> signatures(units.size());
    std::vector<int> outermost;
    std::size_t interval = 0;
    for (std::size_t i = 0; i < units.size(); ++i) {
        while (interval < activeRows_.size()
               && problem_->rows()[static_cast<std::size_t>(activeRows_[interval])].units <= static_cast<int>(i))
            ++interval;
        const PiecewiseModules::Module& module = problem_->modules().modules[static_cast<std::size_t>(units[i].module)];
        std::vector<int> key{module.classes[coarseness], static_cast<int>(interval), units[i].forced ? 1 : 0};
        for (const int child : units[i].children)
            key.push_back(signatures[static_cast<std::size_t>(child)]);
        std::sort(key.begin() + 3, key.end());
        signatures[i] = known.emplace(std::move(key), static_cast<int>(known.size())).first->second;
        if (units[i].parent < 0)
            outermost.push_back(static_cast<int>(i));
    }
    addGroup(outermost, -1, signatures, coarseness);
}

/// Splits siblings into groups by signature, then the units inside each group.
void PiecewiseRelaxation::addGroup(const std::vector<int>& members, int parent, const std::vector<int>& signatures,
                                   std::size_t coarseness)
{
    std::map<int, std::vector<int>> bySignature;
    for (const int member : members)
        bySignature[signatures[static_cast<std::size_t>(member)]].push_back(member);
    for (auto& [signature, same] : bySignature) {
        const auto first = static_cast<std::size_t>(same.front());
        const PlanUnit& unit = problem_->units()[first];
        Group group;
        group.parent = parent;
        group.forced = unit.forced;
        group.curve = &problem_->modules().classCurves[coarseness][static_cast<std::size_t>(
            problem_->modules().modules[static_cast<std::size_t>(unit.module)].classes[coarseness])];
        for (const int row : activeRows_)
            group.interval += problem_->rows()[static_cast<std::size_t>(row)].units <= same.front() ? 1 : 0;
        std::vector<int> inside;
        for (const int member : same) {
            const auto& children = problem_->units()[static_cast<std::size_t>(member)].children;
            inside.insert(inside.end(), children.begin(), children.end());
        }
        group.members = std::move(same);
        // A group that no active row counts is never worth its time.
        const bool useful = group.interval < static_cast<int>(activeRows_.size()) || group.forced;
        int nearest = parent;
        if (useful) {
            group.countColumn = 0; // numbered by addColumns()
            nearest = static_cast<int>(groups_.size());
            if (parent >= 0)
                groups_[static_cast<std::size_t>(parent)].leaf = false;
            groups_.push_back(std::move(group));
        }
        if (!inside.empty())
            addGroup(inside, nearest, signatures, coarseness);
    }
}

void PiecewiseRelaxation::addColumns()
{
    for (Group& group : groups_) {
        const auto size = static_cast<double>(group.members.size());
        group.countColumn = milp_.addColumn(group.forced ? size : 0, size, group.curve->baseMs(), true);
        const bool counted = group.interval < static_cast<int>(activeRows_.size());
        if (!counted)
            continue;
        auto& terms = discards_[static_cast<std::size_t>(group.interval)];
        if (group.curve->freeBytes() > 0)
            terms.push_back({group.countColumn, static_cast<double>(group.curve->freeBytes()) / memoryUnit});
        for (const RecomputeCurve::Piece& piece : group.curve->pieces()) {
            const double width = static_cast<double>(piece.bytes) / memoryUnit;
            const int column = milp_.addColumn(0, width * size, piece.msPerByte * memoryUnit);
            const GlpkProblem::Term shares[] = {{column, 1}, {group.countColumn, -width}};
            milp_.addRow(shares, -GlpkProblem::infinity, 0);
            terms.push_back({column, 1});
        }
    }
}

void PiecewiseRelaxation::addPaths()
{
    for (const Group& group : groups_) {
        if (!group.leaf || group.parent < 0)
            continue; // a path with one group needs no row: the column's bound is enough
        const auto size = static_cast<double>(group.members.size());
        std::vector<GlpkProblem::Term> path{{group.countColumn, 1}};
        for (int outer = group.parent; outer >= 0; outer = groups_[static_cast<std::size_t>(outer)].parent) {
            const Group& around = groups_[static_cast<std::size_t>(outer)];
            path.push_back({around.countColumn, size / static_cast<double>(around.members.size())});
        }
        milp_.addRow(path, -GlpkProblem::infinity, size);
    }
}

void PiecewiseRelaxation::addMemory(Bytes budget)
{
    int before = -1;
    for (std::size_t row = 0; row < activeRows_.size(); ++row) {
        const Bytes required = problem_->rows()[static_cast<std::size_t>(activeRows_[row])].required;
        const double least = static_cast<double>(std::max<Bytes>(required - budget, 0)) / memoryUnit;
        const int sum = milp_.addColumn(least, GlpkProblem::infinity, 0);
        std::vector<GlpkProblem::Term> terms = discards_[row];
        if (before >= 0)
            terms.push_back({before, 1});
        terms.push_back({sum, -1});
        milp_.addRow(terms, 0, 0);
        before = sum;
    }
}

/// Adds rows that say how many units must be checkpointed at least, if each discards all that it has. The memory rows
/// imply this only to the solver's tolerance; counted in multiples of the units' greatest common divisor the solver
/// sees the difference of a byte.
void PiecewiseRelaxation::addCapacity(Bytes budget)
{
    for (std::size_t row = 0; row < activeRows_.size(); ++row) {
        Bytes measure = 0;
        for (const Group& group : groups_)
            if (group.interval <= static_cast<int>(row))
                measure = std::gcd(measure, group.curve->maxBytes());
        const Bytes missing = problem_->rows()[static_cast<std::size_t>(activeRows_[row])].required - budget;
        if (measure == 0 || missing <= 0)
            continue;
        std::vector<GlpkProblem::Term> terms;
        for (const Group& group : groups_)
            if (group.interval <= static_cast<int>(row)) {
                const Bytes multiple = group.curve->maxBytes() / measure;
                terms.push_back({group.countColumn, static_cast<double>(multiple)});
            }
        const Bytes least = (missing + measure - 1) / measure;
        milp_.addRow(terms, static_cast<double>(least), GlpkProblem::infinity);
    }
}

MilpResult PiecewiseRelaxation::solve(const MilpOptions& options)
{
    return milp_.solve(options);
}

std::vector<bool> PiecewiseRelaxation::place(const MilpResult& solution, Order order) const
{
    const auto units = problem_->units();
    std::vector<bool> chosen(units.size());
    for (const Group& group : groups_) {
        std::vector<int> available;
        for (const int member : group.members) {
            bool inside = false;
            for (int outer = units[static_cast<std::size_t>(member)].parent; outer >= 0 && !inside;
                 outer = units[static_cast<std::size_t>(outer)].parent)
                inside = chosen[static_cast<std::size_t>(outer)];
            if (!inside)
                available.push_back(member);
        }
        const auto wanted
            = static_cast<std::size_t>(std::lround(solution.values[static_cast<std::size_t>(group.countColumn)]));
        const std::size_t count = std::min(wanted, available.size());
        const std::size_t first = order == Order::innerFirst && !group.leaf ? available.size() - count : 0;
        for (std::size_t i = first; i < first + count; ++i)
            chosen[static_cast<std::size_t>(available[i])] = true;
    }
    return chosen;
}

} // namespace headroom
