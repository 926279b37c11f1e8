// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/plan_text.h"

#include "app/recording/recorder_program.h"
#include "app/window/ops_text.h"
#include "app/window/times_text.h"
#include "core/cost/roofline.h"
#include "views/plot/module_grouping.h"
#include "views/plot/number_text.h"
#include "views/plot/tradeoff_curve.h"

#include <QCoreApplication>
#include <QLocale>
#include <QStringList>

#include <algorithm>
#include <cmath>

namespace headroom {
namespace {

QString tr(const char* text)
{
    return QCoreApplication::translate("PlanText", text);
}

QString number(double value, int decimals)
{
    return QLocale::c().toString(value, 'f', decimals);
}

QString keptText(Bytes bytes)
{
    return tr("%1 kept").arg(bytesText(bytes));
}

QString costText(double ms)
{
    return ms > 0 ? tr("+%1 ms").arg(number(ms, 2)) : tr("no recompute");
}

QString shortName(std::string_view fqn)
{
    return QString::fromUtf8(withoutRoot(fqn));
}

/// Index of the point of the curve that the plan chose; -1: none.
int chosenPoint(const std::vector<TradeOffPoint>& curve, double share)
{
    for (std::size_t i = 0; i < curve.size(); ++i) {
        if (std::abs(curve[i].ratio - share) < 1e-9)
            return static_cast<int>(i);
    }
    return -1;
}

/// The checkpointed module around `module`; invalid: none.
ModuleId regionAround(const Session& session, ModuleId module)
{
    const StepTrace& trace = session.step()->trace();
    for (ModuleId m = trace.modules.parent[module]; m.valid(); m = trace.modules.parent[m]) {
        for (const CheckpointRegion& region : session.answer()->step.regions) {
            if (region.module == m)
                return m;
        }
    }
    return {};
}

QString priceText(const Session& session)
{
    const double price = session.msPerGiB();
    return price > 0
        ? tr(" At this budget the price of memory is %1.").arg(bold(tr("%1 ms per GiB").arg(number(price, 2))))
        : QString();
}

/// The solver's reason without its first words, which the headline shows.
QString withoutHeadline(const QString& reason)
{
    const qsizetype colon = reason.indexOf(QLatin1String(": "));
    const bool repeated = reason.startsWith(QLatin1String("No plan fits")) && colon > 0;
    return sentence(repeated ? reason.mid(colon + 2) : reason);
}

/// Why the plan treats the module as it does, in a sentence or two.
QString reasonText(const Session& session, ModuleId module)
{
    if (!session.feasible() || !whyNoPlan(session).isEmpty())
        return {};
    const PlanAnswer& answer = *session.answer();
    const ModuleEffect& effect = answer.effects[module.value];
    const Bytes freed = effect.recorded - effect.kept;
    if (freed > 0 && effect.recomputeMs > 0) {
        const double rate = effect.recomputeMs / (static_cast<double>(freed) / static_cast<double>(GiB));
        QString text = tr("Frees %1 for %2, which is %3 ms per GiB.")
                           .arg(bold(bytesText(freed)), bold(msText(effect.recomputeMs)), number(rate, 1));
        const ModuleId around = regionAround(session, module);
        if (around.valid())
            text += tr(" It runs again with %1.").arg(bold(shortName(session.step()->trace().moduleFqn(around))));
        return text + priceText(session);
    }
    if (freed > 0)
        return tr("Frees %1 at no cost.").arg(bold(bytesText(freed)));
    if (answer.step.regions.empty())
        return tr("The whole step fits this budget: nothing has to be recomputed.");
    if (session.pin(session.selectedFqn()) == Pin::save)
        return tr("Pinned by hand: the plan recomputes other modules instead.");
    if (effect.recorded == 0)
        return tr("Keeps nothing until backward, so there is nothing to free here.");
    return tr("Other modules give memory for less time, so this one keeps everything.") + priceText(session);
}

/// A setting that a recording from Python stores about its program; empty: none.
QString settingOf(const StepTrace& trace, std::string_view key)
{
    for (const auto& [name, value] : trace.info.settings) {
        if (name == key)
            return QString::fromStdString(value);
    }
    return {};
}

} // namespace

QString bold(const QString& text)
{
    // The heaviest weight of the window's fonts: Qt would draw <b> twice, a pixel apart.
    return QStringLiteral("<span style='font-weight:600'>%1</span>").arg(text.toHtmlEscaped());
}

ModuleId firstCandidate(const ModuleInfo& info, const StepTrace& trace)
{
    ModuleId leaf;
    for (std::uint32_t i = 1; i < trace.modules.size(); ++i) {
        const ModuleStats* stats = findModule(info, trace.moduleFqn(ModuleId(i)));
        if (stats && !stats->isLeaf)
            return ModuleId(i);
        if (stats && !leaf.valid())
            leaf = ModuleId(i);
    }
    return leaf;
}

QString gpuTitle(const std::string& name)
{
    const Result<DeviceSpec> device = findDeviceSpec(name);
    return QString::fromStdString(device ? device->title : name);
}

QString stepName(const StepTrace& trace)
{
    QString name = QString::fromStdString(trace.info.model);
    const QString demo = QStringLiteral("demo:");
    if (name.startsWith(demo))
        name.remove(0, demo.size());
    const auto slash = name.lastIndexOf(QLatin1Char('/'));
    return slash >= 0 ? name.mid(slash + 1) : name;
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
    return tr("A training script chooses its batch itself: record it again with other arguments to see another one.");
}

QString sizeResult(const Session& session)
{
    if (!session.isOpen() || session.peakBefore() == 0 || session.peakBefore() == session.recordedPeak())
        return {};
    return tr("peak %1, was %2").arg(bytesText(session.recordedPeak(), 2), bytesText(session.peakBefore(), 2));
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

PlannedPoint plannedPoints(const Session& session)
{
    return [step = session.step(), answer = session.answer()](const std::string& fqn) {
        return plannedPoint(answer->effects[step->names.at(fqn).value]);
    };
}

ModuleFacts moduleFacts(const Session& session)
{
    const OpenStep& step = *session.step();
    const StepTrace& trace = step.trace();
    const ModuleId module = session.selected();
    const std::string fqn = session.selectedFqn();
    const ModuleStats* stats = findModule(*step.engine->moduleInfo(), fqn);

    ModuleFacts facts;
    facts.fqn = QString::fromStdString(fqn);
    facts.name = shortName(fqn);
    const QString type = QString::fromUtf8(trace.moduleType(module));
    facts.description = stats && stats->paramBytes > 0 ? tr("%1, %2 of weights").arg(type, bytesText(stats->paramBytes))
                                                       : tr("%1, no weights").arg(type);
    if (session.mode() == PlanMode::ops) {
        facts.treatable = false;
        facts.reason = opsModuleReason(session);
        return facts;
    }
    facts.reason = reasonText(session, module);
    facts.whyNot = whyNoPlan(session);
    if (!facts.whyNot.isEmpty())
        return facts;
    if (!stats)
        facts.whyNot = tr("This module did not run in the recorded step.");
    else if (stats->isLeaf)
        facts.whyNot = tr("A module without children is not checkpointed on its own, only with one around it.");
    else if (!stats->obstacle.empty())
        facts.whyNot = tr("It cannot be checkpointed: %1.").arg(QString::fromStdString(stats->obstacle));
    else if (module.value == 0)
        facts.whyNot = tr("The whole model is not checkpointed as one: nothing would be left to save.");
    if (!facts.whyNot.isEmpty())
        return facts;

    const ModuleEffect& recorded = step.recorded()[module.value];
    const ModuleEffect& now = session.answer() ? session.answer()->effects[module.value] : recorded;
    facts.pin = session.pin(fqn);
    facts.decided = facts.pin ? ModuleFacts::Option{tr("takes the pin away"), {}}
                              : ModuleFacts::Option{keptText(now.kept), costText(now.recomputeMs)};
    facts.keepAll = {keptText(recorded.recorded), tr("no recompute")};
    facts.recompute = facts.pin == Pin::recompute ? ModuleFacts::Option{keptText(now.kept), costText(now.recomputeMs)}
                                                  : ModuleFacts::Option{tr("checkpointed at any budget"), {}};
    if (session.ways() && !session.ways()->ways.empty()) {
        const TradeOffPoint planned = plannedPoint(now);
        facts.curveTitle = tr("Ways to checkpoint it");
        facts.curve = fewPoints(wayPoints(session.ways()->ways), session.feasible() ? &planned : nullptr);
        if (session.feasible())
            facts.chosenPoint = chosenPoint(facts.curve, planned.ratio);
        return facts;
    }
    facts.curveTitle = tr("Its trade-off, as PyTorch estimates it");
    facts.curve = tradeOffCurve(*stats);
    return facts;
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
    const Plan& plan = session.answer()->step.plan;
    const int count = static_cast<int>(session.answer()->step.regions.size());
    if (count == 0)
        return tr("The whole step fits this budget: nothing has to be recomputed.");
    const double percent = plan.stepMs > 0 ? 100 * plan.recomputeMs / plan.stepMs : 0;
    return (count == 1 ? tr("One module is recomputed, which adds %1 (%2 %).")
                       : tr("%3 modules are recomputed, which adds %1 (%2 %)."))
        .arg(msText(plan.recomputeMs), number(percent, 1))
        .arg(count);
}

std::optional<InfeasibleFacts> infeasibleFacts(const Session& session)
{
    if (!session.answer() || session.feasible() || !whyNoPlan(session).isEmpty())
        return std::nullopt;
    const Plan& plan = session.answer()->step.plan;
    InfeasibleFacts facts;
    facts.headline = tr("No plan fits %1").arg(bytesText(plan.budget, 2));
    facts.leastBudget = plan.leastBudget;
    facts.reason = withoutHeadline(QString::fromStdString(plan.reason)).toHtmlEscaped();
    if (facts.reason.isEmpty() && !plan.binding.module.empty())
        facts.reason = tr("It is tightest in %1 of %2.")
                           .arg(QString::fromStdString(plan.binding.phase), bold(shortName(plan.binding.module)));
    if (session.mode() == PlanMode::ops)
        facts.advice = tr("Checkpointed modules may go lower: plan by module, or take a smaller batch.");
    else if (session.hasPins())
        facts.advice = tr("Pins by hand may be what does not fit: leave modules to the plan.");
    else if (plan.reason.empty())
        facts.advice
            = tr("Checkpointing frees activations only. To go lower, take a smaller batch, shard parameters and "
                 "optimizer state with FSDP, or use a narrower dtype.");
    return facts;
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
    return tr("The cost curve shows %1 of many plans, %2 of them proven optimal").arg(count).arg(proven);
}

QString whyNoPlan(const Session& session)
{
    const Status can = session.isOpen() ? plannable(session.step()->trace()) : Status();
    return can ? QString() : sentence(QString::fromStdString(can.error().message));
}

QString whyNoExport(const Session& session)
{
    if (!session.isOpen())
        return {};
    if (const QString why = whyNoPlan(session); !why.isEmpty())
        return tr("There is no plan to export: %1").arg(why);
    if (session.mode() == PlanMode::ops && !session.whyNoOps().isEmpty())
        return tr("There is no plan to export: %1").arg(session.whyNoOps());
    if (session.answer() && !session.feasible())
        return tr("There is no plan to export: none fits the budget of %1.").arg(bytesText(session.budget(), 2));
    return {};
}

QString solverLine(const Session& session)
{
    if (!whyNoPlan(session).isEmpty())
        return tr("No plan is possible of this step");
    if (session.mode() == PlanMode::ops)
        return opsSolverLine(session);
    if (!session.answer())
        return tr("Solving …");
    const Plan& plan = session.answer()->step.plan;
    const QString time = msText(plan.solveMs);
    switch (plan.status) {
    case PlanStatus::optimal:
        return tr("Proven optimal in %1").arg(time);
    case PlanStatus::feasible:
        if (session.answer()->proving)
            return tr("At most %1 % above the least time possible; proving …").arg(number(100 * plan.gap, 1));
        return tr("At most %1 % above the least time possible, in %2").arg(number(100 * plan.gap, 1), time);
    case PlanStatus::infeasible:
        return tr("No plan found that fits, in %1").arg(time);
    case PlanStatus::stopped:
        break;
    }
    return tr("Stopped after %1").arg(time);
}

} // namespace headroom
