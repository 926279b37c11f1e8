// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/jobs.h"

#include "core/profile/import.h"
#include "core/snapshot/import.h"
#include "core/trace/step_file.h"
#include "views/plot/call_later.h"

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

/// The times of the GPU `card`, if the step is valid for that GPU.
TimeChoice timesOn(const StepTrace& trace, TimeChoice times, const std::string& card)
{
    if (trace.info.simulated && card != trace.info.gpu && findDeviceSpec(card) && standsFor(trace, card))
        times.gpu = card;
    return times;
}

} // namespace

Jobs::Jobs(StepEngineFactory makeEngine, QObject* parent)
    : QObject(parent)
    , makeEngine_(std::move(makeEngine))
{
}

Jobs::Report Jobs::reportOpening()
{
    return [this, generation = ++openGeneration_](std::function<void()> send) {
        callLater(this, [this, generation, send = std::move(send)] {
            if (generation == openGeneration_)
                send();
        });
    };
}

bool ReadSnapshot::asksForPart() const
{
    return devices.size() > 1 || (!devices.empty() && devices.front().events >= manyEvents);
}

void Jobs::open(const QString& path, const TimeChoice& times, const std::optional<ImportRequest>& part,
                const ProfileRequest& profile, const std::string& card)
{
    const Report report = reportOpening();
    openRunner_.cancel();
    openRunner_.post([this, path, times, part, profile, card, report](const std::stop_token& stop) {
        report([this, path] { Q_EMIT openProgressed(path, tr("Reading"), -1); });
        const std::filesystem::path file = path.toStdU16String();
        if (isSnapshotFile(file)) {
            readSnapshotFile(path, part, report, stop);
            return;
        }
        const std::optional<FileStamp> stamp = stampOf(file);
        const Result<StepTracePtr> trace = readMeasured(file, profile);
        if (!trace)
            report([this, path, reason = text(trace.error())] { Q_EMIT openFailed(path, reason); });
        else if (!stop.stop_requested())
            makeStep(path, *trace, timesOn(**trace, times, card), stamp, report);
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
    const std::optional<FileStamp> stamp = stampOf(std::filesystem::path(path.toStdU16String()));
    const Result<SnapshotPtr> read
        = readSnapshot(std::filesystem::path(path.toStdU16String()), part ? part->range : SnapshotRange(),
                       watch(path, tr("Reading"), report, stop));
    if (stop.stop_requested())
        return;
    if (!read) {
        report([this, path, reason = text(read.error())] { Q_EMIT openFailed(path, reason); });
        return;
    }
    const auto snapshot = std::make_shared<const ReadSnapshot>(ReadSnapshot{path, *read, devicesOf(**read), stamp});
    if (part || !snapshot->asksForPart())
        makePart(snapshot, part.value_or(ImportRequest()), report, stop);
    else
        report([this, snapshot] { Q_EMIT snapshotRead(snapshot); });
}

void Jobs::openPart(const ReadSnapshotPtr& snapshot, const ImportRequest& part)
{
    const Report report = reportOpening();
    openRunner_.cancel();
    openRunner_.post(
        [this, snapshot, part, report](const std::stop_token& stop) { makePart(snapshot, part, report, stop); });
}

void Jobs::makePart(const ReadSnapshotPtr& snapshot, const ImportRequest& part, const Report& report,
                    const std::stop_token& stop)
{
    const QString& path = snapshot->path;
    const Result<ImportedSnapshot> imported
        = importSnapshot(snapshot->snapshot, std::filesystem::path(path.toStdU16String()), part,
                         watch(path, tr("Following the events"), report, stop));
    if (stop.stop_requested())
        return;
    if (!imported)
        report([this, path, reason = text(imported.error())] { Q_EMIT openFailed(path, reason); });
    else
        makeStep(path, imported->step, TimeChoice{TimeModel::kernel, {}, "none"}, snapshot->stamp, report);
}

void Jobs::changeTimes(const OpenStepPtr& step, const TimeChoice& times)
{
    const Report report = reportOpening();
    openRunner_.cancel();
    openRunner_.post([this, step, times, report](const std::stop_token&) {
        makeStep(step->path, step->file, times, step->stamp, report);
    });
}

namespace {

/// OpenStep::linesOfModules.
std::vector<SourceLines::Line> moduleLines(const StepTrace& step)
{
    if (!hasSourceLines(step))
        return {};
    const SourceLines lines(step);
    std::vector<SourceLines::Line> found;
    for (const std::uint32_t line : linesOfModules(step, lines))
        found.push_back(line == SourceLines::none ? SourceLines::Line() : lines[line]);
    return found;
}

} // namespace

void Jobs::makeStep(const QString& path, const StepTracePtr& trace, const TimeChoice& times,
                    const std::optional<FileStamp>& stamp, const Report& report)
{
    const auto fail
        = [&](const Error& error) { report([this, path, reason = text(error)] { Q_EMIT openFailed(path, reason); }); };
    const Result<TimedStep> timed = withTimes(trace, times);
    if (!timed)
        return fail(timed.error());
    report([this, path] { Q_EMIT openProgressed(path, tr("Measuring modules"), -1); });
    const Result<StepEnginePtr> engine = makeEngine_(timed->step);
    if (!engine)
        return fail(engine.error());
    const auto step = std::make_shared<const OpenStep>(
        OpenStep{path, *engine, moduleNames(*timed->step), trace, timed->times, times, (*engine)->clock({}),
                 collectiveModules(*timed->step), stamp, moduleLines(*timed->step)});
    report([this, step] { Q_EMIT opened(step); });
}

void Jobs::listLiveMemory(const LiveMemoryRequest& request)
{
    const quint64 generation = ++memoryGeneration_;
    memoryRunner_.post([this, request, generation](std::stop_token) {
        const auto& [step, timeline, changeCount, range, of, withTree] = request;
        const std::vector<LiveBlock> blocks
            = range ? range->summary.blocks : liveBlocks(step->trace(), *timeline, changeCount);
        const auto memory = std::make_shared<const LiveBlocksAt>(LiveBlocksAt{
            request, instantOf(*timeline, changeCount), makeLiveBlocksTable(step->engine->trace(), blocks, of),
            withTree ? std::make_shared<const LiveTree>(liveTree(step->trace(), blocks, LiveTree::By::module))
                     : nullptr});
        callLater(this, [this, generation, memory] {
            if (generation == memoryGeneration_)
                Q_EMIT liveMemoryListed(memory);
        });
    });
}

void Jobs::summarise(const OpenStepPtr& step, const TimelinePtr& timeline, TimeRange range)
{
    const quint64 generation = ++rangeGeneration_;
    rangeRunner_.post([this, step, timeline, range, generation](std::stop_token) {
        const auto made
            = std::make_shared<const StepRange>(StepRange{step, timeline, summaryOf(step->trace(), *timeline, range)});
        callLater(this, [this, generation, made] {
            if (generation == rangeGeneration_)
                Q_EMIT rangeSummarised(made);
        });
    });
}

void Jobs::forgetRange()
{
    rangeRunner_.cancel();
    ++rangeGeneration_;
}

void Jobs::forgetLiveMemory()
{
    memoryRunner_.cancel();
    ++memoryGeneration_;
    forgetRange();
}

void Jobs::forgetOpening()
{
    openRunner_.cancel();
    ++openGeneration_;
}

} // namespace headroom
