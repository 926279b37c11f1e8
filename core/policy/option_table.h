// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/chain_problem.h"
#include "core/policy/part_tree.h"
#include "core/policy/step_layout.h"

#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

namespace headroom {

Error stoppedMeasuring(); ///< what was asked to stop

/// The planner's problem for one step and one request: for each part of the step the ways to checkpoint it that are
/// worth it, each predicted on the step. Immutable.
class OptionTable
{
public:
    /// `events` are the model's. Errors are those of predict(), and stoppedMeasuring().
    static Result<OptionTable> create(const StepModel& model, const StorageEvents& events, const PartTree& tree,
                                      int worldSize, StepLayout::SharedArguments sharedArguments,
                                      const std::stop_token& stop = {}, std::optional<std::uint32_t> turn = {});

    bool sharesArguments() const { return sharesArguments_; } ///< there are arguments that several parts have

    const ChainProblem& problem() const { return problem_; }

    /// True: memory under a plan is exactly what the problem says. False: some parts hold one another's storages, and
    /// the problem says what there is at most; relaxed() says what there is at least.
    bool exact() const { return exact_; }
    const ChainProblem& relaxed() const { return exact_ ? problem_ : relaxed_; }

    /// Between forward and backward there is another time when parts may hold most: the table with this turn knows it.
    std::optional<std::uint32_t> otherTurn() const { return otherTurn_; }

    CheckpointPlan planOf(const ChainPath& path) const;

private:
    class Builder;
    ChainProblem problem_;
    ChainProblem relaxed_;
    bool exact_ = true;
    bool sharesArguments_ = false;
    std::optional<std::uint32_t> otherTurn_;
    /// By arc: regions, counted from the arc's module. Equal parts share them.
    std::vector<std::shared_ptr<const std::vector<CheckpointPlan>>> plans_;
    std::vector<std::vector<int>> planOf_; ///< by arc, by option
    std::vector<ModuleId> modules_; ///< by arc
};

} // namespace headroom
