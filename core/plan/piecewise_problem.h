// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/plan/plan_units.h"
#include "core/sac/module_info.h"

#include <array>
#include <optional>
#include <span>
#include <vector>

namespace headroom {

/// The cost of checkpointing a module: recompute time as a convex, piecewise linear function of the discarded bytes,
/// from 0 to the module's activation memory.
///
/// PyTorch writes the function with r, the discarded share of the module's SAC memory: bytes = ACM * r - (ACM - IA),
/// time = ACT * max(0, slopes * r + intercepts). Here corners are at whole bytes, so that plans can be checked in
/// integers.
class RecomputeCurve
{
public:
    /// A linear piece of the curve.
    struct Piece
    {
        Bytes bytes = 0;
        double msPerByte = 0;
        bool operator==(const Piece&) const = default;
    };

    RecomputeCurve() = default;
    explicit RecomputeCurve(const ModuleStats& module);

    double baseMs() const { return baseMs_; } ///< ms with freeBytes() discarded
    Bytes freeBytes() const { return freeBytes_; } ///< bytes that cost no more than baseMs(): always discarded
    std::span<const Piece> pieces() const { return pieces_; } ///< pieces after freeBytes(), by ascending msPerByte
    Bytes maxBytes() const { return maxBytes_; }
    double msAt(Bytes discarded) const; ///< `discarded` is from freeBytes() to maxBytes()

    bool operator==(const RecomputeCurve&) const = default;

    /// A curve with few pieces that is nowhere above any of `curves`. All `curves` have the same maxBytes().
    static RecomputeCurve lowerEnvelope(const std::vector<const RecomputeCurve*>& curves);

private:
    struct Line
    {
        double msAtZero = 0;
        double msPerByte = 0;
    };
    RecomputeCurve(std::vector<Line> lines, Bytes maxBytes);

    double baseMs_ = 0;
    Bytes freeBytes_ = 0;
    Bytes maxBytes_ = 0;
    std::vector<Piece> pieces_;
};

/// The data that all requests for a ModuleInfo share: the tree of modules, and the cost of checkpointing each module.
struct PiecewiseModules
{
    struct Module
    {
        RecomputeCurve curve; ///< only of candidates
        std::array<int, 2> classes{}; ///< by Coarseness: index in classCurves
    };
    /// How modules are grouped into classes: by memory and time without regard to curves (PyTorch's fits of identical
    /// modules can differ much in parts of the curve that are not used), or by curves.
    enum Coarseness : std::size_t { byMemoryAndTime, byCurve, coarsenessCount };

    PlanModules tree;
    std::vector<Module> modules; ///< indexed as tree.modules
    std::array<std::vector<RecomputeCurve>, coarsenessCount> classCurves; ///< by class: lower envelope of the curves

    /// Replaces curves that differ only by noise (less than 1e-4 of the time at every corner) by the first module's
    /// curve: the costs of identical modules must not depend on the noise of a fit. Error: as PlanModules::create().
    static Result<PiecewiseModules> create(ModuleInfoPtr info);
};

/// A memory constraint, at the begin of a module's backward. The memory is `required` without checkpointing, minus the
/// bytes that the first `units` units discard (the units with an earlier end of forward than the module). Redundant
/// constraints are left out.
struct MemoryRow
{
    int units = 0;
    Bytes required = 0;
    int module = 0;
};

/// PyTorch's MILP for a request, as data: the modules that may be checkpointed, and the memory at each module boundary.
/// Answers that need integers only and no solver are computed here.
class PiecewiseProblem
{
public:
    /// `modules` must outlive the problem. Error (badInput): a world size or budget below 1; as planUnits().
    static Result<PiecewiseProblem> create(const PiecewiseModules& modules, const PlanRequest& request);

    std::span<const PlanUnit> units() const { return units_; }
    std::span<const MemoryRow> rows() const { return rows_; } ///< strictly ascending by `units` and by `required`
    const RecomputeCurve& curve(int unit) const;
    const PiecewiseModules& modules() const { return *modules_; }

    /// The smallest budget with a choice of units, exact to the byte.
    Bytes leastBudget() const;
    /// A choice that fits: in each subtree the units that discard most. Empty if the budget is below leastBudget().
    std::optional<std::vector<bool>> mostDiscarding(Bytes budget) const;

    struct Discards
    {
        std::vector<Bytes> bytes; ///< by unit; 0 if not chosen
        double ms = 0; ///< recompute time of all units
    };
    enum class Preference { earlier, later }; ///< the units that discard first among bytes of equal cost
    /// The cheapest discards of the `chosen` units that keep `rows` within the budget; empty if impossible. No chosen
    /// unit is inside another.
    std::optional<Discards> allocate(const std::vector<bool>& chosen, Bytes budget, std::span<const int> rows,
                                     Preference preference) const;

    struct Peak
    {
        Bytes bytes = 0;
        int row = 0;
    };
    Peak peak(const std::vector<Bytes>& discarded) const; ///< `discarded`: by unit

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
    std::vector<int> lastRow_; ///< by number of units: the last row with at most that many, or -1
};

} // namespace headroom
