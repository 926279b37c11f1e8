// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan.h"
#include "core/policy/part_options.h"

#include <compare>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

namespace headroom {

Error stoppedMeasuring(); ///< the error of PartArcs::create() after a stop request

/// The arcs of a step's chain of parts (core/plan/chain_problem.h), and the options to checkpoint each arc.
/// Equal arcs have equal options, predicted once.
struct PartArcs
{
    struct Arc
    {
        int unit = 0; ///< of the tree
        int first = 0, last = 0; ///< parts first to last - 1
        bool hidden = false; ///< the arc has no options: a module around the arc must be checkpointed as a whole
        std::shared_ptr<const LocalReplay> replay;
        std::size_t arcClass = 0;
    };
    struct ArcClass
    {
        PartOptions options;
        std::vector<std::size_t> arcs;
    };
    std::vector<Arc> arcs; ///< sorted by first, then last
    std::vector<ArcClass> classes;

    /// The events of an arc, for the choice of the arc's options.
    using PartEventsOf = std::function<StepLayout::PartEvents(const Arc& arc)>;

    /// By StorageId: whether the storage is memory of the step, and not of the arc's part (LocalReplay).
    using SharedOf = std::function<std::vector<bool>(const Arc& arc)>;

    /// Error: as predict(), and stoppedMeasuring().
    static Result<PartArcs> create(const StepModel& model, const StorageEvents& events, const PartTree& tree,
                                   const SharedOf& sharedOf, const MayCheckpoint& may, const PartEventsOf& partEventsOf,
                                   const std::stop_token& stop);
};

/// A module, and a plan, of an arc's part, with the numbers of the step's modules.
ModuleId inStep(ModuleId module, ModuleId part);
CheckpointPlan inStep(CheckpointPlan plan, ModuleId part);

/// An option to checkpoint an arc of a step, as indices in PartArcs and in the options of the arc's class.
struct ArcOption
{
    std::size_t arc = 0;
    std::size_t option = 0;
};
/// Shares of options: 1 for each option of a plan, less in a linear relaxation.
using OptionShares = std::vector<std::pair<ArcOption, double>>;
using OptionSet = std::vector<std::vector<bool>>; ///< by arc, by option
void addOptions(OptionSet& to, const OptionSet& more); ///< `more` may be empty

} // namespace headroom
