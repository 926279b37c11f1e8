// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/ops_text.h"

#include "app/recording/recorder_program.h"
#include "app/window/plan_text.h"
#include "core/joint/ops_request.h"
#include "views/plot/number_text.h"

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
    return QCoreApplication::translate("OpsText", text);
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
        facts.moreChanged = more == 1 ? tr("1 more kind") : tr("%1 more kinds").arg(more);
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
        text += tr(" %1: plan by module for this budget.").arg(bold(tr("That does not fit the budget")));
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
        return tr("None of the module's %1 ops of forward runs again.").arg(forward);
    const Bytes freed = effect.recorded - effect.kept;
    QString text = (again == 1 ? tr("%1 of the module's %2 ops of forward runs again and takes %3")
                               : tr("%1 of the module's %2 ops of forward run again and take %3"))
                       .arg(again)
                       .arg(forward)
                       .arg(bold(msText(effect.recomputeMs)));
    if (freed > 0)
        text += tr(" and frees %1").arg(bold(bytesText(freed)));
    return text + QLatin1Char('.');
}

} // namespace

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
        facts.summary += tr(" The plan is for one GPU: ops are not planned for sharded steps.");
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
