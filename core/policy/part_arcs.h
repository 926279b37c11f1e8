// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/part_options.h"

#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

namespace headroom {

Error stoppedMeasuring(); ///< the error of PartArcs::create() after a stop request

/// The arcs of a step's chain of parts (core/plan/chain_problem.h), and the ways (options) to checkpoint each arc.
/// Equal arcs have equal ways, predicted once.
struct PartArcs
{
    struct Arc
    {
        int unit = 0; ///< of the tree
        int first = 0, last = 0; ///< parts first to last - 1
        bool hidden = false; ///< the arc has no ways: a module around the arc must be checkpointed as a whole
        std::shared_ptr<const LocalReplay> replay;
        std::size_t kind = 0;
    };
    struct Kind
    {
        PartOptions options;
        std::vector<std::size_t> arcs;
    };
    std::vector<Arc> arcs; ///< sorted by first, then last
    std::vector<Kind> kinds;

    /// The place of an arc, for the choice of the arc's ways.
    using PlaceOf = std::function<StepLayout::Place(const Arc& arc)>;

    /// `shared` are the storages that are arguments of several parts. Error: as predict(), and stoppedMeasuring().
    static Result<PartArcs> create(const StepModel& model, const StorageEvents& events, const PartTree& tree,
                                   const std::vector<bool>& shared, const MayCheckpoint& may, const PlaceOf& placeOf,
                                   const std::stop_token& stop);
};

/// A plan of an arc's part, with the modules of the step.
CheckpointPlan inStep(CheckpointPlan plan, ModuleId part);

} // namespace headroom
