// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/measured_controller.h"

#include "app/recording/recorder_program.h"
#include "app/window/session.h"
#include "core/base/printable_text.h"
#include "core/base/try.h"
#include "core/predict/predict.h"
#include "views/plot/call_later.h"
#include "views/plot/number_text.h"

#include <QFileInfo>
#include <QLocale>

#include <cmath>
#include <filesystem>
#include <utility>

namespace headroom {

namespace {

/// "+0.3 %": the difference of the measured value from the predicted value.
QString difference(double measured, double predicted)
{
    if (predicted <= 0)
        return {};
    if (measured >= 3 * predicted)
        return MeasuredController::tr("%1 times as much").arg(ratioText(measured / predicted));
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
    facts.title = MeasuredController::tr("%1, measured on %2").arg(QFileInfo(file).fileName(), place);
    const bool byOps = comparison.axis == StepComparison::Axis::ops;
    facts.axis = byOps
        ? MeasuredController::tr("Time is predicted time: %1 of %2 ops are the same and begin at the same place.")
              .arg(countText(comparison.pairs), countText(comparison.measuredOp.size()))
        : QString();
    if (!comparison.note.empty())
        facts.axis
            += (facts.axis.isEmpty() ? QString() : QStringLiteral(" ")) + QString::fromStdString(comparison.note);
    facts.peak = comparison.hasMemory
        ? MeasuredController::tr("%1 predicted, %2 measured, %3")
              .arg(bytesText(comparison.predictedPeak, 2), bytesText(comparison.measuredPeak, 2),
                   difference(static_cast<double>(comparison.measuredPeak),
                              static_cast<double>(comparison.predictedPeak)))
        : MeasuredController::tr("%1 predicted, not measured").arg(bytesText(comparison.predictedPeak, 2));
    if (comparison.nonPyTorch > 0)
        facts.axis
            += MeasuredController::tr(" Without %1 that is not PyTorch's.").arg(bytesText(comparison.nonPyTorch, 2));
    facts.times = comparison.hasTimes
        ? MeasuredController::tr("%1 predicted, %2 measured, %3")
              .arg(msText(comparison.predictedMs), msText(comparison.measuredMs),
                   difference(comparison.measuredMs, comparison.predictedMs))
        : MeasuredController::tr("%1 predicted, not measured").arg(msText(comparison.predictedMs));
    return facts;
}

ComparisonFacts comparisonFacts(const PeakTables& peaks)
{
    ComparisonFacts facts;
    facts.title = MeasuredController::tr("%1 beside %2")
                      .arg(QString::fromStdString(printableText(peaks.nameB)),
                           QString::fromStdString(printableText(peaks.nameA)));
    facts.axis = QString::fromStdString(printableText(peaks.by.front().cause));
    facts.peak = MeasuredController::tr("%1 here, %2 there, %3")
                     .arg(bytesText(peaks.peakA, 2), bytesText(peaks.peakB, 2),
                          difference(static_cast<double>(peaks.peakB), static_cast<double>(peaks.peakA)));
    facts.times = MeasuredController::tr("not compared");
    return facts;
}

namespace {

/// What the session compares: a measured step over the prediction, two peaks, or both.
struct Compared
{
    StepComparisonPtr comparison;
    PeakTablesPtr peaks;
    TimelinePtr beside; ///< memory of the other step on the time axis of the open one; null: it has none
};

/// Compares the peaks of two steps. Error: one of the steps has no memory.
Result<PeakTablesPtr> comparedPeaks(const OpenStep& open, const StepTrace& other, const Timeline& timeline,
                                    const QString& path)
{
    // Files of the same name are told apart by their folders.
    const bool isAlike = QFileInfo(open.path).fileName() == QFileInfo(path).fileName();
    const auto name = [&](const QString& file) { return (isAlike ? file : QFileInfo(file).fileName()).toStdString(); };
    ASSIGN_OR_RETURN(const PeakSide a, peakSideOf(open.trace(), *open.engine->recorded(), name(open.path)));
    ASSIGN_OR_RETURN(const PeakSide b, peakSideOf(other, timeline, name(path)));
    return peakTables(a, b);
}

/// Compares the open step with the other one.
Result<Compared> comparedSteps(const OpenStep& open, const StepTracePtr& other, const QString& path)
{
    Compared compared;
    if (open.trace().info.simulated && !other->info.simulated) {
        ASSIGN_OR_RETURN(
            compared.comparison,
            compareSteps(open.trace(), *open.engine->recorded(), other, QFileInfo(path).fileName().toStdString()));
        if (!compared.comparison->hasMemory)
            return compared;
        compared.beside = compared.comparison->aligned;
    }
    const Result<Timeline> timeline = predict(*other, {});
    if (!timeline)
        return badInput(QFileInfo(path).fileName().toStdString() + ": " + timeline.error().message);
    ASSIGN_OR_RETURN(compared.peaks, comparedPeaks(open, *other, *timeline, path));
    if (!compared.beside)
        compared.beside = std::make_shared<const Timeline>(onAxisOf(open.trace(), *other, *timeline));
    return compared;
}

} // namespace

MeasuredController::MeasuredController(Session& session, QObject* parent)
    : QObject(parent)
    , session_(session)
{
    connect(&session_, &Session::stepChanged, this, &MeasuredController::takeStep);
}

QString MeasuredController::whyNot() const
{
    if (!session_.isOpen())
        return tr("Open a step first, to compare with another.");
    return {};
}

void MeasuredController::compare(const QString& path)
{
    ask({path, nullptr, {}, false, opening_});
}

void MeasuredController::compareOrOpen(const QString& path)
{
    ask({path, nullptr, {}, true, opening_});
}

void MeasuredController::stop()
{
    shown_ = {};
    forget();
    session_.setComparison(nullptr, nullptr, nullptr, {});
}

void MeasuredController::beginOpening()
{
    opening_ = true;
    request_.isForNextStep = false;
    if (busy())
        forget();
}

void MeasuredController::endOpening()
{
    opening_ = false;
}

void MeasuredController::forget()
{
    answered_ = ++asked_;
    lane_.cancel();
    request_ = shown_;
}

/// Asks again if the open step was replaced, or if the user asked while the step was being opened. Stops otherwise.
void MeasuredController::takeStep()
{
    const bool inPlace = session_.isOpen() && session_.peakBefore() > 0;
    Request request;
    if (inPlace || (session_.isOpen() && request_.isForNextStep))
        request = std::exchange(request_, {});
    if (inPlace) {
        request.orOpen = request.orOpen && !request.measured; // the user knows of the comparison
    } else {
        opening_ = false;
        request.isForNextStep = false;
    }
    if (!inPlace || !whyNot().isEmpty())
        stop(); // what is shown is a comparison with the step before
    if (!request.path.isEmpty())
        ask(std::move(request));
}

void MeasuredController::ask(Request request)
{
    request_ = std::move(request);
    const bool liesOverStep = session_.isOpen() && session_.step()->trace().info.simulated;
    if (request_.orOpen && !liesOverStep)
        Q_EMIT wanted(std::exchange(request_, shown_).path);
    else if (const QString reason = whyNot(); !reason.isEmpty())
        refuse(reason);
    else
        post();
}

void MeasuredController::refuse(const QString& reason)
{
    if (!request_.isForNextStep)
        request_ = shown_;
    Q_EMIT failed(reason);
}

void MeasuredController::post()
{
    const OpenStepPtr step = session_.step();
    const quint64 number = ++asked_;
    lane_.cancel();
    lane_.post([this, request = request_, step, number, profile = profile_](const std::stop_token&) {
        const auto report = [&](auto send) {
            callLater(this, [this, number, send] {
                if (number != asked_)
                    return;
                answered_ = number;
                send();
            });
        };
        const auto fail = [&](const Error& error) {
            report([this, reason = sentence(QString::fromStdString(error.message))] { refuse(reason); });
        };
        const QString& path = request.path;
        StepTracePtr other = request.measured;
        std::optional<FileStamp> stamp = request.stamp;
        if (!other) {
            const std::filesystem::path file = path.toStdU16String();
            stamp = stampOf(file);
            Result<StepTracePtr> read = readMeasured(file, profile);
            if (!read)
                return fail(read.error());
            other = *std::move(read);
        }
        if (request.orOpen && (other->info.simulated || other->info.source == "snapshot"))
            return report([this] { Q_EMIT wanted(std::exchange(request_, shown_).path); });
        const Result<Compared> made = comparedSteps(*step, other, path);
        if (!made)
            return fail(made.error());
        report([this, other, stamp, compared = *made] {
            request_.measured = other;
            request_.stamp = stamp;
            shown_ = request_;
            shown_.isForNextStep = false;
            session_.setComparison(compared.comparison, compared.peaks, compared.beside, request_.path, stamp);
            if (request_.orOpen)
                Q_EMIT comparedInstead();
        });
    });
}

} // namespace headroom
