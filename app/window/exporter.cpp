// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/exporter.h"

#include "app/recording/recorder_program.h"
#include "app/window/card_text.h"
#include "app/window/plan_text.h"
#include "app/window/session.h"
#include "app/window/settings.h"
#include "app/window/step_text.h"
#include "core/base/atomic_write.h"
#include "core/policy/policy.h"
#include "views/export/export.h"
#include "views/plot/call_later.h"
#include "views/plot/number_text.h"
#include "views/report/report.h"
#include "views/theme/theme.h"
#include "views/widgets/message_bar.h"

#include <QClipboard>
#include <QDir>
#include <QFileDialog>
#include <QFileInfo>
#include <QGuiApplication>
#include <QMessageBox>
#include <QPushButton>
#include <QWidget>

#include <filesystem>
#include <utility>

namespace headroom {
namespace {

std::filesystem::path nativePath(const QString& path)
{
    return std::filesystem::path(path.toStdU16String());
}

} // namespace

Exporter::Exporter(Session& session, Settings& settings, MessageBar& messages, QWidget* window)
    : QObject(window)
    , session_(session)
    , settings_(settings)
    , messages_(messages)
    , window_(window)
{
}

QString Exporter::ask(const QString& title, const QString& fileName, const QString& filter)
{
    const QString place = QDir(settings_.exportFolder()).filePath(fileName);
    const OpenStepPtr step = session_.step();
    QString path = QFileDialog::getSaveFileName(window_, title, place, filter);
    if (path.isEmpty() || session_.step() == step)
        return path;
    messages_.showError(
        tr("Another step was opened while the file was chosen, and nothing was written: export again."));
    return {};
}

QString Exporter::askPicture(const QString& title, const QString& what)
{
    const QString name = QFileInfo(session_.step()->path).completeBaseName() + QLatin1Char('-') + what;
    return ask(title, name + QStringLiteral(".svg"), tr("Pictures and tables (*.svg *.pdf *.png *.csv)"));
}

void Exporter::askReport()
{
    const QString name = QFileInfo(session_.step()->path).completeBaseName() + QStringLiteral(".html");
    if (const QString path = ask(tr("Export report"), name, tr("Report (*.html)")); !path.isEmpty())
        writeReportTo(path);
}

void Exporter::askPolicy()
{
    const QString path = ask(tr("Export policy"), QStringLiteral("policy.json"), tr("Policy (*.json)"));
    if (!path.isEmpty())
        writePolicyTo(path);
}

void Exporter::askTimeline()
{
    if (const QString path = askPicture(tr("Export timeline"), QStringLiteral("timeline")); !path.isEmpty())
        writeTimelineTo(path);
}

void Exporter::askTradeOff()
{
    if (const QString path = askPicture(tr("Export trade-off curves"), QStringLiteral("tradeoff")); !path.isEmpty())
        writeTradeOffTo(path);
}

void Exporter::askFrontier()
{
    if (!frontierIsFinal())
        return;
    if (const QString path = askPicture(tr("Export frontier"), QStringLiteral("frontier")); !path.isEmpty())
        writeFrontierTo(path);
}

void Exporter::askFit(const FitExport& fit)
{
    if (const QString path = askPicture(tr("Export what fits"), QStringLiteral("fit")); !path.isEmpty())
        writeFitTo(path, fit);
}

bool Exporter::mayExceedBudget(const Policy& policy)
{
    if (policy.predicted.peak <= session_.budget())
        return true;
    QMessageBox box(QMessageBox::Warning, tr("Export policy"),
                    tr("The policy of this plan has a peak of %1, which exceeds the budget of %2.")
                        .arg(bytesText(policy.predicted.peak, 2), bytesText(session_.budget(), 2)),
                    QMessageBox::NoButton, window_);
    const QPushButton* exportIt = box.addButton(tr("Export policy"), QMessageBox::AcceptRole);
    box.setDefaultButton(box.addButton(QMessageBox::Cancel));
    box.exec();
    return box.clickedButton() == exportIt;
}

bool Exporter::mayReplace(const QString& path)
{
    for (const QString& shown : {session_.step()->path, session_.comparedFile()}) {
        if (!isSameFile(nativePath(path), nativePath(shown)))
            continue;
        messages_.showError(
            tr("%1 is shown in the window and was not replaced: choose another name.").arg(QFileInfo(path).fileName()));
        return false;
    }
    return true;
}

bool Exporter::write(const QString& path, const std::function<Status(const std::filesystem::path&)>& writeFile)
{
    return mayReplace(path) && report(writeFile(nativePath(path)), path);
}

ExportOptions Exporter::options() const
{
    return {.dark = Theme::of(*window_).isDark};
}

bool Exporter::writePolicyTo(const QString& path)
{
    if (const QString why = whyNoExport(session_); !why.isEmpty()) {
        messages_.showError(why);
        return false;
    }
    if (!session_.answerIsCurrent()) {
        messages_.showError(tr("The plan is still being solved; export when the plan is done."));
        return false;
    }
    const std::optional<Policy> policy = session_.policy();
    if (!policy) {
        messages_.showError(noOpsPolicy(session_));
        return false;
    }
    if (!mayExceedBudget(*policy))
        return false;
    if (!write(path, [&](const auto& file) { return writePolicy(*policy, file); }))
        return false;
    session_.markExported();
    const QString line = QStringLiteral("torch_headroom.apply(model, \"%1\")").arg(QFileInfo(path).fileName());
    const MessageBar::Action copy{tr("Copy this line"), [line] { QGuiApplication::clipboard()->setText(line); }};
    const CardLine card = cardLine(session_);
    if (card.state == CardLine::State::fails)
        messages_.showNote(tr("%1 was written, but does not run. %2.").arg(QFileInfo(path).fileName(), card.text),
                           copy);
    else
        messages_.showDone(tr("%1 was written. In the training script: %2").arg(QFileInfo(path).fileName(), line),
                           copy);
    return true;
}

bool Exporter::writeTimelineTo(const QString& path)
{
    TimelineExport data;
    data.title = pictureTitle(session_.step()->trace()).toStdString();
    data.trace = session_.step()->engine->trace();
    data.recorded = session_.step()->engine->recorded();
    if (session_.feasible())
        data.planned = session_.answer()->timeline;
    data.budget = session_.budget();
    data.byModule = stackByModule_;
    return write(path, [&](const auto& file) { return exportTimeline(data, file, options()); });
}

bool Exporter::writeTradeOffTo(const QString& path)
{
    TradeOffExport data;
    data.title = pictureTitle(session_.step()->trace()).toStdString();
    data.info = session_.step()->engine->moduleInfo();
    data.selected = session_.selectedFqn();
    if (session_.options())
        data.options = session_.options()->options;
    if (session_.feasible() && session_.mode() == PlanMode::modules)
        data.planned = plannedPoints(session_);
    data.msPerGiB = session_.msPerGiB();
    return write(path, [&](const auto& file) { return exportTradeOff(data, file, options()); });
}

bool Exporter::frontierIsFinal()
{
    if (!session_.frontierIsFinal())
        messages_.showError(tr("The frontier is still being computed: the inspector shows the progress."));
    return session_.frontierIsFinal();
}

bool Exporter::writeFrontierTo(const QString& path)
{
    if (!frontierIsFinal())
        return false;
    FrontierExport data;
    data.title = pictureTitle(session_.step()->trace()).toStdString();
    data.points = *session_.frontier();
    if (session_.answer())
        data.stepMs = session_.answer()->plan.stepMs;
    data.budget = session_.budget();
    return write(path, [&](const auto& file) { return exportFrontier(data, file, options()); });
}

bool Exporter::writeFitTo(const QString& path, const FitExport& fit)
{
    return write(path, [&](const auto& file) { return exportFit(fit, file, options()); });
}

namespace {

/// What the window knows of the open step: the shown plan, and the frontier if it is final.
ReportRequest reportRequest(const Session& session)
{
    ReportRequest request;
    request.trace = session.step()->engine->trace();
    request.recorded = session.step()->engine->recorded();
    request.card = session.card();
    request.modules = session.step()->engine->moduleInfo();
    request.version = HEADROOM_VERSION;
    if (const Status can = plannable(*request.trace); !can) {
        request.whyNoPlan = can.error().message;
        return request;
    }
    if (session.mode() == PlanMode::ops)
        request.whyNoPlan = session.whyNoOps().toStdString();
    if (!request.whyNoPlan.empty())
        return request;
    request.plan = session.answer();
    request.policy = session.policy();
    if (session.frontierIsFinal())
        request.frontier = *session.frontier();
    return request;
}

} // namespace

void Exporter::writeReportTo(const QString& path)
{
    cancelReport();
    if (!mayReplace(path)) {
        Q_EMIT reportEnded(false);
        return;
    }
    const ReportRequest request = reportRequest(session_);
    if (request.whyNoPlan.empty() && !session_.answerIsCurrent()) {
        messages_.showError(tr("The plan is still being solved; export the report when the plan is done."));
        Q_EMIT reportEnded(false);
        return;
    }
    messages_.showProgress(tr("Writing %1: computing numbers").arg(QFileInfo(path).fileName()), -1,
                           {tr("Cancel"), [this] { cancelReport(); }});
    writesReport_ = true;
    reportRunner_.post([this, request, path, generation = reportGeneration_](const std::stop_token& stop) {
        const Result<Report> made = makeReport(request, stop);
        if (stop.stop_requested())
            return;
        const Status written = made ? writeReport(*made, nativePath(path)) : Status(made.error());
        const bool withFrontier = !request.whyNoPlan.empty() || !request.frontier.empty();
        callLater(this, [this, written, path, withFrontier, generation] {
            if (generation == reportGeneration_)
                endReport(written, path, withFrontier);
        });
    });
}

void Exporter::cancelReport()
{
    ++reportGeneration_;
    reportRunner_.cancel();
    if (std::exchange(writesReport_, false) && messages_.type() == MessageBar::MessageType::progress)
        messages_.dismiss();
}

void Exporter::endReport(const Status& written, const QString& path, bool withFrontier)
{
    writesReport_ = false;
    if (report(written, path) && !withFrontier)
        messages_.showNote(
            tr("%1 was written, without the curve of the cost of less memory: that curve is still being computed.")
                .arg(QFileInfo(path).fileName()));
    Q_EMIT reportEnded(written.ok());
}

bool Exporter::report(const Status& written, const QString& path)
{
    const QFileInfo file(path);
    if (!written) {
        messages_.showError(sentence(QString::fromStdString(written.error().message)));
        return false;
    }
    settings_.setExportFolder(file.absolutePath());
    messages_.showDone(tr("%1 was written to %2.").arg(file.fileName(), QDir::toNativeSeparators(file.absolutePath())));
    return true;
}

} // namespace headroom
