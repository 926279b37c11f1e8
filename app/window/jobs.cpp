// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/jobs.h"

#include "core/snapshot/import.h"
#include "core/trace/step_file.h"

#include <map>
#include <string>
#include <utility>

namespace headroom {
namespace {

QString text(const Error& error)
{
    return QString::fromStdString(error.message);
}

double instantOf(const Timeline& timeline, std::size_t changeCount)
{
    return changeCount == 0 || timeline.changes.empty()
        ? 0
        : timeline.changes[std::min(changeCount, timeline.changes.size()) - 1].ms;
}

} // namespace

/// Remembers the plan at the least budget, so that dragging where nothing fits asks for it once.
class Jobs::ClosestPlan
{
public:
    std::optional<PlannedStep> find(const OpenStepPtr& step, const PlanRequest& request, Bytes leastBudget,
                                    const std::stop_token& stop)
    {
        if (leastBudget <= 0)
            return std::nullopt;
        if (step_.lock() == step && pins_ == request.pins && worldSize_ == request.worldSize && least_ == leastBudget)
            return planned_;
        PlanRequest least = request;
        least.budget = leastBudget;
        const Result<PlannedStep> planned = step->engine->solve(least, stop, firstAnswerMs);
        if (!planned || !planned->timeline)
            return std::nullopt;
        step_ = step;
        pins_ = request.pins;
        worldSize_ = request.worldSize;
        least_ = leastBudget;
        planned_ = *planned;
        return planned_;
    }

private:
    std::weak_ptr<const OpenStep> step_;
    std::map<std::string, Pin> pins_;
    int worldSize_ = 1;
    Bytes least_ = 0;
    std::optional<PlannedStep> planned_;
};

Jobs::Jobs(StepEngineFactory makeEngine, QObject* parent)
    : QObject(parent)
    , makeEngine_(std::move(makeEngine))
    , closest_(std::make_shared<ClosestPlan>())
{
    staleTimer_.setSingleShot(true);
    staleTimer_.setInterval(patience);
    connect(&staleTimer_, &QTimer::timeout, this, &Jobs::stopStaleSolve);
}

Jobs::~Jobs() = default;

Jobs::Report Jobs::reportOpening()
{
    return [this, generation = ++openGeneration_](std::function<void()> send) {
        QMetaObject::invokeMethod(
            this,
            [this, generation, send = std::move(send)] {
                if (generation == openGeneration_)
                    send();
            },
            Qt::QueuedConnection);
    };
}

bool ReadSnapshot::asksForPart() const
{
    return devices.size() > 1 || (!devices.empty() && devices.front().events >= manyEvents);
}

void Jobs::open(const QString& path, const std::string& calibration, const std::optional<ImportRequest>& part)
{
    const Report report = reportOpening();
    openLane_.cancel();
    openLane_.post([this, path, calibration, part, report](const std::stop_token& stop) {
        report([this, path] { Q_EMIT openProgressed(path, tr("Reading"), -1); });
        const std::filesystem::path file = path.toStdU16String();
        if (isSnapshotFile(file)) {
            readSnapshotFile(path, part, report, stop);
            return;
        }
        const Result<StepTracePtr> trace = readStepTrace(file);
        if (!trace)
            report([this, path, reason = text(trace.error())] { Q_EMIT openFailed(path, reason); });
        else if (!stop.stop_requested())
            makeStep(path, *trace, calibration, report);
    });
}

SnapshotWatch Jobs::watch(const QString& path, const QString& stage, const Report& report, const std::stop_token& stop)
{
    const auto progressed = [this, path, stage, report, percent = -1](double share) mutable {
        if (const int now = static_cast<int>(100 * share); std::exchange(percent, now) != now)
            report([this, path, stage, share] { Q_EMIT openProgressed(path, stage, share); });
    };
    return {progressed, stop};
}

void Jobs::readSnapshotFile(const QString& path, const std::optional<ImportRequest>& part, const Report& report,
                            const std::stop_token& stop)
{
    const Result<SnapshotPtr> read
        = readSnapshot(std::filesystem::path(path.toStdU16String()), part ? part->range : SnapshotRange(),
                       watch(path, tr("Reading"), report, stop));
    if (stop.stop_requested())
        return;
    if (!read) {
        report([this, path, reason = text(read.error())] { Q_EMIT openFailed(path, reason); });
        return;
    }
    const auto snapshot = std::make_shared<const ReadSnapshot>(ReadSnapshot{path, *read, devicesOf(**read)});
    if (part || !snapshot->asksForPart())
        makePart(snapshot, part.value_or(ImportRequest()), report, stop);
    else
        report([this, snapshot] { Q_EMIT snapshotRead(snapshot); });
}

void Jobs::openPart(const ReadSnapshotPtr& snapshot, const ImportRequest& part)
{
    const Report report = reportOpening();
    openLane_.cancel();
    openLane_.post(
        [this, snapshot, part, report](const std::stop_token& stop) { makePart(snapshot, part, report, stop); });
}

void Jobs::makePart(const ReadSnapshotPtr& snapshot, const ImportRequest& part, const Report& report,
                    const std::stop_token& stop)
{
    const QString& path = snapshot->path;
    const Result<ImportedSnapshot> imported
        = importSnapshot(snapshot->snapshot, std::filesystem::path(path.toStdU16String()), part,
                         watch(path, tr("Following its events"), report, stop));
    if (stop.stop_requested())
        return;
    if (!imported)
        report([this, path, reason = text(imported.error())] { Q_EMIT openFailed(path, reason); });
    else
        makeStep(path, imported->step, "none", report);
}

void Jobs::changeTimes(const OpenStepPtr& step, const std::string& calibration)
{
    const Report report = reportOpening();
    openLane_.cancel();
    openLane_.post([this, step, calibration, report](const std::stop_token&) {
        makeStep(step->path, step->file, calibration, report);
    });
}

void Jobs::makeStep(const QString& path, const StepTracePtr& trace, const std::string& calibration,
                    const Report& report)
{
    const auto fail
        = [&](const Error& error) { report([this, path, reason = text(error)] { Q_EMIT openFailed(path, reason); }); };
    const Result<TimedStep> timed = withTimes(trace, calibration);
    if (!timed)
        return fail(timed.error());
    report([this, path] { Q_EMIT openProgressed(path, tr("Measuring modules"), -1); });
    const Result<StepEnginePtr> engine = makeEngine_(timed->step);
    if (!engine)
        return fail(engine.error());
    const auto step
        = std::make_shared<const OpenStep>(OpenStep{path, *engine, moduleNames(*timed->step), trace, timed->times});
    report([this, step] { Q_EMIT opened(step); });
}

void Jobs::solve(const OpenStepPtr& step, const PlanRequest& request)
{
    const quint64 generation = ++askedGeneration_;
    proofLane_.cancel();
    planLane_.post([this, step, request, generation, closest = closest_](std::stop_token stop) {
        Result<PlannedStep> planned = step->engine->solve(request, stop, firstAnswerMs);
        if (!planned) {
            QMetaObject::invokeMethod(
                this, [this, generation, error = planned.error()] { acceptFailure(generation, error); },
                Qt::QueuedConnection);
            return;
        }
        if (planned->plan.status == PlanStatus::stopped)
            return; // a newer question waits, and will be answered
        PlanAnswer made{generation, request, *std::move(planned), {}, {}, false};
        made.proving = made.step.plan.status == PlanStatus::feasible;
        if (made.step.plan.status == PlanStatus::infeasible)
            made.closest = closest->find(step, request, made.step.plan.leastBudget, stop);
        made.effects = made.shown().timeline ? made.shown().effects : step->recorded();
        const auto answer = std::make_shared<const PlanAnswer>(std::move(made));
        QMetaObject::invokeMethod(
            this, [this, step, answer] { acceptAnswer(step, answer); }, Qt::QueuedConnection);
    });
    stopStaleSolve();
}

void Jobs::acceptAnswer(const OpenStepPtr& step, const PlanAnswerPtr& answer)
{
    if (answer->generation <= answeredGeneration_)
        return;
    answeredGeneration_ = answer->generation;
    if (answer->proving && !solving())
        prove(step, *answer);
    Q_EMIT planned(answer);
}

void Jobs::prove(const OpenStepPtr& step, const PlanAnswer& first)
{
    proofLane_.post([this, step, request = first.request, generation = first.generation](std::stop_token stop) {
        Result<PlannedStep> planned = step->engine->solve(request, stop, proofMs);
        if (!planned || planned->plan.status == PlanStatus::stopped)
            return;
        PlanAnswer made{generation, request, *std::move(planned), {}, {}, false};
        made.effects = made.shown().timeline ? made.shown().effects : step->recorded();
        const auto answer = std::make_shared<const PlanAnswer>(std::move(made));
        QMetaObject::invokeMethod(
            this,
            [this, answer] {
                if (answer->generation == answeredGeneration_ && !solving())
                    Q_EMIT this->planned(answer);
            },
            Qt::QueuedConnection);
    });
}

void Jobs::acceptFailure(quint64 generation, const Error& error)
{
    if (generation <= answeredGeneration_)
        return;
    answeredGeneration_ = generation;
    Q_EMIT planFailed(text(error));
}

void Jobs::stopStaleSolve()
{
    if (planLane_.stopStale(patience))
        staleTimer_.start();
}

void Jobs::computeFrontier(const OpenStepPtr& step, const PlanRequest& request, int points)
{
    const quint64 generation = ++frontierGeneration_;
    frontierLane_.cancel();
    frontierLane_.post([this, step, request, points, generation](std::stop_token stop) {
        const auto report = [this, generation](std::function<void()> send) {
            QMetaObject::invokeMethod(
                this,
                [this, generation, send = std::move(send)] {
                    if (generation == frontierGeneration_)
                        send();
                },
                Qt::QueuedConnection);
        };
        const auto grown = [this, report, next = Lane::Clock::now()](std::vector<FrontierPoint> some) mutable {
            if (Lane::Clock::now() < next)
                return;
            next = Lane::Clock::now() + growthInterval;
            report([this, frontier = std::make_shared<const std::vector<FrontierPoint>>(std::move(some))] {
                Q_EMIT frontierGrew(frontier);
            });
        };
        const Result<std::vector<FrontierPoint>> found = step->engine->frontier(request, points, stop, grown);
        if (stop.stop_requested())
            return;
        if (!found)
            report([this, reason = text(found.error())] { Q_EMIT frontierFailed(reason); });
        else
            report([this, frontier = std::make_shared<const std::vector<FrontierPoint>>(*found)] {
                Q_EMIT frontierComputed(frontier);
            });
    });
}

void Jobs::listLiveMemory(const OpenStepPtr& step, const TimelinePtr& timeline, std::size_t changeCount)
{
    const quint64 generation = ++memoryGeneration_;
    memoryLane_.post([this, step, timeline, changeCount, generation](std::stop_token) {
        const auto memory = std::make_shared<const LiveMemory>(
            LiveMemory{timeline, changeCount, instantOf(*timeline, changeCount),
                       makeLiveBlocksTable(step->engine->trace(), liveBlocks(step->trace(), *timeline, changeCount))});
        QMetaObject::invokeMethod(
            this,
            [this, generation, memory] {
                if (generation == memoryGeneration_)
                    Q_EMIT liveMemoryListed(memory);
            },
            Qt::QueuedConnection);
    });
}

void Jobs::findWays(const OpenStepPtr& step, ModuleId module)
{
    const quint64 generation = ++waysGeneration_;
    waysLane_.post([this, step, module, generation](std::stop_token) {
        Result<std::vector<ModuleWay>> ways = step->engine->ways(module);
        if (!ways)
            return; // that the step cannot be planned is said by who asked for a plan
        const auto found = std::make_shared<const WaysOfModule>(WaysOfModule{module, *std::move(ways)});
        QMetaObject::invokeMethod(
            this,
            [this, generation, found] {
                if (generation == waysGeneration_)
                    Q_EMIT waysFound(found);
            },
            Qt::QueuedConnection);
    });
}

void Jobs::forgetPlans()
{
    planLane_.cancel();
    proofLane_.cancel();
    frontierLane_.cancel();
    memoryLane_.cancel();
    waysLane_.cancel();
    answeredGeneration_ = ++askedGeneration_;
    ++frontierGeneration_;
    ++memoryGeneration_;
    ++waysGeneration_;
}

void Jobs::forgetOpening()
{
    openLane_.cancel();
    ++openGeneration_;
}

} // namespace headroom
