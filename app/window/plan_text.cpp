// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/plan_text.h"

#include "app/recording/recorder_program.h"
#include "app/window/step_text.h"
#include "core/joint/ops_request.h"
#include "views/plot/module_grouping.h"
#include "views/plot/number_text.h"
#include "views/plot/tradeoff_curve.h"

#include <QCoreApplication>
#include <QLocale>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

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
        for (const CheckpointRegion& region : session.answer()->regions) {
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
    if (answer.regions.empty())
        return tr("The whole step fits this budget: nothing has to be recomputed.");
    if (session.pin(session.selectedFqn()) == Pin::save)
        return tr("Pinned by hand: the plan recomputes other modules instead.");
    if (effect.recorded == 0)
        return tr("Keeps nothing until backward, so there is nothing to free here.");
    return tr("Other modules give memory for less time, so this one keeps everything.") + priceText(session);
}

constexpr std::size_t mostChanged = 5;

QString fractionText(double fraction)
{
    return QLocale::c().toString(fraction, 'g', 4);
}

/// "gelu" of "aten.gelu.default"; ops of other libraries keep their namespace.
QString shortOp(std::string_view name)
{
    QString text = QString::fromUtf8(name);
    if (text.startsWith(QLatin1String("aten.")))
        text.remove(0, 5);
    if (text.endsWith(QLatin1String(".default")))
        text.chop(8);
    return text;
}

QString decisionText(const ChangedOp& change)
{
    if (change.now == OpDecision::recomputed)
        return change.before == OpDecision::saved ? tr("was saved, is recomputed now") : tr("is recomputed now");
    if (change.now == OpDecision::saved)
        return change.before == OpDecision::recomputed ? tr("was recomputed, is saved now") : tr("is saved now");
    return change.before == OpDecision::recomputed ? tr("is no longer recomputed") : tr("is no longer saved");
}

/// A duration of the wall clock, rounded.
QString tookText(double ms)
{
    return ms < 1000 ? tr("%1 ms").arg(std::round(ms)) : tr("%1 s").arg(ms / 1000, 0, 'f', 1);
}

/// The solver's name in torch.compile.
QString solverWord(const Session& session)
{
    return QString::fromUtf8(opsSolverName(session.opsChoice().solver));
}

QString estimatorWord(const Session& session)
{
    return session.opsChoice().runtime == OpsRuntime::flops ? QStringLiteral("flops") : QStringLiteral("profile");
}

/// The shown plan by op; null: none.
const OpsDecisions* shown(const Session& session)
{
    return session.mode() == PlanMode::ops && session.answer() ? session.answer()->ops.get() : nullptr;
}

void addChanged(OpsFacts& facts, const StepTrace& trace, const OpsDecisions& answer)
{
    struct Sum
    {
        int count = 0;
        Bytes bytes = 0;
        ChangedOp example;
    };
    std::map<std::tuple<std::string_view, OpDecision, OpDecision>, Sum> kinds;
    for (const ChangedOp& change : answer.changed) {
        Sum& sum = kinds[{trace.opName(change.op), change.before, change.now}];
        ++sum.count;
        sum.bytes += change.bytes;
        sum.example = change;
    }
    std::vector<Sum> sums;
    for (const auto& [key, sum] : kinds)
        sums.push_back(sum);
    std::stable_sort(sums.begin(), sums.end(),
                     [](const Sum& a, const Sum& b) { return std::abs(a.bytes) > std::abs(b.bytes); });
    const int count = static_cast<int>(answer.changed.size());
    facts.changedTitle = count == 0 ? QString()
        : count == 1                ? tr("New at this step of the frontier: one op")
                                    : tr("New at this step of the frontier: %1 ops").arg(count);
    for (const Sum& sum : sums) {
        if (facts.changed.size() == mostChanged)
            break;
        const QString name = shortOp(trace.opName(sum.example.op));
        const QString bytes = sum.bytes == 0
            ? QStringLiteral("–")
            : (sum.bytes > 0 ? QStringLiteral("−") : QStringLiteral("+")) + bytesText(std::abs(sum.bytes));
        facts.changed.push_back({sum.count == 1 ? name : tr("%1 × %2").arg(sum.count).arg(name),
                                 decisionText(sum.example), bytes, sum.example.now == OpDecision::recomputed});
    }
    const int more = static_cast<int>(sums.size() - facts.changed.size());
    if (more > 0)
        facts.moreChanged = more == 1 ? tr("one more kind") : tr("%1 more kinds").arg(more);
}

