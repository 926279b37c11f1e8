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

/// What the shown plan moves to the host of a module itself, not of the modules inside; null: nothing.
const ModuleOffload* movedOf(const PlanAnswer& answer, ModuleId module)
{
    const auto found = std::ranges::find(answer.offloads, module, &ModuleOffload::module);
    return found == answer.offloads.end() ? nullptr : &*found;
}

/// Whether the shown plan offloads a module, and does not checkpoint the module.
bool isOffloaded(const PlanAnswer& answer, ModuleId module)
{
    const ModuleOffload* const moved = movedOf(answer, module);
    return moved && !moved->isCheckpointed();
}

QString copiesText(Bytes bytes, double copyMs, double exposedMs)
{
    return tr("%1 to the host and back in %2 of copies; the GPU waits for %3")
        .arg(bold(bytesText(bytes)), msText(copyMs), bold(msText(exposedMs)));
}

/// " Sends 1.2 GiB to the host …": what the shown plan moves of a module; empty: nothing.
QString sentText(const PlanAnswer& answer, ModuleId module)
{
    const ModuleOffload* const moved = movedOf(answer, module);
    if (!moved)
        return {};
    const bool isArgument = moved->moves == ModuleOffload::Moves::arguments;
    return (isArgument ? tr(" Sends arguments: %1.") : tr(" Sends %1."))
        .arg(copiesText(moved->copies.bytes, moved->copies.copyMs, moved->copies.exposedMs));
}

/// "+0.02 ms": how long the GPU waits for the copies of a module.
QString movedText(const Session& session, ModuleId module)
{
    const ModuleOffload* moved = session.answer() ? movedOf(session.answer()->shown(), module) : nullptr;
    return moved && moved->copies.exposedMs > 0 ? tr("+%1 ms").arg(number(moved->copies.exposedMs, 2)) : tr("no wait");
}

/// The module of the plan around `module`; invalid: none.
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
    const QString sent = sentText(answer, module);
    if (isOffloaded(answer, module))
        return sent.trimmed() + priceText(session);
    const ModuleId around = regionAround(session, module);
    if (freed > 0 && effect.recomputeMs > 0) {
        const double rate = effect.recomputeMs / (static_cast<double>(freed) / static_cast<double>(GiB));
        QString text = tr("Frees %1 for %2: %3 ms per GiB.")
                           .arg(bold(bytesText(freed)), bold(msText(effect.recomputeMs)), number(rate, 1));
        if (around.valid())
            text += tr(" Runs again with %1.").arg(bold(shortName(session.step()->trace().moduleFqn(around))));
        return text + sent + priceText(session);
    }
    if (freed > 0 && around.valid() && isOffloaded(answer, around))
        return tr("Goes to the host with %1.").arg(bold(shortName(session.step()->trace().moduleFqn(around))));
    if (freed > 0)
        return tr("Frees %1 at no cost.").arg(bold(bytesText(freed)));
    if (answer.regions.empty())
        return tr("The whole step fits this budget: nothing has to be recomputed.");
    if (session.pin(session.selectedFqn()) == Pin::save)
        return tr("Pinned by hand: the plan recomputes other modules instead.");
    if (effect.recorded == 0)
        return tr("Keeps nothing until backward, so there is nothing to free here.");
    return tr("Other modules give memory for less time, so this module keeps everything.") + priceText(session);
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
    if (change.now == OpDecision::offloaded)
        return tr("goes to the host");
    if (change.now == OpDecision::recomputed)
        return change.before == OpDecision::saved ? tr("was saved, is recomputed now") : tr("is recomputed now");
    if (change.now == OpDecision::saved)
        return change.before == OpDecision::recomputed ? tr("was recomputed, is saved now") : tr("is saved now");
    return change.before == OpDecision::recomputed ? tr("is no longer recomputed") : tr("is no longer saved");
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
const OpsDecisions* opsDecisions(const Session& session)
{
    return session.mode() == PlanMode::ops && session.answer() ? session.answer()->ops.get() : nullptr;
}

/// Whether the shown plan by op is a policy with results that go to the host.
bool isHosted(const Session& session)
{
    return opsDecisions(session) && session.answer()->plan.offload.moved > 0;
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
    const bool hosted = count > 0 && answer.changed.front().now == OpDecision::offloaded;
    facts.changedTitle = count == 0 ? QString()
        : hosted && count == 1      ? tr("The result of one op goes to the host")
        : hosted                    ? tr("Results of %1 ops go to the host").arg(count)
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
        facts.moreChanged = more == 1 ? tr("1 more kind") : tr("%1 more kinds").arg(more);
}

/// By ModuleId: whether a module is among `modules`, or inside of such a module.
std::vector<bool> modulesInside(const StepTrace& trace, const std::vector<ModuleId>& modules)
{
    std::vector<bool> inside(trace.modules.size(), false);
    for (std::uint32_t i = 0; i < inside.size(); ++i) { // parents come before children
        const ModuleId parent = trace.modules.parent[ModuleId(i)];
        inside[i]
            = (parent.valid() && inside[parent.value]) || std::ranges::find(modules, ModuleId(i)) != modules.end();
    }
    return inside;
}

