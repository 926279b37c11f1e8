// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan_units.h"
#include "core/plan/recompute_curve.h"

#include <array>
#include <optional>
#include <span>
#include <vector>

namespace headroom {

/// What of a ModuleInfo every request shares: its tree of modules, and what checkpointing each of them costs.
struct PiecewiseModules
{
    struct Module
    {
        RecomputeCurve curve; ///< of a candidate
        std::array<int, 2> classes{}; ///< by coarseness: index of classCurves
    };
    /// How modules are taken for equal. First by memory and time, whatever their curves: PyTorch's fits of identical
    /// modules can differ much where the curve is not used. Then by their curves.
    enum Coarseness : std::size_t { byMemoryAndTime, byCurve, coarsenessCount };

    PlanModules tree;
    std::vector<Module> modules; ///< as tree.modules
    std::array<std::vector<RecomputeCurve>, coarsenessCount> classCurves; ///< lower envelope of each class

    /// Curves that differ by noise only (less than 1e-4 of their time at every corner) become that of the first module:
    /// what identical modules cost must not depend on the run of a fit.
    static Result<PiecewiseModules> create(ModuleInfoPtr info);
};

/// Memory while one module's backward begins: `required` without any checkpointing, less what the first `units` units
/// discard (those whose forwards ended before the module's did). Rows that another row implies are left out.
struct MemoryRow
{
    int units = 0;
    Bytes required = 0;
    int module = 0;
};

/// The seed's MILP for one request, as data: who may be checkpointed, and the memory at each module boundary.
/// What can be answered in integers without a solver is answered here.
class PiecewiseProblem
{
public:
    /// `modules` must outlive the problem.
    static Result<PiecewiseProblem> create(const PiecewiseModules& modules, const PlanRequest& request);

    std::span<const PlanUnit> units() const { return units_; }
    std::span<const MemoryRow> rows() const { return rows_; } ///< units and required both strictly ascending
    const RecomputeCurve& curve(int unit) const;
    const PiecewiseModules& modules() const { return *modules_; }

    /// The smallest budget for which a choice of units exists, exactly.
    Bytes leastBudget() const;
    /// A choice that fits: from each subtree whatever discards most. Nothing when the budget is below the least.
    std::optional<std::vector<bool>> mostDiscarding(Bytes budget) const;

    /// Bytes that each chosen unit discards, at least cost. 0 for the others.
    struct Discards
    {
        std::vector<Bytes> bytes;
        double ms = 0;
    };
    enum class Preference { earlier, later }; ///< among bytes of equal cost
    /// For `chosen` units (none inside another): the cheapest discards that keep the given rows within the budget.
    std::optional<Discards> allocate(const std::vector<bool>& chosen, Bytes budget, std::span<const int> rows,
                                     Preference preference) const;

    struct Peak
    {
        Bytes bytes = 0;
        int row = 0;
    };
    Peak peak(const std::vector<Bytes>& discarded) const;
    std::vector<int> allRows() const;

private:
    PiecewiseProblem(const PiecewiseModules& modules, std::vector<PlanUnit> units)
        : modules_(&modules)
        , units_(std::move(units))
    {
    }
    void findRows(int worldSize);
    Bytes mostDiscarded(int unit, Bytes before, Bytes budget, std::vector<bool>& whole) const;
    bool rowHolds(int units, Bytes discarded, Bytes budget) const;

    const PiecewiseModules* modules_;
    std::vector<PlanUnit> units_;
    std::vector<MemoryRow> rows_;
    std::vector<int> lastRow_; ///< for a count of units: the last row with no more units, or -1
};

} // namespace headroom