QString policyText(const Session& session)
{
    const Policy* policy = session.policyOfOps();
    if (!policy)
        return noOpsPolicy(session);
    if (policy->modules.empty())
        return tr("No block has anything to recompute.");
    const int count = static_cast<int>(policy->modules.size());
    QString text
        = (count == 1 ? tr("A selective checkpoint of one block") : tr("Selective checkpoints of %1 blocks").arg(count))
        + tr(" run more again than the plan: peak %1, +%2.")
              .arg(bytesText(policy->predicted.peak, 2), msText(policy->predicted.recomputeMs));
    if (policy->predicted.peak > session.budget())
        text += tr(" %1: plans by module are made for it.").arg(bold(tr("That does not fit the budget")));
    return text;
}

QString reasonOf(const Session& session, const OpsDecisions& answer, ModuleId module)
{
    const StepTrace& trace = session.step()->trace();
    std::vector<bool> within(trace.modules.size(), false); // parents come before their children
    int forward = 0;
    int again = 0;
    for (std::uint32_t i = module.value; i < within.size(); ++i) {
        const ModuleId parent = trace.modules.parent[ModuleId(i)];
        within[i] = i == module.value || (parent.valid() && within[parent.value]);
    }
    for (std::uint32_t i = 0; i < trace.ops.size(); ++i) {
        const ModuleId of = trace.ops.module[OpId(i)];
        if (trace.ops.phase[OpId(i)] != Phase::forward || !of.valid() || !within[of.value])
            continue;
        ++forward;
        again += answer.decisions[i] == OpDecision::recomputed;
    }
    const ModuleEffect& effect = session.answer()->effects[module.value];
    if (again == 0)
        return tr("None of its %1 ops of forward runs again.").arg(forward);
    const Bytes freed = effect.recorded - effect.kept;
    QString text = (again == 1 ? tr("%1 of its %2 ops of forward runs again, which takes %3")
                               : tr("%1 of its %2 ops of forward run again, which takes %3"))
                       .arg(again)
                       .arg(forward)
                       .arg(bold(msText(effect.recomputeMs)));
    if (freed > 0)
        text += tr(" and frees %1").arg(bold(bytesText(freed)));
    return text + QLatin1Char('.');
}

QString opsModuleReason(const Session& session)
{
    const OpsDecisions* answer = shown(session);
    return answer && session.feasible() ? reasonOf(session, *answer, session.selected()) : QString();
}

