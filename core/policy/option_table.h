// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/chain_problem.h"
#include "core/policy/part_tree.h"
#include "core/policy/step_layout.h"

#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

namespace headroom {

/// The planner's problem for a step and a request: for each part of the step, the checkpointing options that are not
/// dominated, each predicted on the step. Immutable.
class OptionTable
{
public:
    /// `events` are of the model's trace; `boundary` as in StepLayout. Error: as predict(), and stoppedMeasuring().
    static Result<OptionTable> create(const StepModel& model, const StorageEvents& events, const PartTree& tree,
                                      int worldSize, StepLayout::SharedArguments sharedArguments,
                                      const std::stop_token& stop = {}, std::optional<std::uint32_t> boundary = {});

    bool sharesArguments() const { return sharesArguments_; } ///< some tensors are arguments of several parts

    const ChainProblem& problem() const { return problem_; }

    /// True: problem() has the exact memory of every plan. False: some parts hold storages of others; then problem()
    /// has an upper bound of the memory, and relaxed() a lower bound.
    bool exact() const { return exact_; }
    const ChainProblem& relaxed() const { return exact_ ? problem_ : relaxed_; }

    /// Another lower bound of the memory, with what parts hold at the other boundary; null: there is no other boundary.
    const ChainProblem* relaxedElsewhere() const { return elsewhere_ ? &*elsewhere_ : nullptr; }

    /// Another event between forward and backward at which plans may hold most. A table created with this boundary
    /// counts the event.
    std::optional<std::uint32_t> otherBoundary() const { return otherBoundary_; }

    CheckpointPlan planOf(const ChainPath& path) const;

private:
    class Builder;
    ChainProblem problem_;
    ChainProblem relaxed_;
    std::optional<ChainProblem> elsewhere_;
    bool exact_ = true;
    bool sharesArguments_ = false;
    std::optional<std::uint32_t> otherBoundary_;
    /// By arc: the plan of each option, modules numbered from the arc's module. Equal parts share plans.
    std::vector<std::shared_ptr<const std::vector<CheckpointPlan>>> plans_;
    std::vector<std::vector<int>> planOf_; ///< by arc, by option: index in plans_
    std::vector<ModuleId> modules_; ///< by arc
};

} // namespace headroom
