// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan.h"
#include "core/policy/part_arcs.h"

#include <compare>
#include <cstddef>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

namespace headroom {

/// A way (option) to checkpoint an arc of a step, as indices in PartArcs and in the options of the arc's kind.
struct ArcWay
{
    std::size_t arc = 0;
    std::size_t way = 0;
};
/// Shares of ways: 1 for each way of a plan, less in a linear relaxation.
using WayShares = std::vector<std::pair<ArcWay, double>>;
using WaySet = std::vector<std::vector<bool>>; ///< by arc, by way

/// The memory of a step at each event as a sum: the memory of the recorded step, and the effect of a way for each part.
/// The sum holds for any order of forward and backward, while ChainProblem needs the order of a chain. Immutable.
class RowProblem
{
public:
    /// The kind of memory in the sum. Some parts hold storages of others, so that the sum over single parts is not
    /// exact.
    enum class Memory {
        atLeast, ///< no plan takes less
        atMost, ///< most plans take no more
    };

    /// Ways are chosen by what each part holds between the part's own forward and backward. Error: as
    /// PartArcs::create().
    static Result<RowProblem> create(const StepModel& model, const StorageEvents& events, const PartTree& tree,
                                     int worldSize, const std::stop_token& stop);

    const std::vector<PartArcs::Arc>& arcs() const { return parts_.arcs; }
    std::size_t positions() const { return positions_; } ///< of the chain of parts
    std::size_t waysOf(std::size_t arc) const { return optionsOf(arc).effects.size(); }
    const LocalEffect& effectOf(const ArcWay& way) const { return optionsOf(way.arc).effects[way.way]; }

    /// The memory at an event, as a constraint.
    struct Row
    {
        /// The change of an arc's effect that counts at the event; -1: none yet.
        struct Moment
        {
            std::int32_t change = -1;
            bool atEvent = false;
        };
        std::uint32_t event = 0;
        Bytes bytes = 0; ///< without a plan
        Bytes most = 0; ///< limit
        std::vector<Moment> moments; ///< by arc
    };
    Row rowAt(std::uint32_t event, Memory memory, Bytes most) const;
    Bytes changeIn(const Row& row, const ArcWay& way) const; ///< bytes that a way adds there

    std::vector<double> memoryUnder(const WayShares& shares, Memory memory) const; ///< by event

    /// Arcs that no row and no position connects with others, and the rows of such arcs. Each component is a separate
    /// problem.
    struct Component
    {
        std::vector<std::size_t> arcs;
        std::vector<std::size_t> rows;
        auto operator<=>(const Component&) const = default;
    };
    std::vector<Component> components(const std::vector<Row>& rows, const WaySet& ways) const;

    CheckpointPlan planOf(const WayShares& shares) const;

private:
    RowProblem() = default;
    const PartOptions& optionsOf(std::size_t arc) const { return parts_.kinds[parts_.arcs[arc].kind].options; }
    const std::vector<Bytes>& base(Memory memory) const { return memory == Memory::atLeast ? atLeast_ : atMost_; }

    PartArcs parts_;
    std::vector<ModuleId> modules_; ///< by arc
    std::size_t positions_ = 0;
    std::vector<Bytes> atLeast_, atMost_; ///< by event: memory without a plan
};

struct RowAnswer
{
    std::optional<CheckpointPlan> plan; ///< empty: none was found
    double plannedMs = 0; ///< time of the plan, with exposed copies
    WayShares relaxed; ///< the solution of the linear relaxation; empty: none
    double boundMs = 0; ///< no plan that fits the rows takes less time; infinite if none fits
    double msPerGiB = 0; ///< ms that another GiB saves, by the linear relaxation
    std::int64_t nodes = 0; ///< of the search tree
};

/// Cost of a ms of hidden copies: of equal plans the plan that moves less is taken.
inline constexpr double copyPrice = 1e-3;

/// What the copies of a plan's offload may take. What a part and the later parts save goes to the host while these
/// parts run forward, and comes back while the later parts run backward. A copy beyond that time is exposed, and costs
/// as much as recomputation.
struct CopyLimits
{
    HostLink link;
    std::vector<double> forwardMs; ///< by position of the chain: time of the part's work in forward
    std::vector<double> backwardMs;
    Bytes host = 0; ///< most pinned host memory; 0: any
};

/// Plans a step that is no chain (models with a backward pass each, several backward passes of a model) by a MILP that
/// chooses a way for each part. Memory is constrained by rows at single events. Rows are added lazily, where a solution
/// so far exceeds the budget (cutting planes). Ways are added where the linear relaxation could become cheaper (column
/// generation).
///
/// The plan takes at most `gap` more than the least time, if found within the limit. `copies` is for a problem with
/// ways that offload; the time then includes the exposed copies.
RowAnswer solveRows(const RowProblem& problem, Bytes budget, RowProblem::Memory memory, double gap,
                    const SearchLimit& limit, const std::optional<CopyLimits>& copies = {});

/// Solves only the linear relaxation: the answer has no plan.
RowAnswer relaxRows(const RowProblem& problem, Bytes budget, RowProblem::Memory memory, const SearchLimit& limit,
                    const CopyLimits& copies);

/// The plan of least peak, by the upper bound of memory; empty if none of less than `most` bytes is found in time.
std::optional<CheckpointPlan> minMemoryInRows(const RowProblem& problem, Bytes most, const SearchLimit& limit);

} // namespace headroom
