// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/mapped_file.h"
#include "core/cost/step_times.h"
#include "core/joint/ops_frontier.h"
#include "core/policy/card_planner.h"
#include "core/policy/causes.h"
#include "core/policy/plan_answer.h"
#include "core/policy/policy_maker.h"
#include "core/policy/step_planner.h"
#include "core/predict/module_memory.h"
#include "core/predict/step_clock.h"
#include "core/snapshot/import.h"
#include "core/timeline/live_tree.h"
#include "core/timeline/range_summary.h"
#include "core/trace/source_lines.h"
#include "views/models/live_blocks_model.h"

#include <QMetaType>
#include <QString>
#include <QUndoStack>

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

namespace headroom {

/// The settings of plans by op.
struct OpsChoice
{
    OpsSolver solver = OpsSolver::dp;
    OpsRuntime runtime = OpsRuntime::measured; ///< the window plans by time
    std::shared_ptr<const std::vector<double>> times; ///< by op, from a file of measurements; null: the step's own
    QString timesFile; ///< name of the file of `times`

    bool operator==(const OpsChoice&) const = default;
    OpsRequest request() const;
};

/// The user's choice of the card on which training has to run.
struct CardChoice
{
    static constexpr const char* none = "none"; ///< a value of `card`: budgets are judged by their bytes alone

    std::string card; ///< the name of a GPU, a size, or `none`; empty: the GPU of the step
    std::optional<std::string> settings; ///< as in PYTORCH_CUDA_ALLOC_CONF; nullopt: the recorded program's

    bool operator==(const CardChoice&) const = default;
};

/// The user's choice whether plans by modules may move saved tensors to host memory.
struct OffloadChoice
{
    bool allowed = false;
    Bytes hostMemory = 0; ///< most pinned host memory; 0: any

    bool operator==(const OffloadChoice&) const = default;
};

/// A plan by op as selective checkpoints of blocks: lists of ops to save that eager PyTorch can apply.
struct OpsPolicy
{
    OpsDecisionsPtr of;
    Policy policy;
    std::string whyNot; ///< why there is no policy; empty: there is one
};
using OpsPolicyPtr = std::shared_ptr<const OpsPolicy>;

/// The window's interface to the planner of one recorded step: StepPlanner's functions as virtual functions, so that
/// tests of the window can replace the solver. Immutable; any thread may call every function.
class StepEngine
{
public:
    virtual ~StepEngine() = default;

    virtual const StepModel& model() const noexcept = 0;
    const StepTracePtr& trace() const noexcept { return model().trace(); }
    const TimelinePtr& recorded() const noexcept { return model().recorded(); }
    virtual const ModuleInfoPtr& moduleInfo() const noexcept = 0;
    virtual const ModuleEffects& effects() const noexcept = 0;

    /// The best plan found in about `limitMs`, with its gap. Errors of this function and of the next: as StepPlanner's.
    virtual Result<PlanAnswer> solve(const PlanRequest& request, std::stop_token stop, double limitMs) const = 0;
    virtual Result<std::vector<FrontierPoint>> frontier(const PlanRequest& request, int points, std::stop_token stop,
                                                        const FrontierWatch& grown) const = 0;
    virtual Result<std::vector<ModuleOption>> moduleOptions(ModuleId module) const = 0;
    virtual Result<PlanAnswer> planForCard(const PlanRequest& request, const CardPtr& card,
                                           std::stop_token stop) const = 0;
    virtual Result<std::optional<BetterSettings>> betterSettings(const PlanRequest& request, const PlanAnswer& found,
                                                                 std::stop_token stop) const = 0;

    /// Whether a plan of the step can move saved tensors to the host; the error says why not.
    Status offloadable() const
    {
        const Status can = plannable(*trace());
        return can ? headroom::offloadable(model()) : can;
    }

    /// The clock of the step under a plan, by one replay; nullopt: the step has none (hasClock()).
    std::optional<StepClock> clock(const CheckpointPlan& plan) const
    {
        if (!hasClock(*trace()))
            return std::nullopt;
        const Result<StepClock> clock = clockOf(*trace(), model().index(), plan);
        return clock ? std::optional(*clock) : std::nullopt;
    }

protected:
    StepEngine() = default;
    StepEngine(const StepEngine&) = delete;
    StepEngine& operator=(const StepEngine&) = delete;
};

using StepEnginePtr = std::shared_ptr<const StepEngine>;
using StepEngineFactory = std::function<Result<StepEnginePtr>(StepTracePtr)>;

/// Makes the program's StepEngine: it calls StepPlanner, or only shows a step that is not plannable(). Errors: as
/// StepPlanner::create().
Result<StepEnginePtr> makePlannerEngine(StepTracePtr trace);

/// The module of that name, with or without the root's class name in front; invalid: no such module.
ModuleId moduleNamed(const StepTrace& trace, const std::string& name);

/// The initial budget of a step: its recorded peak if a card is known, for which a plan is looked for if need be, or if
/// the step is not plannable(). Else 70 % of the peak, rounded down to 64 MiB for large steps.
Bytes firstBudget(const StepTrace& trace, Bytes recordedPeak, bool cardIsKnown);

/// The first module in the order of the model that can be checkpointed; it is selected when a step opens.
ModuleId firstCandidate(const ModuleInfo& info, const StepTrace& trace);

/// The card of a choice; null: none, or not known.
CardPtr cardOf(const CardChoice& choice, const StepTrace& step);

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

/// One undo step of a document, made of two functions.
class UndoStep : public QUndoCommand
{
public:
    enum Kind : int {
        single = -1, ///< never becomes one with the undo step before, as QUndoCommand::id() says
        typing = 1, ///< undo steps of typing in a row become one
        step = 2, ///< replaces the open step: the functions hold both steps
    };

    UndoStep(const QString& text, std::function<void()> redo, std::function<void()> undo, int kind);
    explicit UndoStep(const UndoStep& done); ///< the first redo(), by QUndoStack::push(), does nothing

    int id() const override { return kind_; }
    bool mergeWith(const QUndoCommand* later) override;
    void undo() override { undo_(); }
    void redo() override;

private:
    std::function<void()> redo_;
    std::function<void()> undo_;
    int kind_;
    bool done_ = false;
};

/// Leaves out the oldest undo steps, so that at most `most` of kind UndoStep::step stay.
void forgetOldSteps(QUndoStack& stack, int most);

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
