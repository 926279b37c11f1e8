// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan.h"
#include "core/policy/offload_copies.h"
#include "core/policy/row_problem.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace headroom {

/// Searches plans with offload near a linear relaxation: rounds the shares, and replaces single options of whole plans
/// (drafts). The clock of a draft is an estimate, without a replay of the step (CopySchedule).
///
/// All arguments of the constructor must outlive the object.
class DraftSearch
{
public:
    /// Each draft counts memory as `memory` says. A byte above the budget costs `msPerByte`. `events`: where the
    /// memory of plans is likely highest. `copies`: of a chain, with CopyLimits::own, these limits leave out most
    /// replacements before the copies are scheduled.
    DraftSearch(const RowProblem& problem, const CopySchedule& schedule, const CopyLimits& copies,
                RowProblem::Memory memory, Bytes budget, double msPerByte, const std::vector<std::uint32_t>& events);

    /// A whole plan; single options are replaced.
    struct Draft
    {
        OptionShares options; ///< in the order of the chain
        PlanMemory memory;
        Bytes excess = 0; ///< bytes above the budget
        double ms = 0; ///< with exposed copies
    };
    Draft draftOf(OptionShares options) const;
    /// The best drafts of some plans, at most `most`; the best first.
    std::vector<Draft> bestOf(std::vector<OptionShares> plans, std::size_t most) const;
    /// Whether a draft exceeds the budget less, or takes less time.
    static bool isBetter(const Draft& draft, const Draft& other);

    /// A plan, and the time that the draft expects.
    struct Timed
    {
        CheckpointPlan plan;
        double ms = 0;
        Bytes excess = 0; ///< of the draft
    };
    Timed timed(const Draft& draft) const;

    /// Whole plans near the shares of a linear relaxation: a plan of single parts where parts and a module around them
    /// have shares, if any do, then a plan of the largest shares. Of the few parts with several options, all choices
    /// are tried: the quickest that fits, or the plan that exceeds the budget least. Empty: there are no shares.
    std::vector<Draft> rounded(const OptionShares& shares) const;
    /// Replaces single options as long as the plan becomes better and time is left, from the option at `place` on. On
    /// the way the plan may exceed the budget.
    void descend(Draft& draft, const SearchLimit& limit, std::size_t place = 0);
    /// Takes over parts of a plan that fits, until the draft fits or time is up.
    void approach(Draft& draft, const OptionShares& lean, const SearchLimit& limit) const;
    /// Leaves a plan that no single replacement makes better: replaces an option at random or exchanges two, then
    /// others; until the plan fits and takes at most `enoughMs`.
    void improve(Draft& best, double enoughMs, const SearchLimit& limit);

private:
    void descendAtPrice(Draft& draft, const SearchLimit& limit, std::size_t place);
    std::vector<std::pair<double, std::size_t>>
    candidates(const Draft& draft, std::size_t place, double belowMs = std::numeric_limits<double>::infinity()) const;
    bool equalArcs(const ArcOption& a, const ArcOption& b) const;
    void measure(Draft& draft) const; ///< sets all but the options
    double leastMs(const OptionShares& options) const;
    double priced(const LocalEffect& effect) const;
    double recomputeMs(const OptionShares& options) const;
    double costOf(double ms, double excess) const;
    double costOf(const Draft& draft) const;

    const RowProblem& problem_;
    const CopySchedule& schedule_;
    const CopyLimits& copies_;
    RowProblem::Memory memory_;
    Bytes budget_;
    double msPerByte_;
    double shareOfOthers_ = 0; ///< cost of bytes above the budget at other events than the highest
    std::vector<RowProblem::Row> rows_; ///< at events where plans exceeded the budget
};

} // namespace headroom