/// How the recomputation of the policy differs from that of the plan: ops outside of the blocks do not run again, and
/// inside of the blocks other ops do.
QString differenceText(const OpenStep& step, const OpsPlan& plan, const Policy& policy)
{
    const StepTrace& trace = step.trace();
    std::vector<ModuleId> blocks;
    for (const Policy::Module& module : policy.modules)
        blocks.push_back(step.names.at(module.fqn));
    const std::vector<bool> inside = modulesInside(trace, blocks);
    double insideMs = 0;
    double outsideMs = 0;
    for (const OpId op : plan.recomputed) {
        const ModuleId of = trace.ops.module[op];
        (of.valid() && inside[of.value] ? insideMs : outsideMs) += trace.ops.ms[op];
    }
    constexpr double shownMs = 0.005; // less is 0.00 ms
    QString text;
    if (outsideMs >= shownMs)
        text += tr(" Ops outside of the blocks do not run again: %1 of the plan.").arg(msText(outsideMs));
    if (const double moreMs = policy.predicted.recomputeMs - insideMs; std::abs(moreMs) >= shownMs)
        text += moreMs > 0 ? tr(" Inside, more runs again than in the plan.")
                           : tr(" Inside, less runs again than in the plan.");
    return text;
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
        + tr(": peak %1, +%2.").arg(bytesText(policy->predicted.peak, 2), msText(policy->predicted.recomputeMs));
    if (!isHosted(session))
        text += differenceText(*session.step(), opsDecisions(session)->plan(), *policy);
    if (policy->predicted.peak > session.budget())
        text += tr(" %1: plan by module for this budget.").arg(bold(tr("That does not fit the budget")));
    return text;
}

/// What runs again of a module, in a sentence in rich text; empty: no plan fits.
QString opsReasonText(const Session& session, ModuleId module)
{
    const OpsDecisions* answer = opsDecisions(session);
    if (!answer || !session.feasible())
        return {};
    const StepTrace& trace = session.step()->trace();
    const std::vector<bool> within = modulesInside(trace, {module});
    int forward = 0;
    int again = 0;
    for (std::uint32_t i = 0; i < trace.ops.size(); ++i) {
        const ModuleId of = trace.ops.module[OpId(i)];
        if (trace.ops.phase[OpId(i)] != Phase::forward || !of.valid() || !within[of.value])
            continue;
        ++forward;
        again += answer->decisions[i] == OpDecision::recomputed;
    }
    const QString sent = sentText(*session.answer(), module);
    const ModuleEffect& effect = session.answer()->effects[module.value];
    if (again == 0)
        return tr("None of the module's %1 ops of forward runs again.").arg(forward) + sent;
    const Bytes freed = effect.recorded - effect.kept;
    QString text = (again == 1 ? tr("%1 of the module's %2 ops of forward runs again and takes %3")
                               : tr("%1 of the module's %2 ops of forward run again and take %3"))
                       .arg(again)
                       .arg(forward)
                       .arg(bold(msText(effect.recomputeMs)));
    if (freed > 0)
        text += (again == 1 ? tr(" and frees %1") : tr(" and free %1")).arg(bold(bytesText(freed)));
    return text + QLatin1Char('.') + sent;
}

} // namespace

