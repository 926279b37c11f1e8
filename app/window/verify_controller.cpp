// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/verify_controller.h"

#include "app/recording/recorder_program.h"
#include "app/window/session.h"
#include "app/window/step_text.h"
#include "core/joint/ops_request.h"
#include "core/policy/policy.h"
#include "views/plot/number_text.h"
#include "views/widgets/inspector_parts.h"

#include <QAction>

#include <utility>

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
        text += VerifyController::tr(" It keeps %1 for backward, as planned, and runs %2 ops again.")
                    .arg(bytesText(*result.savedBytes, 2), countText(result.repeatedOps));
    if (result.gradientsCompared)
        text += VerifyController::tr(" Gradients of %1 parameters equal to the bit.").arg(result.parameters);
    else if (!result.whyNotCompared.isEmpty())
        text += VerifyController::tr(" Gradients were not compared: %1.").arg(result.whyNotCompared);
    return text;
}

VerifyController::VerifyController(Session& session, VerifyRow& row, QAction& action, QString recorder, QObject* parent)
    : QObject(parent)
    , session_(session)
    , row_(row)
    , action_(action)
    , recorder_(std::move(recorder))
{
    connect(&action_, &QAction::triggered, this, &VerifyController::verify);
    connect(&row_, &VerifyRow::wanted, this, &VerifyController::verify);
    connect(&row_, &VerifyRow::cancelWanted, &verifying_, &RecorderRun::cancel);
    connect(&session_, &Session::stepAboutToChange, this, &VerifyController::forget);
    connect(&session_, &Session::questionChanged, this, &VerifyController::forget);
    connect(&session_, &Session::answerChanged, this, &VerifyController::showOffer);
    connect(&session_, &Session::stepChanged, this, &VerifyController::showOffer);
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

QString VerifyController::whyNot() const
{
    if (!session_.isOpen() || !session_.answer())
        return tr("There is no plan yet.");
    if (const Status can = plannable(session_.step()->trace()); !can)
        return sentence(QString::fromStdString(can.error().message));
    if (!trainingProgram(session_.step()->trace()).isEmpty())
        return tr(
            "A training script cannot be run with the plan from here: torch_headroom.apply(model, \"policy.json\") in "
            "the script runs it.");
    if (session_.step()->trace().info.arguments.empty())
        return tr("Only a step that torch-headroom record made of a model can be run again; in a training script, "
                  "torch_headroom.apply runs the plan.");
    if (!session_.answerIsCurrent())
        return tr("The plan is still being solved.");
    if (!session_.feasible())
        return tr("No plan fits this budget.");
    if (session_.worldSize() > 1 && session_.mode() == PlanMode::modules)
        return tr("The plan is for one of several GPUs, which one simulated GPU cannot run.");
    return {};
}

void VerifyController::showOffer()
{
    const QString reason = whyNot();
    action_.setEnabled(reason.isEmpty());
    row_.setOffer(reason.isEmpty(), reason.isEmpty() ? action_.toolTip() : reason);
}

void VerifyController::verify()
{
    if (!whyNot().isEmpty() || verifying_.running())
        return;
    place_ = std::make_unique<QTemporaryDir>();
    const PlanFile kind = session_.answer()->ops ? PlanFile::ops : PlanFile::policy;
    const QString file = place_->filePath(QStringLiteral("plan.json"));
    if (const Status written = writePlan(file); !written) {
        row_.setVerdict(VerifyRow::Verdict::broken, sentence(QString::fromStdString(written.error().message)));
        return;
    }
    verifying_.start(verifyCommand(recorder_, recordArguments(session_.step()->trace()), kind, file));
}

/// Writes the shown plan. A plan by op is written as ops, not as the requested fraction.
Status VerifyController::writePlan(const QString& file) const
{
    if (const OpsDecisionsPtr& ops = session_.answer()->ops)
        return writeOpsPlan(session_.step()->trace(), ops->plan(), file.toStdString());
    return writePolicy(*session_.policy(), file.toStdString());
}

void VerifyController::forget()
{
    if (verifying_.running())
        verifying_.cancel();
    else if (row_.verdict() != VerifyRow::Verdict::none)
        row_.setVerdict(VerifyRow::Verdict::none, {});
    showOffer();
}

} // namespace headroom
