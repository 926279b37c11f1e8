// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan.h"
#include "core/policy/offload_copies.h"
#include "core/policy/part_arcs.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace headroom {

/// The quickest plan with offload where memory has a price, and among plans that keep memory constraints. A
/// label-setting dynamic programme along the chain of parts. Exposed copies count by CopyLimits, so that no plan takes
/// less than the returned times. `problem` and `copies` must outlive the object, and CopyLimits::isChain must hold.
class PricedPlans
{
public:
    using ByOption = std::vector<std::vector<double>>; ///< by arc, by option

    /// The time that find() returns may be `errorMs` above the least.
    PricedPlans(const RowProblem& problem, const CopyLimits& copies, double errorMs);

    /// A plan and the time with exposed copies, in ms.
    struct Found
    {
        OptionShares options;
        double ms = 0;
    };
    /// The cheapest plan of the parts from position `begin` on. `costs` are ms beside copies. Without options if time
    /// is up.
    Found find(const ByOption& costs, const SearchLimit& limit, std::size_t begin = 0) const;

    /// A memory constraint: what each option takes of the memory that is left, in units.
    struct MemoryRow
    {
        double left = 0;
        double price = 0; ///< ms of a unit
        ByOption units; ///< an empty list: nothing
    };
    /// Enumerates the plans that keep all rows and take less than `belowMs`. Returns the quickest with the time;
    /// without options, and with `belowMs`, if there is none. nullopt: too many plans, or time is up. `costs` has the
    /// rows' prices, of which any give the same plan: duals of a linear relaxation leave least to enumerate.
    std::optional<Found> findWithin(const std::vector<MemoryRow>& rows, const ByOption& costs, double belowMs,
                                    const SearchLimit& limit) const;

    double msOf(const OptionShares& options) const; ///< time of a plan, by the same rules

    static constexpr double rowTolerance = 1e-3; ///< units of a row

private:
    class Enumeration;

    /// What an option adds to the copies of a plan, in ms.
    struct OptionTimes
    {
        double out = 0, in = 0; ///< copies
        double again = 0; ///< recomputation in the backward
        double tail = 0, lead = 0; ///< CopyLimits::Own
        double moreOut = 0, moreIn = 0;
        double idleOut = 0, idleIn = 0;
    };
    /// The parts before a position, with their copies to the host that are left when the last part's forward ends, and
    /// their copies back that must be made before the last part's backward begins.
    struct Label
    {
        double outMs = 0, inMs = 0;
        double idleOutMs = 0, idleInMs = 0; ///< idle time that may hide copies anywhere
        double ms = 0;
        ArcOption option; ///< the last one
        std::size_t from = 0; ///< the label before

        double exposedMs() const;
        /// The most ms that the copies of this label expose beyond the copies of another label, whatever follows.
        double mostExposedMs(const Label& than) const;
    };

    template <class LabelAt>
    OptionShares optionsTo(const Label& end, std::size_t begin, const LabelAt& labelAt) const;
    OptionTimes timesOf(const ArcOption& option) const;
    Label after(Label label, std::size_t arc, const OptionTimes& times) const;
    bool isWorse(const OptionTimes& times, double cost, const OptionTimes& than, double thanCost) const;
    bool isWorse(const Label& label, const Label& than) const;
    std::vector<std::size_t> bestOptions(std::size_t arc, const std::vector<double>& costs,
                                         const SearchLimit& limit) const;
    void keepBestLabels(std::vector<Label>& labels, const SearchLimit& limit) const;

    const RowProblem& problem_;
    const CopyLimits& copies_;
    double leftOutMs_; ///< options and labels are left out if others cost at most so much more
    std::vector<std::vector<OptionTimes>> times_; ///< by arc, by option
};

} // namespace headroom
