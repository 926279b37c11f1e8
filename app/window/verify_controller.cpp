// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/verify_controller.h"

#include "app/recording/recorder_program.h"
#include "app/window/record_controller.h"
#include "app/window/session.h"
#include "app/window/step_text.h"
#include "core/joint/ops_request.h"
#include "core/policy/policy.h"
#include "views/plot/number_text.h"
#include "views/theme/styles.h"
#include "views/widgets/inspector_parts.h"

#include <QAction>
#include <QDir>
#include <QFileInfo>

#include <algorithm>
#include <tuple>

namespace headroom {

QString verdictText(const VerifyResult& result)
{
    if (!result.agrees)
        return sentence(result.reason);
    QString text
        = VerifyController::tr("Run on the simulated GPU: peak %1 as predicted, memory equal to the byte after each of "
                               "%2 allocations.")
              .arg(bytesText(result.executedPeak, 2), countText(result.allocations));
    if (result.savedBytes)
        text += VerifyController::tr(" The step keeps %1 for backward, as planned, and runs %2 ops again.")
                    .arg(bytesText(*result.savedBytes, 2), countText(result.repeatedOps));
    if (result.gradientsCompared)
        text += VerifyController::tr(" Gradients of %1 parameters equal to the bit.").arg(result.parameters);
    else if (!result.whyNotCompared.isEmpty())
        text += VerifyController::tr(" Gradients were not compared: %1.").arg(result.whyNotCompared);
    return text;
}

VerifyController::VerifyController(Session& session, VerifyRow& row, QAction& action, RecordController& records,
                                   QObject* parent)
    : QObject(parent)
    , session_(session)
    , row_(row)
    , action_(action)
    , records_(records)
{
    connect(&action_, &QAction::triggered, this, &VerifyController::verify);
    connect(&row_, &VerifyRow::wanted, this, &VerifyController::verify);
    connect(&row_, &VerifyRow::cancelWanted, &verifying_, &RecorderRun::cancel);
    connect(&session_, &Session::stepAboutToChange, this, &VerifyController::forget);
    connect(&session_, &Session::requestChanged, this, &VerifyController::forget);
    connect(&session_, &Session::answerChanged, this, &VerifyController::takeAnswer);
    connect(&session_, &Session::stepChanged, this, &VerifyController::showOffer);
    connect(&session_, &Session::opsPolicyChanged, this, &VerifyController::showOffer);
    connect(&verifying_, &RecorderRun::progressed, &row_, &VerifyRow::setProgress);
    connect(&verifying_, &Verifying::finished, this, [this](const VerifyResult& result) {
        row_.setVerdict(result.agrees ? VerifyRow::Verdict::kept : VerifyRow::Verdict::broken, verdictText(result));
        showOffer();
    });
    connect(&verifying_, &RecorderRun::failed, this, [this](const QString& reason) {
        row_.setVerdict(VerifyRow::Verdict::broken, reason);
        showOffer();
    });
    connect(&verifying_, &RecorderRun::cancelled, this, [this] {
        row_.setVerdict(VerifyRow::Verdict::none, {});
        showOffer();
    });
    showOffer();
}

namespace {

/// Why the open step cannot be run again, whatever the plan; empty: it can.
QString whyNotAgain(const StepTrace& trace)
{
    const bool isScript = !trainingProgram(trace).isEmpty();
    if (trace.info.arguments.empty() || (isScript && recordedPython(trace).isEmpty()))
        return VerifyController::tr(
            "Only a step that torch-headroom record made of a model or a script can be run again; "
            "in a training script, torch_headroom.apply runs the plan.");
    if (isScript && !trace.info.simulated)
        return VerifyController::tr("The script was measured on a GPU, but runs with the plan on the simulated card: "
                                    "record the script with --gpu.");
    return {};
}

/// Why a script cannot run under a plan by op, which has to be a policy of its modules; empty: it can.
QString whyNoPolicyOfOps(const Session& session)
{
    const OpsPolicyPtr& policy = session.opsPolicy();
    if (!policy || policy->of != session.answer()->ops)
        return VerifyController::tr("The plan is still being made a policy.");
    return policy->whyNot.empty() ? QString() : sentence(QString::fromStdString(policy->whyNot));
}

} // namespace

QString VerifyController::whyNot() const
{
    if (!session_.isOpen() || !session_.answer())
        return tr("There is no plan yet.");
    if (const Status can = plannable(session_.step()->trace()); !can)
        return sentence(QString::fromStdString(can.error().message));
    if (const QString why = whyNotAgain(session_.step()->trace()); !why.isEmpty())
        return why;
    if (!session_.answerIsCurrent())
        return tr("The plan is still being solved.");
    if (!session_.feasible())
        return tr("No plan fits this budget.");
    const bool isScript = !trainingProgram(session_.step()->trace()).isEmpty();
    if (session_.worldSize() > 1 && session_.mode() == PlanMode::modules)
        return tr("The plan is for one of several GPUs, and the simulation has a single GPU.");
    if (!isScript && offloads(session_.answer()->regions))
        return tr(
            "The plan offloads tensors, and only a script can do that: a recorded model has no hooks for offload.");
    return session_.answer()->ops && isScript ? whyNoPolicyOfOps(session_) : QString();
}

void VerifyController::showOffer()
{
    const QString reason = whyNot();
    setPossible(action_, reason);
    row_.setOffer(reason.isEmpty(), action_.toolTip());
}

void VerifyController::verify()
{
    if (!whyNot().isEmpty() || verifying_.running())
        return;
    of_ = session_.answer();
    place_ = std::make_unique<QTemporaryDir>();
    if (trainingProgram(session_.step()->trace()).isEmpty())
        verifyModel();
    else
        verifyScript();
}

bool VerifyController::made(const Status& written)
{
    if (!written)
        row_.setVerdict(VerifyRow::Verdict::broken, sentence(QString::fromStdString(written.error().message)));
    return written.ok();
}

namespace {

/// Whether both answers have the same decisions: the verdict of one is the verdict of the other.
bool samePlan(const PlanAnswer& a, const PlanAnswer& b)
{
    const auto decisions = [](const CheckpointRegion& region) {
        return std::tie(region.module, region.save, region.offload, region.hosted);
    };
    return a.ops == b.ops && std::ranges::equal(a.regions, b.regions, {}, decisions, decisions);
}

} // namespace

/// A plan is shown before the search for a better one ends.
void VerifyController::takeAnswer()
{
    if (of_ && !(session_.answer() && samePlan(*of_, *session_.answer())))
        forget();
    else
        showOffer();
}

/// A plan by op is written as its ops, not as the fraction that it was made for.
void VerifyController::verifyModel()
{
    const StepTrace& trace = session_.step()->trace();
    const QString file = place_->filePath(QStringLiteral("plan.json"));
    const OpsDecisionsPtr& ops = session_.answer()->ops;
    if (made(ops ? writeOpsPlan(trace, ops->plan(), file.toStdString())
                 : writePolicy(*session_.policy(), file.toStdString())))
        verifying_.start(
            verifyCommand(records_.recorder(), recordArguments(trace), ops ? PlanFile::ops : PlanFile::policy, file));
}

/// The script runs under the policy that would be exported, as torch_headroom.apply applies it.
void VerifyController::verifyScript()
{
    const QString policy = place_->filePath(QStringLiteral("policy.json"));
    if (!made(writePolicy(*session_.policy(), policy.toStdString())))
        return;
    const QString headroom = QFileInfo(records_.recorder()).dir().filePath(QStringLiteral("torch-headroom"));
    const QString executed = place_->filePath(QStringLiteral("executed.hrs"));
    records_.withPython(
        session_.step()->trace(),
        [=, this, step = session_.step()->path, number = planNumber_](const QString& python) {
            if (number == planNumber_)
                verifying_.start(verifyScriptCommand(headroom, step, python, policy, executed));
        },
        [] {});
}

void VerifyController::forget()
{
    ++planNumber_;
    of_.reset();
    if (verifying_.running())
        verifying_.cancel();
    else if (row_.verdict() != VerifyRow::Verdict::none)
        row_.setVerdict(VerifyRow::Verdict::none, {});
    showOffer();
}

} // namespace headroom
