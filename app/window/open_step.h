// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/step_engine.h"
#include "core/base/mapped_file.h"
#include "core/cost/step_times.h"
#include "core/policy/causes.h"
#include "core/policy/policy_maker.h"
#include "core/predict/module_memory.h"
#include "core/predict/step_clock.h"
#include "core/snapshot/import.h"
#include "core/timeline/live_tree.h"
#include "core/timeline/range_summary.h"
#include "core/trace/source_lines.h"
#include "views/models/live_blocks_model.h"

#include <QMetaType>
#include <QString>

#include <memory>
#include <optional>
#include <vector>

namespace headroom {

/// Why a step takes its memory, most likely first.
using CausesPtr = std::shared_ptr<const std::vector<Cause>>;

/// A recorded step that was read and can be planned. Immutable.
struct OpenStep
{
    QString path;
    StepEnginePtr engine;
    ModuleNames names;
    StepTracePtr file = nullptr; ///< the step with the times in its file
    StepTimes times = {}; ///< the source of the op times
    TimeChoice choice = {}; ///< the requested op times
    std::optional<StepClock> clock = {}; ///< clock without a plan; nullopt: the step has none (hasClock())
    std::vector<ModuleId> collectiveModules = {}; ///< by row of StepTrace::Collectives
    std::optional<FileStamp> stamp = {}; ///< state of the file before it was read
    /// By ModuleId: the line of source code that makes most of the module's memory; empty: the step has no lines.
    std::vector<SourceLines::Line> linesOfModules = {};

    const StepTrace& trace() const { return *engine->trace(); }
    /// By ModuleId: the effects of the empty plan.
    const std::vector<ModuleEffect>& recorded() const { return engine->effects().recorded(); }
};
using OpenStepPtr = std::shared_ptr<const OpenStep>;

/// A memory snapshot that was read, from which a part is to be chosen.
struct ReadSnapshot
{
    QString path;
    SnapshotPtr snapshot;
    std::vector<SnapshotDevice> devices;
    std::optional<FileStamp> stamp = {}; ///< state of the file before it was read

    /// From this number of events on, the user must choose a part.
    static constexpr std::size_t manyEvents = 1'000'000;
    bool asksForPart() const;
};
using ReadSnapshotPtr = std::shared_ptr<const ReadSnapshot>;

using FrontierPtr = std::shared_ptr<const std::vector<FrontierPoint>>;

/// The planner's options for one module.
struct OptionsOfModule
{
    ModuleId module;
    std::vector<ModuleOption> options;
};
using OptionsOfModulePtr = std::shared_ptr<const OptionsOfModule>;

/// A range of a timeline of the open step.
struct StepRange
{
    OpenStepPtr step;
    TimelinePtr timeline;
    RangeSummary summary;
};
using StepRangePtr = std::shared_ptr<const StepRange>;

/// The blocks to list: those alive at an instant of a timeline, or those made in a range.
struct LiveMemoryRequest
{
    OpenStepPtr step;
    TimelinePtr timeline;
    std::size_t changeCount = 0; ///< the instant: the number of changes until then
    StepRangePtr range; ///< null: the instant
    LiveBlocksTable::Of of = LiveBlocksTable::Of::modules;
    bool withTree = true; ///< also makes LiveBlocksAt::tree
};

/// The blocks of a request.
struct LiveBlocksAt
{
    LiveMemoryRequest request;
    double ms = 0; ///< the instant
    LiveBlocksTable table;
    LiveTreePtr tree; ///< the same blocks by module, line and block; null: not asked for
};
using LiveBlocksAtPtr = std::shared_ptr<const LiveBlocksAt>;

} // namespace headroom