QString opsSolverLine(const Session& session)
{
    if (!session.whyNoOps().isEmpty())
        return tr("The ops of this step cannot be planned.");
    const OpsFrontierPtr& frontier = session.opsFrontier();
    if (!frontier)
        return tr("Planning the ops …");
    if (shown(session) && session.answerIsCurrent() && !session.feasible())
        return frontier->complete
            ? tr("None of %1 plans fits").arg(frontier->plans.size())
            : tr("None of %1 plans fits; more are being looked for …").arg(frontier->plans.size());
    const QString which
        = tr("Plan %1 of %2").arg(shown(session) ? shown(session)->index + 1 : 0).arg(frontier->plans.size());
    return which
        + (frontier->complete ? tr(", found in %1").arg(tookText(frontier->solveMs))
                              : tr("; more are being looked for …"));
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

PlannedPoint plannedPoints(const Session& session)
{
    return [step = session.step(), answer = session.answer()](const std::string& fqn) {
        return plannedPoint(answer->shown().effects[step->names.at(fqn).value]);
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
    if (!step.linesOfModules.empty())
        facts.line = QString::fromStdString(lineText(trace, step.linesOfModules[module.value]));
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
    const ModuleEffect& now = session.answer() ? session.answer()->shown().effects[module.value] : recorded;
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
    const Plan& plan = session.answer()->plan;
    const int count = static_cast<int>(session.answer()->regions.size());
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
    const Plan& plan = session.answer()->plan;
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
    const Plan& plan = session.answer()->plan;
    const QString time = msText(plan.solveMs);
    switch (plan.status) {
    case PlanStatus::optimal:
        return tr("Proven optimal in %1").arg(time);
    case PlanStatus::feasible:
        if (session.answer()->preliminary)
            return tr("At most %1 % above the least time possible; proving …").arg(number(100 * plan.gap, 1));
        return tr("At most %1 % above the least time possible, in %2").arg(number(100 * plan.gap, 1), time);
    case PlanStatus::infeasible:
        return tr("No plan found that fits, in %1").arg(time);
    case PlanStatus::stopped:
        break;
    }
    return tr("Stopped after %1").arg(time);
}

OpsFacts opsFacts(const Session& session)
{
    OpsFacts facts;
    facts.problem = session.whyNoOps();
    const OpsDecisions* answer = shown(session);
    if (!answer || !facts.problem.isEmpty() || !session.feasible())
        return facts;
    const OpsPlan& plan = answer->plan();
    facts.summary = plan.recomputed.empty()
        ? tr("The whole step fits this budget: no op has to run again.")
        : tr("Keeps %1 for backward: a fraction of %2 of the %3 that torch.compile keeps by default.")
              .arg(bold(bytesText(plan.savedBytes, 2)), bold(fractionText(plan.fraction)),
                   bytesText(answer->frontier->planner.defaultSavedBytes(), 2));
    if (session.worldSize() > 1)
        facts.summary += tr(" It is the plan of one GPU: ops are not planned for sharded steps.");
    addChanged(facts, session.step()->trace(), *answer);
    facts.compileLines
        = QStringLiteral("activation_memory_budget = %1\n…_solver = \"%2\"\n…_runtime_estimator = \"%3\"")
              .arg(fractionText(plan.fraction), solverWord(session), estimatorWord(session));
    facts.policy = policyText(session);
    facts.policyReady = session.policyOfOps() != nullptr;
    return facts;
}

std::optional<OpsFigures> opsFigures(const Session& session)
{
    const OpsDecisions* answer = shown(session);
    if (!answer || !session.feasible())
        return std::nullopt;
    OpsFigures figures;
    figures.fraction = answer->plan().fraction;
    figures.savedBytes = answer->plan().savedBytes;
    figures.again = static_cast<int>(answer->plan().recomputed.size());
    const StepTrace& trace = session.step()->trace();
    figures.ops = static_cast<int>(std::count(trace.ops.phase.begin(), trace.ops.phase.end(), Phase::forward));
    return figures;
}

QString compileLines(const Session& session)
{
    const OpsDecisions* answer = shown(session);
    if (!answer || !session.feasible())
        return {};
    return QStringLiteral("import torch._functorch.config as config\n"
                          "config.activation_memory_budget = %1\n"
                          "config.activation_memory_budget_solver = \"%2\"\n"
                          "config.activation_memory_budget_runtime_estimator = \"%3\"")
        .arg(fractionText(answer->plan().fraction), solverWord(session), estimatorWord(session));
}

std::vector<TimelineChangedOp> changedMarks(const OpsDecisions& answer, const Timeline& timeline)
{
    std::vector<bool> changed(answer.decisions.size(), false);
    for (const ChangedOp& change : answer.changed)
        changed[change.op.value] = true;
    std::vector<TimelineChangedOp> marks;
    for (const MemoryChange& change : timeline.changes) {
        if (change.delta <= 0 || !change.op.valid() || !changed[change.op.value])
            continue;
        if (marks.empty() || marks.back().ms != change.ms || marks.back().again != change.recomputed)
            marks.push_back({change.ms, change.recomputed});
    }
    return marks;
}

QString noOpsPolicy(const Session& session)
{
    const OpsPolicyPtr& policy = session.opsPolicy();
    if (policy && !policy->whyNot.empty())
        return sentence(QString::fromStdString(policy->whyNot));
    return tr("The save lists of this plan are still being made.");
}

} // namespace headroom
