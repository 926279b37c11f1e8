// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/compare/peak_side.h"
#include "core/fit/changes.h"
#include "core/policy/card.h"
#include "core/policy/causes.h"
#include "core/policy/step_planner.h"
#include "core/timeline/live_tree.h"
#include "core/timeline/storage_owners.h"

#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace headroom {

/// What a report is about: a step, and what the caller knows of plans.
struct ReportRequest
{
    StepTracePtr trace;
    TimelinePtr recorded; ///< the step without a plan
    CardPtr card; ///< where training has to run; null: no card is known
    PlanAnswerPtr plan; ///< null: no plan was asked for
    bool isPlannedForCard = false; ///< the plan is that of planForCard() for `card`, without other wishes
    std::string policyFile; ///< the plan is that of a policy; empty: a planner's
    std::optional<Policy> policy; ///< of the plan; nullopt: none fits, or the plan is by op
    std::string whyNoPlan; ///< why no plan can be made of the step, a sentence without an end; empty: plans can be made
    std::vector<FrontierPoint> frontier; ///< peak ascending; empty: not computed
    ModuleInfoPtr modules; ///< for the obstacles to checkpointing; null: not known
    std::string version; ///< of Headroom
};

/// What is alive at an instant, largest first.
struct Held
{
    std::vector<ModuleHolding> modules;
    std::vector<LineHolding> lines; ///< empty: the step has no source lines
};

/// A report with all of its numbers. Each is computed by the function that the command line and the window use.
struct Report
{
    ReportRequest of;
    StepInstant peak;
    OwnAllocator allocator;
    std::optional<CardRun> run; ///< of the step without a plan; nullopt: no card is known, or the step ran on a GPU
    std::vector<Cause> causes; ///< why the step takes its memory, most likely first
    std::optional<Changes> changes; ///< what would help on the card, calculated from this step; nullopt: as `run`
    std::optional<StepClock> clock; ///< without a plan; nullopt: hasClock() is false
    std::optional<StepClock> plannedClock;
    Held held; ///< at the peak of the recorded step
    Held plannedHeld; ///< at the peak under the plan

    const StepTrace& trace() const { return *of.trace; }
    /// The step under the plan; null: there is no plan, or none fits.
    TimelinePtr planned() const { return of.plan ? of.plan->timeline : nullptr; }
};

/// Computes what the request leaves out. Takes seconds for a large step. Stopped by `stop`, the report is of no use.
/// Error: as changesThatHelp() and clockOf().
Result<Report> makeReport(ReportRequest request, const std::stop_token& stop = {});

/// The report as one HTML document. The document loads nothing and has no script; its Content-Security-Policy forbids
/// both. Names of modules, ops and files are text. Needs a QGuiApplication, for the colours of the theme.
std::string reportHtml(const Report& report);

/// Writes the document as an AtomicFile. Error (badInput): the file cannot be written.
Status writeReport(const Report& report, const std::filesystem::path& path);

} // namespace headroom
