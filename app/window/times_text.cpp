// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/times_text.h"

#include "app/window/step_text.h"
#include "core/cost/roofline.h"
#include "views/plot/number_text.h"

#include <QCoreApplication>
#include <QDir>

#include <cmath>

namespace headroom {
namespace {

QString tr(const char* text)
{
    return QCoreApplication::translate("TimesText", text);
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

} // namespace

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
            + tr("The time axis has ops and collectives one after the other: %1.")
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

} // namespace headroom