QString bold(const QString& text)
{
    // The heaviest weight of the window's fonts: Qt would draw <b> twice, a pixel apart.
    return QStringLiteral("<span style='font-weight:600'>%1</span>").arg(text.toHtmlEscaped());
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
        facts.reason = opsReasonText(session, module);
        return facts;
    }
    facts.reason = reasonText(session, module);
    facts.whyNot = whyNoPlan(session);
    if (!facts.whyNot.isEmpty())
        return facts;
    if (!stats)
        facts.whyNot = tr("This module did not run in the recorded step.");
    else if (stats->isLeaf)
        facts.whyNot = tr("A module without children is checkpointed only together with a parent module.");
    else if (!stats->obstacle.empty())
        facts.whyNot = tr("Cannot be checkpointed: %1.").arg(QString::fromStdString(stats->obstacle));
    else if (module.value == 0)
        facts.whyNot = tr("The whole model is never checkpointed at once: nothing would be left to save.");
    if (!facts.whyNot.isEmpty())
        return facts;

    const ModuleEffect& recorded = step.recorded()[module.value];
    const ModuleEffect& now = session.answer() ? session.answer()->shown().effects[module.value] : recorded;
    facts.pin = session.pin(fqn);
    facts.decided = facts.pin ? ModuleFacts::Option{tr("takes the pin away"), {}}
                              : ModuleFacts::Option{keptText(now.kept), costText(now.recomputeMs)};
    facts.keepAll = {keptText(recorded.recorded), tr("no recompute")};
    if (whyNoOffload(session).isEmpty()) {
        const CheckpointObstacle obstacle = step.engine->model().index().obstaclesToOffload[module.value];
        if (obstacle != CheckpointObstacle::none)
            facts.whyNoOffload = tr("Cannot be offloaded: %1.").arg(QString::fromUtf8(obstacleText(obstacle)));
        else if (stats->isWholeOnly)
            facts.whyNoOffload = tr("Cannot be offloaded: the module's ops run inside of tensor subclasses.");
        facts.offload = facts.pin == Pin::offload ? ModuleFacts::Option{keptText(now.kept), movedText(session, module)}
                                                  : ModuleFacts::Option{tr("moved at any budget"), {}};
    }
    facts.recompute = facts.pin == Pin::recompute ? ModuleFacts::Option{keptText(now.kept), costText(now.recomputeMs)}
                                                  : ModuleFacts::Option{tr("checkpointed at any budget"), {}};
    if (session.options() && !session.options()->options.empty()) {
        const TradeOffPoint planned = plannedPoint(now);
        facts.curveTitle = tr("Checkpointing options");
        // An offloaded module is checkpointed in none of these options.
        const bool isChosen = session.feasible() && !isOffloaded(*session.answer(), module);
        facts.curve = fewPoints(optionPoints(session.options()->options), isChosen ? &planned : nullptr);
        if (isChosen)
            facts.chosenPoint = chosenPoint(facts.curve, planned.ratio);
        return facts;
    }
    facts.curveTitle = tr("Trade-off, as estimated by PyTorch");
    facts.curve = tradeOffCurve(*stats);
    return facts;
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
        facts.reason = tr("Memory is tightest in %1 of %2.")
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

QString whyNoPlan(const Session& session)
{
    const Status can = session.isOpen() ? plannable(session.step()->trace()) : Status();
    return can ? QString() : sentence(QString::fromStdString(can.error().message));
}

QString whyNoOffload(const Session& session)
{
    if (!session.isOpen())
        return {};
    if (session.worldSize() > 1)
        return tr(
            "A step of a single GPU that is only calculated for several GPUs is not planned with offload; record a "
            "rank of the job instead.");
    const Status can = session.step()->engine->offloadable();
    return can ? QString() : sentence(QString::fromStdString(can.error().message));
}

bool mayOffload(const Session& session)
{
    const PlanRequest& request = session.request();
    return session.mode() == PlanMode::modules ? request.mayOffload() : request.offload; // pins are of modules
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

OpsFacts opsFacts(const Session& session)
{
    OpsFacts facts;
    facts.problem = session.whyNoOps();
    const OpsDecisions* answer = opsDecisions(session);
    if (!answer || !facts.problem.isEmpty() || !session.feasible())
        return facts;
    addChanged(facts, session.step()->trace(), *answer);
    facts.policy = policyText(session);
    facts.policyReady = session.policyOfOps() != nullptr;
    if (isHosted(session)) {
        const Plan& plan = session.answer()->plan;
        facts.summary = tr("Sends %1. Such a plan is for eager PyTorch: torch.compile sends nothing to the host.")
                            .arg(copiesText(plan.offload.moved, plan.offload.copyMs, plan.offload.exposedMs));
        return facts;
    }
    const OpsPlan& plan = answer->plan();
    facts.summary = plan.recomputed.empty()
        ? tr("The whole step fits this budget: no op has to run again.")
        : tr("Keeps %1 for backward: a fraction of %2 of the %3 that torch.compile keeps by default.")
              .arg(bold(bytesText(plan.savedBytes, 2)), bold(fractionText(plan.fraction)),
                   bytesText(answer->frontier->planner.defaultSavedBytes(), 2));
    if (session.worldSize() > 1)
        facts.summary += tr(" The plan is for one GPU: ops are not planned for sharded steps.");
    facts.compileLines
        = QStringLiteral("activation_memory_budget = %1\n…_solver = \"%2\"\n…_runtime_estimator = \"%3\"")
              .arg(fractionText(plan.fraction), solverWord(session), estimatorWord(session));
    return facts;
}

QString compileLines(const Session& session)
{
    const OpsDecisions* answer = opsDecisions(session);
    if (!answer || !session.feasible() || isHosted(session))
        return {};
    return QStringLiteral("import torch._functorch.config as config\n"
                          "config.activation_memory_budget = %1\n"
                          "config.activation_memory_budget_solver = \"%2\"\n"
                          "config.activation_memory_budget_runtime_estimator = \"%3\"")
        .arg(fractionText(answer->plan().fraction), solverWord(session), estimatorWord(session));
}

QString noOpsPolicy(const Session& session)
{
    const OpsPolicyPtr& policy = session.opsPolicy();
    if (policy && session.answer() && policy->of == session.answer()->ops && !policy->whyNot.empty())
        return sentence(QString::fromStdString(policy->whyNot));
    return tr("The save lists of this plan are still being made.");
}

} // namespace headroom
