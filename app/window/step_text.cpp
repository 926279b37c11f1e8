// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/step_text.h"

#include "app/window/plan_text.h"
#include "core/cost/roofline.h"
#include "views/plot/number_text.h"

#include <QCoreApplication>
#include <QDir>

#include <algorithm>
#include <cmath>
#include <span>

namespace headroom {
namespace {

QString tr(const char* text)
{
    return QCoreApplication::translate("StepText", text);
}

/// A setting that a recording from Python stores about its program; empty: none.
QString settingOf(const StepTrace& trace, std::string_view key)
{
    return QString::fromStdString(std::string(trace.info.setting(key)));
}

/// The title of a value of timesOf().
QString timesTitle(const std::string& times)
{
    return times == "kernel"     ? tr("Kernel model")
        : times == "calibration" ? tr("Calibrated")
        : times == "measured"    ? tr("Measured")
                                 : tr("Roofline");
}

QString clockText(const StepClock& clock)
{
    return tr("%1 a step").arg(msText(clock.stepMs));
}

QString bindsText(const StepClock& clock)
{
    switch (clock.bound()) {
    case StepClock::Bound::cpu:
        return tr("the CPU binds");
    case StepClock::Bound::communication:
        return tr("communication binds");
    case StepClock::Bound::copies:
        return tr("copies to the host bind");
    case StepClock::Bound::gpu:
        break;
    }
    return tr("the GPU binds");
}

/// The exposed communication of a distributed step.
QString exposedText(const StepClock& clock)
{
    return tr("%1 of %2 of communication is exposed").arg(msText(clock.exposedMs), msText(clock.communicationMs));
}

/// A time in per cent of forward and backward.
QString shareOfStep(double ms, const Plan& plan)
{
    return QString::number(plan.stepMs > 0 ? 100 * ms / plan.stepMs : 0, 'f', 1);
}

QString gapText(const Plan& plan)
{
    return tr("A better plan saves at most %1 (%2 %)").arg(msText(plan.gapMs()), shareOfStep(plan.gapMs(), plan));
}

/// A duration of the wall clock, rounded.
QString tookText(double ms)
{
    return ms < 1000 ? tr("%1 ms").arg(std::round(ms)) : tr("%1 s").arg(ms / 1000, 0, 'f', 1);
}

/// "Plan 12 of 201, found in 1.2 s".
QString opsSolverLine(const Session& session)
{
    if (!session.whyNoOps().isEmpty())
        return tr("The ops of this step cannot be planned.");
    const OpsFrontierPtr& frontier = session.opsFrontier();
    if (!frontier)
        return tr("Planning the ops …");
    if (session.answer() && session.answer()->preliminary)
        return tr("Looking for results and arguments to send to the host …");
    if (session.feasible() && session.answer()->plan.offload.moved > 0)
        return tr("Of the policies of %1 plans, the fastest that was found").arg(frontier->plans.size());
    const OpsDecisions* plan = session.answer() ? session.answer()->ops.get() : nullptr;
    if (plan && session.answerIsCurrent() && !session.feasible())
        return frontier->complete
            ? tr("None of %1 plans fits").arg(frontier->plans.size())
            : tr("None of %1 plans fits; more are being looked for …").arg(frontier->plans.size());
    const QString which = tr("Plan %1 of %2").arg(plan ? plan->index + 1 : 0).arg(frontier->plans.size());
    return which
        + (frontier->complete ? tr(", found in %1").arg(tookText(frontier->solveMs))
                              : tr("; more are being looked for …"));
}

} // namespace

QString stepName(const StepTrace& trace)
{
    QString name = QString::fromStdString(trace.info.model);
    const QString demo = QStringLiteral("demo:");
    if (name.startsWith(demo))
        name.remove(0, demo.size());
    const auto slash = name.lastIndexOf(QLatin1Char('/'));
    return slash >= 0 ? name.mid(slash + 1) : name;
}

QString stepFacts(const StepTrace& trace)
{
    const StepInfo& info = trace.info;
    QStringList facts;
    const bool fieldsSaySizes = canRecordAgain(trace);
    if (!fieldsSaySizes && info.batch > 0 && info.sequence > 0)
        facts << tr("batch %1 × %2").arg(info.batch).arg(info.sequence);
    else if (!fieldsSaySizes && info.batch > 0)
        facts << tr("batch %1").arg(info.batch);
    for (const std::string& fact : {info.dtype, info.optimizer}) {
        if (!fact.empty())
            facts << QString::fromStdString(fact);
    }
    if (info.simulated)
        facts << tr("simulated"); // the button for the times names the card
    else if (!info.gpu.empty())
        facts << gpuTitle(info.gpu);
    if (info.distributed)
        facts << tr("rank %1 of %2").arg(info.distributed->rank).arg(info.distributed->worldSize);
    facts << tr("%1 events").arg(countText(trace.events.size()));
    return facts.join(QStringLiteral(", "));
}

QString gpuTitle(const std::string& name)
{
    const Result<DeviceSpec> device = findDeviceSpec(name);
    return QString::fromStdString(device ? device->title : name);
}

bool canRecordAgain(const StepTrace& trace)
{
    return !trace.info.arguments.empty() && !trace.info.dimensions.empty();
}

QStringList recordArguments(const StepTrace& trace)
{
    QStringList arguments;
    for (const std::string& argument : trace.info.arguments)
        arguments << QString::fromStdString(argument);
    return arguments;
}

QString recordedScript(const StepTrace& trace)
{
    const auto& arguments = trace.info.arguments;
    const auto script
        = std::ranges::find_if(arguments, [](const std::string& argument) { return argument.ends_with(".py"); });
    return trainingProgram(trace).isEmpty() || script == arguments.end() ? QString() : QString::fromStdString(*script);
}

QString recordedFolder(const StepTrace& trace)
{
    return settingOf(trace, "folder");
}

QString recordedPython(const StepTrace& trace)
{
    return settingOf(trace, "interpreter");
}

QString trainingProgram(const StepTrace& trace)
{
    return settingOf(trace, "program");
}

QString originText(const StepTrace& trace)
{
    const QString program = trainingProgram(trace);
    if (program.isEmpty())
        return {};
    return tr("Recorded from %1\nrun by %2\nin %3").arg(program, recordedPython(trace), recordedFolder(trace));
}

QString whyFixedSizes(const StepTrace& trace)
{
    if (trainingProgram(trace).isEmpty())
        return {};
    return tr(
        "The training script chooses the batch: record the script again with other arguments to see another batch.");
}

QString sizeResult(const Session& session)
{
    if (!session.isOpen() || session.peakBefore() == 0 || session.peakBefore() == session.recordedPeak())
        return {};
    return tr("peak %1, was %2").arg(bytesText(session.recordedPeak(), 2), bytesText(session.peakBefore(), 2));
}

QString rangeSums(const RangeSummary& summary)
{
    const TimeRange& range = summary.range;
    const auto withPart
        = [](const QString& all, const QString& part) -> QString { return all + tr(" (%1)").arg(part); };
    QStringList facts{tr("%1 made").arg(bytesText(summary.made, 2))};
    if (summary.kept > 0)
        facts.last() = withPart(facts.last(), tr("%1 stay").arg(bytesText(summary.kept, 2)));
    facts << tr("%1 freed").arg(bytesText(summary.freed, 2));
    facts << (summary.ops == 1 ? tr("1 op") : tr("%1 ops").arg(countText(summary.ops)));
    if (summary.opsAgain > 0)
        facts.last() = withPart(facts.last(), tr("%1 again").arg(countText(summary.opsAgain)));
    if (summary.collectives > 0)
        facts << withPart(summary.collectives == 1 ? tr("1 collective")
                                                   : tr("%1 collectives").arg(countText(summary.collectives)),
                          bytesText(summary.collectiveBytes, 2));
    return tr("%1 from %2: %3").arg(msText(range.ms()), msText(range.beginMs), facts.join(QStringLiteral(", ")));
}

QString rangeMost(const StepTrace& trace, const RangeSummary& summary)
{
    constexpr std::size_t mostNamed = 2; // more take more lines than the tables leave in a small window
    const auto placeOf = [](const std::string& line) { return QString::fromStdString(line).section(u' ', 0, -2); };
    const auto named = [&](const auto& shares, auto name) {
        QStringList texts;
        for (const auto& share : std::span(shares).first(std::min(mostNamed, shares.size())))
            texts << name(share.id) + QLatin1Char(' ') + bytesText(share.bytes, 2);
        return texts.join(QStringLiteral(", "));
    };
    if (summary.modules.empty())
        return {};
    const QString modules = named(summary.modules, [&](ModuleId module) {
        return module.valid() ? QString::fromUtf8(trace.moduleFqn(module)) : tr("no module");
    });
    if (summary.lines.empty())
        return tr("Most made by %1").arg(modules);
    return tr("Most made by %1; at %2").arg(modules, named(summary.lines, [&](std::uint32_t line) {
                                                return line == SourceLines::none ? tr("no known line")
                                                                                 : placeOf(summary.source->text(line));
                                            }));
}

QString pictureTitle(const StepTrace& trace)
{
    QString title = stepName(trace);
    if (trace.info.batch > 0)
        title += tr(", batch %1").arg(trace.info.batch);
    if (trace.info.simulated)
        title += QStringLiteral(", ") + timesText(trace.info);
    else if (!trace.info.gpu.empty())
        title += QStringLiteral(", ") + gpuTitle(trace.info.gpu);
    return title;
}

TimeChoice onCard(TimeChoice choice, const std::string& gpu)
{
    choice.gpu = gpu;
    if (choice.calibration != "none")
        choice.calibration = "auto";
    return choice;
}

std::vector<TimesEntry> timesMenu(const OpenStep& step)
{
    const StepInfo& info = step.trace().info;
    const std::string chosen = timesOf(info);
    std::vector<TimesEntry> menu;
    const auto addModel = [&](const char* times, TimeModel model, const char* calibration) {
        menu.push_back({timesTitle(times), {}, {model, step.choice.gpu, calibration}, chosen == times});
    };
    addModel("kernel", TimeModel::kernel, "none");
    if (step.trace().ops.signature.size() == 0) {
        menu.back().isThere = false;
        menu.back().note = tr("the file holds no shapes");
    }
    addModel("roofline", TimeModel::roofline, "none");
    if (!step.times.gpu.empty())
        addModel("calibration", step.times.model, "auto");
    return menu;
}

QString timesText(const StepInfo& info)
{
    const QString title = timesTitle(timesOf(info));
    return info.gpu.empty() ? title : tr("%1 · %2").arg(title, shortCardTitle(gpuTitle(info.gpu)));
}

QString timesBesideCard(const Session& session)
{
    const StepInfo& info = session.step()->trace().info;
    const bool isCard = session.card() && session.card()->name == info.gpu;
    return isCard ? timesTitle(timesOf(info)) : timesText(info);
}

QString timesTip(const OpenStep& step)
{
    const StepInfo& info = step.trace().info;
    const QString card = gpuTitle(info.gpu);
    QString tip = step.times.calibrated
        ? tr("Ops take as long as was measured on %1 (%2).")
              .arg(card, QDir::toNativeSeparators(QString::fromStdString(step.times.file.string())))
        : tr("Ops take as long as the model says of %1.").arg(card);
    if (step.clock)
        tip += QLatin1Char('\n')
            + tr("%1: the GPU works %2, the CPU issues %3 kernels in %4; %5.")
                  .arg(clockText(*step.clock), msText(step.clock->gpuMs), countText(std::llround(step.clock->kernels)),
                       msText(step.clock->cpuMs), bindsText(*step.clock));
    if (step.clock && !step.clock->collectives.empty())
        tip += QLatin1Char('\n') + exposedText(*step.clock) + QLatin1Char('\n')
            + tr("The time axis has ops and collectives in sequence: %1.")
                  .arg(msText(step.engine->recorded()->durationMs));
    return tip;
}

QString timesChange(const TimeChoice& from, const TimeChoice& to)
{
    if (from.gpu != to.gpu)
        return tr("times of %1").arg(gpuTitle(to.gpu));
    if (to.calibration != "none")
        return tr("calibrated times");
    return to.model == TimeModel::kernel ? tr("times of the kernel model") : tr("times of the roofline");
}

QString clockLine(const Session& session)
{
    const std::optional<StepClock>& recorded = session.step()->clock;
    if (!recorded)
        return {};
    const auto planned = session.feasible() ? session.answer()->clock : std::nullopt;
    const StepClock& shown = planned ? *planned : *recorded;
    QString text = tr("%1: %2").arg(timesTitle(timesOf(session.step()->trace().info)), clockText(shown));
    const bool more = planned && planned->recomputedKernels >= 1;
    text += !planned ? tr(" without a plan")
        : more       ? tr(", %1 without the plan").arg(msText(recorded->stepMs))
                     : QString();
    text += tr("; %1").arg(bindsText(shown));
    if (more)
        text += tr("; %1 kernels are launched again").arg(countText(std::llround(shown.recomputedKernels)));
    if (!shown.collectives.empty())
        text += tr("; %1").arg(exposedText(shown));
    return text;
}

QString frontierLine(const Session& session)
{
    if (session.mode() == PlanMode::ops || !session.frontier() || session.frontier()->empty())
        return {};
    const std::vector<FrontierPoint>& points = *session.frontier();
    const auto count = static_cast<int>(points.size());
    if (!session.frontierIsFinal())
        return tr("The cost curve is being computed: %1 plans so far").arg(count);
    const auto proven = static_cast<int>(std::ranges::count(points, 0.0, &FrontierPoint::gap));
    if (isComplete(points))
        return count == 1 ? tr("The cost curve is complete: 1 plan, proven optimal")
                          : tr("The cost curve is complete: %1 plans, each proven optimal").arg(count);
    if (proven == count)
        return tr("The cost curve shows %1 of many plans, each proven optimal").arg(count);
    return tr("The cost curve shows %1 of many plans, %2 proven optimal").arg(count).arg(proven);
}

QString copiesLine(const Session& session)
{
    if (!session.feasible() || session.answer()->plan.offload.moved == 0)
        return {};
    const auto& offload = session.answer()->plan.offload;
    return tr("%1 go to the host and back in %2 of copies; the GPU waits for %3; pinned host memory %4")
        .arg(bytesText(offload.moved, 2), msText(offload.copyMs), msText(offload.exposedMs),
             bytesText(offload.host, 2));
}

QString planSummary(const Session& session)
{
    if (!session.isOpen() || session.mode() == PlanMode::ops)
        return {};
    if (const QString why = whyNoPlan(session); !why.isEmpty())
        return why;
    if (!session.answer())
        return tr("Solving …");
    if (!session.feasible())
        return {};
    const Plan& plan = session.answer()->plan;
    const auto& regions = session.answer()->regions;
    const auto& offloads = session.answer()->offloads;
    const auto hosting = static_cast<int>(std::ranges::count_if(offloads, &ModuleOffload::isCheckpointed));
    const auto moved = static_cast<int>(offloads.size()) - hosting;
    const auto count = static_cast<int>(
        std::ranges::count_if(regions, [](const CheckpointRegion& region) { return !region.offload; }));
    if (count == 0 && moved == 0)
        return tr("The whole step fits this budget: nothing has to be recomputed.");
    QStringList sentences;
    if (count > 0)
        sentences << (count == 1 ? tr("One module is recomputed: +%1 (%2 %).")
                                 : tr("%3 modules are recomputed: +%1 (%2 %)."))
                         .arg(msText(plan.recomputeMs), shareOfStep(plan.recomputeMs, plan))
                         .arg(count);
    if (moved > 0)
        sentences << (moved == 1 ? tr("One module is offloaded.") : tr("%1 modules are offloaded.").arg(moved));
    if (hosting > 0)
        sentences << tr("Recomputed modules with arguments on the host: %1.").arg(hosting);
    if (moved + hosting > 0)
        sentences << copiesLine(session) + QLatin1Char('.');
    return sentences.join(QLatin1Char(' '));
}

QString solverLine(const Session& session)
{
    if (!whyNoPlan(session).isEmpty())
        return tr("No plan is possible of this step");
    if (session.mode() == PlanMode::ops)
        return opsSolverLine(session);
    if (!session.answer())
        return tr("Solving …");
    const Plan& plan = session.answer()->plan;
    const QString time = plan.solveMs < 1000 ? msText(plan.solveMs) : tookText(plan.solveMs);
    switch (plan.status) {
    case PlanStatus::optimal:
        return tr("Proven optimal in %1").arg(time);
    case PlanStatus::feasible:
        return session.answer()->preliminary ? tr("%1; proving …").arg(gapText(plan))
                                             : tr("%1; found in %2").arg(gapText(plan), time);
    case PlanStatus::infeasible:
        return tr("No plan found that fits, in %1").arg(time);
    case PlanStatus::stopped:
        break;
    }
    return tr("Stopped after %1").arg(time);
}

std::vector<TimelineChangedOp> changedMarks(const OpsDecisions& decisions, const Timeline& timeline)
{
    std::vector<bool> changed(decisions.decisions.size(), false);
    for (const ChangedOp& change : decisions.changed)
        changed[change.op.value] = change.now != OpDecision::offloaded;
    std::vector<TimelineChangedOp> marks;
    for (const MemoryChange& change : timeline.changes) {
        if (change.delta <= 0 || !change.op.valid() || !changed[change.op.value])
            continue;
        if (marks.empty() || marks.back().ms != change.ms || marks.back().again != change.recomputed)
            marks.push_back({change.ms, change.recomputed});
    }
    return marks;
}

} // namespace headroom
