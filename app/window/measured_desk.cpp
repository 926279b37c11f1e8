// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/measured_desk.h"

#include "app/recording/sentence.h"
#include "app/window/session.h"
#include "views/plot/call_later.h"
#include "views/plot/number_text.h"

#include <QFileInfo>
#include <QLocale>

#include <cmath>
#include <filesystem>
#include <utility>

namespace headroom {

namespace {

/// "+0.3 %": how far the measured value is from the predicted one.
QString difference(double measured, double predicted)
{
    if (predicted <= 0)
        return {};
    if (measured >= 3 * predicted)
        return MeasuredDesk::tr("%1 times as much").arg(ratioText(measured / predicted));
    const double percent = 100 * (measured / predicted - 1);
    const QString number = QLocale::c().toString(std::abs(percent), 'f', std::abs(percent) < 10 ? 1 : 0);
    return (percent < 0 ? QStringLiteral("−") : QStringLiteral("+")) + number + QStringLiteral(" %");
}

} // namespace

ComparisonFacts comparisonFacts(const StepComparison& comparison, const QString& file)
{
    const StepInfo& info = comparison.measured->info;
    ComparisonFacts facts;
    const QString place = QString::fromStdString(info.device.empty() ? info.gpu : info.device);
    facts.title = MeasuredDesk::tr("%1, measured on %2").arg(QFileInfo(file).fileName(), place);
    const bool byOps = comparison.axis == StepComparison::Axis::ops;
    facts.axis = byOps
        ? MeasuredDesk::tr("Time is predicted time: %1 of %2 ops are the same and begin at the same place.")
              .arg(countText(comparison.pairs), countText(comparison.measuredOp.size()))
        : QString();
    if (!comparison.note.empty())
        facts.axis
            += (facts.axis.isEmpty() ? QString() : QStringLiteral(" ")) + QString::fromStdString(comparison.note);
    facts.peak = comparison.hasMemory
        ? MeasuredDesk::tr("%1 predicted, %2 measured, %3")
              .arg(bytesText(comparison.predictedPeak, 2), bytesText(comparison.measuredPeak, 2),
                   difference(static_cast<double>(comparison.measuredPeak),
                              static_cast<double>(comparison.predictedPeak)))
        : MeasuredDesk::tr("%1 predicted, not measured").arg(bytesText(comparison.predictedPeak, 2));
    if (comparison.nonPyTorch > 0)
        facts.axis += MeasuredDesk::tr(" Without %1 that is not PyTorch's.").arg(bytesText(comparison.nonPyTorch, 2));
    facts.times = comparison.hasTimes
        ? MeasuredDesk::tr("%1 predicted, %2 measured, %3")
              .arg(msText(comparison.predictedMs), msText(comparison.measuredMs),
                   difference(comparison.measuredMs, comparison.predictedMs))
        : MeasuredDesk::tr("%1 predicted, not measured").arg(msText(comparison.predictedMs));
    return facts;
}

MeasuredDesk::MeasuredDesk(Session& session, QObject* parent)
    : QObject(parent)
    , session_(session)
{
    connect(&session_, &Session::stepChanged, this, &MeasuredDesk::askAgain);
}

QString MeasuredDesk::whyNot() const
{
    if (!session_.isOpen())
        return tr("Open the simulated step first, to compare a measured one with it.");
    if (!session_.step()->trace().info.simulated)
        return tr("The open step was measured itself: open the simulated step of the same model to compare them.");
    return {};
}

void MeasuredDesk::compare(const QString& path)
{
    if (const QString reason = whyNot(); !reason.isEmpty())
        Q_EMIT failed(reason);
    else
        post(path, nullptr, false);
}

void MeasuredDesk::compareOrOpen(const QString& path)
{
    if (whyNot().isEmpty())
        post(path, nullptr, true);
    else
        Q_EMIT wanted(path);
}

void MeasuredDesk::stop()
{
    answered_ = ++asked_;
    lane_.cancel();
    path_.clear();
    measured_.reset();
    session_.setComparison(nullptr, {});
}

/// Compares again if the open step was replaced, and stops if another one was opened.
void MeasuredDesk::askAgain()
{
    const bool inPlace = session_.isOpen() && session_.peakBefore() > 0 && whyNot().isEmpty();
    if (!measured_ || !inPlace)
        stop();
    else
        post(path_, measured_, false);
}

void MeasuredDesk::post(const QString& path, StepTracePtr measured, bool orOpen)
{
    const OpenStepPtr step = session_.step();
    const quint64 number = ++asked_;
    lane_.cancel();
    lane_.post([this, path, measured = std::move(measured), orOpen, step, number,
                profile = profile_](const std::stop_token&) {
        const auto report = [&](auto send) {
            callLater(this, [this, number, send] {
                if (number != asked_)
                    return;
                answered_ = number;
                send();
            });
        };
        const auto fail = [&](const Error& error) {
            report([this, reason = sentence(QString::fromStdString(error.message))] { Q_EMIT failed(reason); });
        };
        StepTracePtr other = measured;
        if (!other) {
            Result<StepTracePtr> read = readMeasured(std::filesystem::path(path.toStdU16String()), profile);
            if (!read)
                return fail(read.error());
            other = *std::move(read);
        }
        if (orOpen && (other->info.simulated || other->info.source == "snapshot"))
            return report([this, path] { Q_EMIT wanted(path); });
        const Result<StepComparisonPtr> made
            = compareSteps(step->trace(), *step->engine->recorded(), other, QFileInfo(path).fileName().toStdString());
        if (!made)
            return fail(made.error());
        report([this, path, other, orOpen, comparison = *made] {
            path_ = path;
            measured_ = other;
            session_.setComparison(comparison, path);
            if (orOpen)
                Q_EMIT comparedInstead();
        });
    });
}

} // namespace headroom
