// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/op_issue.h"
#include "core/policy/part_tree.h"
#include "core/policy/row_problem.h"
#include "core/predict/step_clock.h"
#include "core/predict/step_model.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace headroom {

/// What an option adds to the copies of a plan, in ms.
struct OptionCopies
{
    double out = 0, in = 0; ///< copies
    double again = 0; ///< recomputation in the backward
    double tail = 0, lead = 0; ///< CopyLimits::Own
    double moreOut = 0, moreIn = 0;
    double idleOut = 0, idleIn = 0;

    /// The most ms by which this option exposes more copies than another option, in any plan.
    double mostExposedMs(const OptionCopies& than) const;
    /// The most ms by which the streams of copies, to the host and back, are idle longer with another option.
    std::pair<double, double> mostIdleMs(const OptionCopies& with) const;
};

/// The copies of the parts before a position: those to the host that are left when the last part's forward ends, and
/// those back that must be made before the last part's backward begins.
struct CopiesLeft
{
    double outMs = 0, inMs = 0;
    double idleOutMs = 0, idleInMs = 0; ///< idle time that may hide copies anywhere

    double exposedMs() const;
    /// The most ms by which these copies are more exposed than others, whatever follows.
    double mostExposedMs(const CopiesLeft& than) const;
    /// The most ms by which the streams of copies, to the host and back, are idle longer with others later.
    std::pair<double, double> mostIdleMs(const CopiesLeft& with) const;
};

class CopySchedule;

/// The time that a step leaves for the copies of a plan's offload. What a part and the later parts save goes to the
/// host while these parts run forward, and comes back while the later parts run backward; recomputation gives more
/// time. A copy beyond that time is exposed, and costs as much as recomputation.
///
/// Why copyLimits() gives a bound: the copies of a direction run one after another. All copies to the host of the parts
/// from a position on begin after the forward of the parts before, and end before the backward begins, or the device
/// waits, or the tensors never leave: then a plan that keeps the tensors takes no more. Copies back end before the last
/// use in a part's backward. What the device does between is work and recomputation of these parts, counted in full,
/// and idle time. The recorded step's idle time is counted in full. So each sum of copies is at most that time, the
/// other idle time and the exposed time. In a step that is no chain the whole step, with all that plans may add, is
/// time for each copy.
///
/// With gradient accumulation all of that holds for each micro-batch, and so for the sums.
///
/// The other idle time of a direction: the end of a kernel is the longest path to the kernel, and each path begins with
/// ops that the CPU issues. A plan adds, beside waits and recomputation, only CPU time for copies and for recomputation
/// where the CPU takes longer than the GPU. So the step is later at most by the largest difference, of any kernel, of
/// that CPU time before the kernel and the time by which the CPU was ahead. A plan's copies before a kernel are those
/// of the arcs before, and those of the kernel's arc whose storages were made or packed by then. The largest difference
/// is at most a sum over the options: what an option's CPU time exceeds of a share of the CPU's lead, where the shares
/// of the arcs before a kernel are at most the lead at that kernel (CopyLimits::CpuLead). In the backward, copies of
/// any part may be issued at the begin.
struct CopyLimits
{
    HostLink link;
    /// By position of the chain: time in forward; of the last part with the time of the modules after the part.
    std::vector<double> forwardMs;
    std::vector<double> backwardMs;
    Bytes host = 0; ///< most pinned host memory; 0: any
    /// The parts run in sequence in forward, and in reverse order in backward, each once in each micro-batch. Times are
    /// sums of all micro-batches.
    bool isChain = false;
    int microBatches = 1; ///< of a chain

    /// An option's copies that no work of the option's part hides, and the time that a module around the last part has
    /// beside the part.
    struct Own
    {
        double tailMs = 0; ///< time of copies that are left when the part's forward ends
        double leadMs = 0; ///< time by which the copies back must begin before the part's backward
        double moreOutMs = 0, moreInMs = 0;
        double againMs = 0; ///< time of recomputation in the backward
        double idleOutMs = 0, idleInMs = 0; ///< idle time in forward, and in backward, by the CPU's work for the option
    };
    void setTimes(Own& own, const RowProblem& rows, const ArcOption& option, const CopySchedule& schedule) const;
    double backMs(double toHostMs) const { return toHostMs * link.toHost / link.fromHost; } ///< of the same copies
    OptionCopies timesOf(const RowProblem& rows, const ArcOption& option) const; ///< with `own`
    /// What is left after an arc's parts, of the copies before and of an option of the arc.
    CopiesLeft after(CopiesLeft copies, const PartArcs::Arc& arc, const OptionCopies& option) const;
    double issueMs(const LocalEffect& effect) const; ///< CPU time of an option's copies in a direction
    /// CPU time of an option for copies of both directions, and for recomputation where the CPU takes longer.
    double cpuMs(const PartArcs::Arc& arc, const LocalEffect& effect) const;
    /// Idle time of the GPU while a part, or a module around parts, is recomputed.
    struct Idle
    {
        double gapMs = 0; ///< between kernels
        double cpuMs = 0; ///< where the CPU takes longer
    };
    std::vector<Idle> idleAgain; ///< by unit of the tree
    /// By event: the least time by which the CPU is ahead of the GPU at later ops of the first forward, up to the last
    /// op at which the GPU may wait for the CPU in any plan. None: the GPU never waits there.
    std::vector<double> aheadMs;
    /// Shares of an arc's options in the time by which the CPU is ahead of the GPU.
    struct CpuLead
    {
        double beginMs = 0; ///< of the arcs before, in the first forward
        double forwardMs = 0; ///< in the first forward
        double copiesMs = 0; ///< of copies of both directions, when the backward of all arcs begins
        double againMs = 0; ///< of recomputation
    };
    std::vector<CpuLead> leads; ///< by arc; empty: the GPU never waits for the CPU
    double lateMs(const std::vector<std::uint32_t>& copies) const;
    CopyLimits shortened(double share) const; ///< with that share of the times of forward and backward
    /// By arc, by option; null for limits that are no bound, but what plans likely have: there recomputation hides no
    /// copies, and a part's backward hides half as much for the part's own copies.
    std::shared_ptr<const std::vector<std::vector<Own>>> own;
};

