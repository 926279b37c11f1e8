// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/part_arcs.h"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

namespace headroom {

/// The memory of a step at each event as a sum: the memory of the recorded step, and the effect of an option for each
/// part. The sum holds for any order of forward and backward, while ChainProblem needs the order of a chain. Immutable.
class RowProblem
{
public:
    /// The kind of memory in the sum. Some parts hold storages of others, so that the sum over single parts is not
    /// exact.
    enum class Memory {
        atLeast, ///< no plan takes less
        atMost, ///< most plans take no more
    };

    /// Options are chosen by what each part holds between the part's own forward and backward. Error: as
    /// PartArcs::create().
    static Result<RowProblem> create(const StepModel& model, const StorageEvents& events, const PartTree& tree,
                                     int worldSize, const std::stop_token& stop);

    const std::vector<PartArcs::Arc>& arcs() const { return options_->parts.arcs; }
    std::size_t positions() const { return positions_; } ///< of the chain of parts
    std::size_t optionCount(std::size_t arc) const { return optionsOf(arc).effects.size(); }
    const LocalEffect& effectOf(const ArcOption& option) const { return optionsOf(option.arc).effects[option.option]; }

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
    Bytes changeIn(const Row& row, const ArcOption& option) const; ///< bytes that an option adds there
    /// The same for all options of an arc; empty: all add nothing.
    std::span<const double> changesIn(const Row& row, std::size_t arc) const;

    std::vector<double> memoryUnder(const OptionShares& shares, Memory memory) const; ///< by event

    /// Arcs that no row and no position connects with others, and the rows of such arcs. Each component is a separate
    /// problem.
    struct Component
    {
        std::vector<std::size_t> arcs;
        std::vector<std::size_t> rows;
        auto operator<=>(const Component&) const = default;
    };
    std::vector<Component> components(const std::vector<Row>& rows, const OptionSet& options) const;

    CheckpointPlan planOf(const OptionShares& shares) const;
    ModuleId moduleOf(std::size_t arc) const { return options_->modules[arc]; }

    /// Tensors that are arguments of several parts (a position bias). A checkpoint of any of the parts holds the
    /// tensors where the recording has them freed: that memory counts once for a plan. With atLeast it does not count,
    /// but in a problem of plans that hold the tensors.
    struct SharedArgument
    {
        Bytes bytes = 0;
        std::vector<PartDeviations::Stretch> stretches; ///< between the forwards and the backwards of all the parts
        OptionSet holders; ///< the options that hold the tensors
    };
    const std::vector<SharedArgument>& shared() const { return options_->shared; } ///< the largest few, descending
    /// Whether plans of this problem may either hold a shared argument or not.
    bool canSplit() const { return isHeld_.size() < shared().size(); }
    /// Splits the plans by the largest such argument: the problem of plans without, and of plans that hold the
    /// argument.
    std::pair<RowProblem, RowProblem> split() const;
    /// Whether plans of this problem may have the option.
    bool has(const ArcOption& option) const;

private:
    friend class PlanMemory;
    RowProblem() = default;
    const PartOptions& optionsOf(std::size_t arc) const
    {
        return options_->parts.classes[arcs()[arc].arcClass].options;
    }
    const std::vector<Bytes>& base(Memory memory) const { return memory == Memory::atLeast ? atLeast_ : atMost_; }
    /// Whether base() has a shared argument.
    bool countsShared(std::size_t argument, Memory memory) const
    {
        return memory == Memory::atMost || (argument < isHeld_.size() && isHeld_[argument]);
    }
    bool isHolder(const ArcOption& option, std::size_t argument) const
    {
        return shared()[argument].holders[option.arc][option.option];
    }

    /// A change of an effect that differs from the change before.
    struct Step
    {
        std::size_t number = 0; ///< of the change
        Bytes high = 0, after = 0; ///< as LocalEffect::Change; `after` holds until the next step
    };
    /// What all problems of a step have.
    struct Options
    {
        PartArcs parts;
        std::vector<std::vector<double>> changes; ///< by class of arcs: bytes by Row::Moment, and there by option
        std::vector<std::vector<std::vector<Step>>> steps; ///< by class of arcs, by option
        std::vector<ModuleId> modules; ///< by arc
        std::vector<SharedArgument> shared;
    };
    static std::vector<Step> stepsOf(const LocalEffect& effect);
    static std::vector<SharedArgument> sharedIn(const StepModel& model, const StepLayout& layout,
                                                const Options& options, Bytes peak);
    void findStretches();
    void findHighest();
    /// By stretch: the highest base().
    const std::vector<Bytes>& highest(Memory memory) const
    {
        return memory == Memory::atLeast ? highestAtLeast_ : highestAtMost_;
    }

    std::shared_ptr<const Options> options_;
    std::size_t positions_ = 0;
    std::vector<bool> isHeld_; ///< by shared argument of split()
    std::vector<Bytes> atLeast_, atMost_; ///< by event: memory without a plan
    /// Stretches of events at which every plan adds the same bytes.
    std::vector<std::uint32_t> stretchOf_; ///< by event, and one more
    std::vector<std::uint32_t> beginOf_; ///< by stretch: the first event; one more for the end
    std::vector<Bytes> highestAtLeast_, highestAtMost_; ///< by stretch
};

/// RowProblem::memoryUnder() of a whole plan, in which options are replaced. A shared argument counts if the plan holds
/// the argument. A replacement visits only the stretches of events that the options change, and blocks of
/// stretches between.
class PlanMemory
{
public:
    PlanMemory(const RowProblem& problem, RowProblem::Memory memory, const OptionShares& plan);

    void replace(const ArcOption& option, std::size_t by); ///< by an option of the same arc
    void replace(const OptionShares& options, const OptionShares& by); ///< by options of arcs of the same parts
    Bytes highest() const;
    Bytes highestIn(std::size_t begin, std::size_t end) const; ///< of a range of events that is not empty
    std::uint32_t highestEvent() const;
    /// The sum of the bytes above the budget at the highest events of blocks.
    Bytes sumAbove(Bytes budget) const;

private:
    using Steps = std::span<const RowProblem::Step>;
    Steps stepsOf(const ArcOption& option) const;
    void change(std::size_t arc, Steps from, Steps to);
    void countHolder(const ArcOption& option, int more);
    void countShared(); ///< the shared arguments that the plan holds, and no others
    void findChanged();
    void add(std::size_t begin, std::size_t end, Bytes bytes); ///< to stretches
    void findHighest(std::size_t block);
    Bytes bytesOf(std::size_t stretch) const; ///< highest bytes

    const RowProblem* problem_;
    RowProblem::Memory memory_;
    std::vector<int> holders_; ///< by shared argument: options that hold the argument
    std::vector<bool> countsShared_; ///< by shared argument
    std::vector<Bytes> bytes_; ///< by stretch: highest bytes, without added_
    std::vector<Bytes> added_; ///< by block, to all stretches
    std::vector<Bytes> highest_; ///< by block, with added_
    std::vector<std::size_t> changed_; ///< blocks with stretches that change() has changed
};

} // namespace headroom
