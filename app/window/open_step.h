// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/ops_answer.h"
#include "app/window/step_engine.h"
#include "core/cost/step_times.h"
#include "core/policy/policy_maker.h"
#include "core/predict/module_effect.h"
#include "core/predict/step_clock.h"
#include "core/snapshot/import.h"
#include "views/models/live_blocks_model.h"

#include <QMetaType>
#include <QString>

#include <memory>
#include <optional>
#include <vector>

namespace headroom {

/// A recorded step, read and ready to be planned. Immutable.
struct OpenStep
{
    QString path;
    StepEnginePtr engine;
    ModuleNames names;
    StepTracePtr file = nullptr; ///< with the times of the file
    StepTimes times = {}; ///< whose the times of the ops are
    TimeChoice choice = {}; ///< what was asked for
    std::optional<StepClock> clock = {}; ///< without a plan; none: it says nothing of the step
    std::vector<ModuleId> collectiveModules = {}; ///< by row of StepTrace::Collectives

    const StepTrace& trace() const { return *engine->trace(); }
    /// By ModuleId: the step without a plan.
    const std::vector<ModuleEffect>& recorded() const { return engine->effects().recorded(); }
};
using OpenStepPtr = std::shared_ptr<const OpenStep>;

/// A memory snapshot that was read, to choose a part of it.
struct ReadSnapshot
{
    QString path;
    SnapshotPtr snapshot;
    std::vector<SnapshotDevice> devices;

    /// So many events are more than one wants to look at without a choice.
    static constexpr std::size_t manyEvents = 1'000'000;
    bool asksForPart() const;
};
using ReadSnapshotPtr = std::shared_ptr<const ReadSnapshot>;

/// What the solver answered, with all that the window shows of it. Immutable.
struct PlanAnswer
{
    quint64 generation = 0; ///< ascending: a later question has a higher one
    PlanRequest request;
    PlannedStep step;
    std::optional<PlannedStep> closest; ///< when nothing fits: the plan at the least budget
    std::vector<ModuleEffect> effects; ///< of shown(), by ModuleId
    bool proving = false; ///< the first answer to a question; the one that is proven, or better, comes after it
    std::optional<StepClock> clock = {}; ///< of shown(); none: as of the step
    OpsAnswerPtr ops = nullptr; ///< of a plan of single ops, shown() is its plan; null: modules were planned

    PlanMode mode() const noexcept { return ops ? PlanMode::ops : PlanMode::modules; }
    bool fits() const noexcept { return step.timeline != nullptr; }
    /// What the plots show: the plan, or what comes closest to one. Without a timeline when there is neither.
    const PlannedStep& shown() const noexcept { return closest ? *closest : step; }
};
using PlanAnswerPtr = std::shared_ptr<const PlanAnswer>;

using FrontierPtr = std::shared_ptr<const std::vector<FrontierPoint>>;

/// What the planner may choose from for one module.
struct WaysOfModule
{
    ModuleId module;
    std::vector<ModuleWay> ways;
};
using WaysOfModulePtr = std::shared_ptr<const WaysOfModule>;

/// What is alive at one instant of a timeline.
struct LiveMemory
{
    TimelinePtr timeline;
    std::size_t changeCount = 0;
    double ms = 0;
    LiveBlocksTable table;
};
using LiveMemoryPtr = std::shared_ptr<const LiveMemory>;

} // namespace headroom