/// The modules after the last part, such as the head of a language model. Copies to the host may last until the end of
/// the forward of these modules, and copies back may begin with the backward.
struct ModulesAfter
{
    struct Calls
    {
        std::uint32_t exit = 0; ///< event: the last end of a forward
        std::uint32_t firstUnpack = StepIndex::never; ///< event: the begin of the backward
    };
    std::vector<ModuleId> modules; ///< each runs once in each micro-batch, and outside of the others
    std::vector<Calls> calls; ///< by call of the last part, which runs once in each micro-batch
};
ModulesAfter modulesAfter(const StepModel& model, const PartTree& tree);

/// The limits of a step's copies: no plan has more time. `times` are of the recorded step.
CopyLimits copyLimits(const StepModel& model, const EventTimes& times, const PartTree& tree, const RowProblem& rows);
CopyLimits expectedLimits(const StepModel& model, const PartTree& tree); ///< without `own`

/// Finds when the tensors of a plan leave the device and come back, so that memory and the device's work hide as much
/// of the copies as possible. Needs no replay of the step. Immutable.
class CopySchedule
{
public:
    /// `times` are of the recorded step, and must outlive the schedule.
    CopySchedule(const StepModel& model, const EventTimes& times, const PartTree& tree);

    struct Found
    {
        CheckpointPlan plan; ///< with Offload, and with parts that only count
        double exposedMs = 0; ///< an estimate
    };
    /// The time of recomputation of the parts up to last - 1.
    struct RecomputedParts
    {
        int last = 0;
        double ms = 0;
    };
    /// `memory` is what the plan takes, all offloaded tensors away as long as possible. `recomputed` covers the
    /// chain in sequence: each begins at the `last` of the one before. `aheadMs`: CopyLimits::aheadMs; the GPU waits
    /// for the CPU after copies that take longer to issue, and copies to the host go on.
    Found find(CheckpointPlan plan, const PlanMemory& memory, Bytes budget, std::span<const RecomputedParts> recomputed,
               std::span<const double> aheadMs) const;

    /// Events: the begin of each copy to the host in the first micro-batch, ascending.
    std::vector<std::uint32_t> copiesOf(const CheckpointPlan& plan) const;
    /// The copies that a plan of one part, or of one module around parts, exposes if all other copies wait.
    CopyLimits::Own ownOf(const CheckpointPlan& plan, ModuleId part) const;

private:
    struct Copied
    {
        std::uint32_t pack = 0; ///< event of the first pack, or of an argument the begin of the call
        Bytes bytes = 0;
        double packMs = 0; ///< time from that event to the end of the forward of the call
        double useMs = 0; ///< time from the begin of the backward of the call to the first use
    };
    /// A moment in the backward of a call: a tensor is unpacked.
    struct Moment
    {
        std::uint32_t event = 0;
        double ms = 0; ///< time from the begin of the backward
        int afterUnpacks = 0; ///< Offload::afterUnpacks
    };
    /// A call of a module that may move tensors, or only count.
    struct Call
    {
        std::uint32_t enter = 0, exit = 0, firstUnpack = 0; ///< events
        std::vector<Moment> moments = {}; ///< the begin of the backward, and a few later ones
        std::vector<Copied> copied; ///< if the call is offloaded, in the order of the packs
        std::vector<Copied> arguments; ///< if the call is checkpointed; the copies back have the reverse order
        /// What a region of a plan moves; null: nothing.
        const std::vector<Copied>* movedBy(const CheckpointRegion& region) const;
    };
    class Search;

    static std::vector<Moment> momentsOf(const StepIndex& index, const StepIndex::Call& call, const EventTimes& times);
    using Moved = std::pair<const Call*, const std::vector<Copied>*>;
    double tailOf(const Call& whole, std::vector<Moved> calls) const;
    double leadOf(const Call& whole, std::vector<Moved> calls) const;
    CheckpointPlan withCounted(CheckpointPlan plan) const;
    /// Of the part that the module is, is inside of, or contains first; -1: none.
    int firstPositionOf(ModuleId module) const
    {
        const std::vector<int>& inside = partsIn_[module.value];
        return inside.empty() ? positions_[module.value] : inside.front();
    }

    const EventTimes* times_;
    HostLink link_;
    std::vector<ModuleId> parts_; ///< by position
    std::vector<std::vector<ModuleId>> counting_; ///< by position: the modules that may count if the part is kept
    ModulesAfter after_;
    std::vector<ModuleId> parents_; ///< by module; invalid for the root
    std::vector<std::vector<int>> partsIn_; ///< by module: the positions of the parts that the module contains
    std::vector<int> positions_; ///< by module: the part that the module is, or is inside of; -1: none
    std::vector<std::vector<Call>> calls_; ///< by module: the calls that save tensors
};

} // namespace headroom
