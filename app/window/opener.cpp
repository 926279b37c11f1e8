// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/opener.h"

#include "app/recording/recorder_program.h"
#include "app/window/actions.h"
#include "app/window/record_controller.h"
#include "app/window/session.h"
#include "app/window/settings.h"
#include "app/window/snapshot_dialog.h"
#include "app/window/step_text.h"
#include "app/window/what_if.h"
#include "core/base/printable_text.h"
#include "core/cost/card_memory.h"
#include "core/profile/profile_reader.h"
#include "core/trace/source_lines.h"
#include "views/plot/number_text.h"
#include "views/widgets/message_bar.h"
#include "views/widgets/start_page.h"

#include <QAction>
#include <QDesktopServices>
#include <QDir>
#include <QFileDialog>
#include <QFileInfo>
#include <QInputDialog>
#include <QMenu>
#include <QProcess>
#include <QUrl>

#include <utility>

namespace headroom {

Opener::Opener(Parts parts)
    : QObject(parts.window)
    , parts_(std::move(parts))
{
    wireReading();
    wireRecording();
    connect(parts_.actions.open, &QAction::triggered, this, &Opener::askForFile);
    connect(parts_.actions.calibratedTimes, &QAction::triggered, this, &Opener::calibrateTimes);
    connect(parts_.actions.closeStep, &QAction::triggered, this, &Opener::closeStep);
    connect(parts_.actions.chooseEditor, &QAction::triggered, this, &Opener::chooseEditor);
    connect(&parts_.start, &StartPage::openWanted, this, &Opener::askForFile);
    connect(&parts_.start, &StartPage::fileWanted, this, [this](const QString& path) { openFile(path, {}); });
    connect(&parts_.start, &StartPage::scriptWanted, this, &Opener::askForScript);
    fillRecentFiles();
}

void Opener::wireReading()
{
    connect(&parts_.jobs, &Jobs::openProgressed, this, [this](const QString& path, const QString& stage, double share) {
        if (!wanted_.inPlace.isEmpty())
            return; // the header shows the progress
        parts_.messages.showProgress(tr("Opening %1: %2").arg(QFileInfo(path).fileName(), stage), share,
                                     {tr("Cancel"), [this] {
                                          parts_.jobs.forgetOpening();
                                          endOpening();
                                      }});
    });
    connect(&parts_.jobs, &Jobs::snapshotRead, this, &Opener::askForPart);
    connect(&parts_.jobs, &Jobs::opened, this, &Opener::takeStep);
    connect(&parts_.jobs, &Jobs::openFailed, this, [this](const QString&, const QString& reason) {
        refuse(reason);
        offerRecording(reason);
    });
}

void Opener::wireRecording()
{
    connect(&parts_.start, &StartPage::demoWanted, &parts_.records, &RecordController::recordDemo);
    connect(&parts_.records, &RecordController::busyChanged, this, [this](bool busy) {
        parts_.start.setBusy(busy);
        if (busy)
            parts_.messages.dismiss();
    });
    connect(&parts_.records, &RecordController::recorded, this, [this](const QString& path, const QString& remark) {
        openStep(path, {{}, {}, remark, PlanMode::modules, {}, {}, true});
    });
    connect(&parts_.whatIf, &WhatIf::recorded, this,
            [this](const QString& path, const QString& sizes, const QString& card) {
                openStep(path, {{}, {}, {}, PlanMode::modules, sizes, card.toStdString()});
            });
    connect(&parts_.whatIf, &WhatIf::failed, this,
            [this](const QString& reason) { parts_.messages.showError(reason); });
    connect(&parts_.records, &RecordController::refused, this, [this](const QString& reason) {
        parts_.messages.showError(reason);
        Q_EMIT failed(reason);
    });
    connect(&parts_.records, &RecordController::cancelled, this,
            [this] { parts_.messages.showDone(tr("The recording was cancelled; nothing was written.")); });
}

void Opener::openFile(const QString& path, const Wanted& wanted)
{
    const SourceKind kind = sourceKind(path);
    if (const QString reason = whyNotOpened(kind, path); !reason.isEmpty())
        refuse(reason);
    else if (kind == SourceKind::step && wanted.inPlace.isEmpty() && isMeasurementOfOpenStep(path))
        Q_EMIT measuredWanted(path);
    else if (kind == SourceKind::step)
        openStep(path, wanted);
    else
        parts_.records.ask(path);
}

/// Whether the file is a profiler's trace and the open step is simulated, so that both are compared.
bool Opener::isMeasurementOfOpenStep(const QString& path) const
{
    const Session& session = parts_.session;
    return session.isOpen() && session.step()->trace().info.simulated
        && isProfileFile(std::filesystem::path(path.toStdU16String()));
}

/// Ends the opening of another document, if there is any.
void Opener::endOpening()
{
    if (!std::exchange(opensDocument_, false))
        return;
    parts_.messages.dismiss();
    Q_EMIT nothingOpened();
}

void Opener::openStep(const QString& path, const Wanted& wanted)
{
    if (wanted.inPlace.isEmpty()) {
        parts_.whatIf.cancel(); // another size of the step that is to be replaced would take the place of this step
        opensDocument_ = true;
        Q_EMIT openingBegan();
    } else {
        endOpening();
    }
    wanted_ = wanted;
    const Session& session = parts_.session;
    TimeChoice times = times_;
    if (!wanted.inPlace.isEmpty() && session.isOpen())
        times = wanted.card.empty() ? session.step()->choice : onCard(session.step()->choice, wanted.card);
    // A new document has the times of the user's card, unless others were asked for.
    const bool isFree = wanted.inPlace.isEmpty() && times.gpu.empty() && times.calibration == "auto";
    parts_.jobs.open(path, times, std::exchange(part_, {}), std::exchange(profile_, {}),
                     isFree ? parts_.settings.card() : std::string());
}

void Opener::calibrateTimes(bool calibrated)
{
    const Session& session = parts_.session;
    if (!session.isOpen() || session.step()->times.calibrated == calibrated)
        return;
    TimeChoice times = session.step()->choice;
    times.calibration = calibrated ? "auto" : "none";
    changeTimes(times);
}

void Opener::changeTimes(const TimeChoice& times)
{
    const OpenStepPtr step = parts_.session.step();
    TimeChoice wanted = times;
    // The calibration of the command line is of the GPU that the step was recorded for.
    const bool isRecorded = times.gpu.empty() || times.gpu == step->file->info.gpu;
    if (times.calibration == "auto" && times_.calibration != "none" && isRecorded)
        wanted.calibration = times_.calibration;
    endOpening();
    wanted_ = {{}, {}, {}, PlanMode::modules, timesChange(step->choice, wanted), times.gpu};
    parts_.jobs.changeTimes(step, wanted);
}

void Opener::chooseCard(const std::string& card)
{
    const OpenStepPtr step = parts_.session.step();
    const std::string& recorded = step->file->info.gpu;
    const std::string& gpu = card.empty() ? recorded : card;
    const bool isGpu = step->file->info.simulated && findDeviceSpec(gpu).ok();
    if (isGpu && gpu != step->trace().info.gpu && standsFor(*step->file, gpu)) {
        changeTimes(onCard(step->choice, gpu == recorded ? std::string() : gpu));
        wanted_.chosenCard = card;
        return;
    }
    parts_.session.chooseCard(card);
    Q_EMIT cardChosen();
    if (const Status stands = isGpu ? standsFor(*step->file, gpu) : Status(); !stands) {
        const QString reason = QString::fromStdString(stands.error().message);
        parts_.messages.showError(sentence(reason));
        wanted_.card = gpu;
        offerRecording(reason);
    }
}

void Opener::reload()
{
    const Session& session = parts_.session;
    if (session.isOpen())
        openStep(
            session.step()->path,
            {{}, {}, {}, PlanMode::modules, tr("reading %1 again").arg(QFileInfo(session.step()->path).fileName())});
}

/// Asks for a part of a snapshot that is large or has several devices.
void Opener::askForPart(const ReadSnapshotPtr& snapshot)
{
    parts_.messages.dismiss();
    auto* dialog = new SnapshotDialog(*snapshot, parts_.window);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    connect(dialog, &QDialog::accepted, this,
            [this, dialog, snapshot] { parts_.jobs.openPart(snapshot, dialog->part()); });
    connect(dialog, &QDialog::rejected, this, [this] {
        parts_.jobs.forgetOpening();
        endOpening();
    });
    dialog->open();
}

void Opener::takeStep(const OpenStepPtr& step)
{
    Session& session = parts_.session;
    if (!wanted_.inPlace.isEmpty()) {
        // The step at another size or with other times replaces the open step in an undo step.
        const Wanted wanted = std::exchange(wanted_, {});
        if (session.isOpen())
            session.replaceStep(step, wanted.inPlace, wanted.chosenCard);
        if (wanted.chosenCard)
            Q_EMIT cardChosen();
        return;
    }
    parts_.messages.dismiss();
    opensDocument_ = false;
    const Wanted wanted = std::exchange(wanted_, {}); // while the user is asked, something else may be opened
    if (session.isOpen() && !parts_.mayCloseStep()) {
        keepForLater(step, wanted);
        return;
    }
    parts_.settings.addRecentFile(step->path);
    fillRecentFiles();
    const std::string card = parts_.settings.card();
    const bool isKnown = cardOf({card, {}}, step->trace()) != nullptr;
    session.open(step, wanted.budget.value_or(firstBudget(step->trace(), step->engine->recorded()->peak, isKnown)),
                 wanted.mode, card, parts_.settings.offload());
    if (const ModuleId module = moduleNamed(step->trace(), wanted.select.toStdString()); module.valid())
        session.select(module);
    Q_EMIT opened(wanted.budget.has_value());
    if (!wanted.remark.isEmpty())
        showRemark(wanted.remark);
    else if (const auto failures = outOfMemoryEvents(step->trace()); !failures.empty())
        parts_.messages.showNote(
            tr("Out of memory at %1. %2")
                .arg(msText(failures.front().ms),
                     QString::fromStdString(whyOutOfMemory(step->trace(), failures.front())))
            + (failures.size() > 1 ? tr(" This happened %1 times.").arg(failures.size()) : QString()));
}

/// The user keeps the open step. A recording that was made for nothing so far is offered.
void Opener::keepForLater(const OpenStepPtr& step, const Wanted& wanted)
{
    Q_EMIT nothingOpened();
    if (!wanted.isRecording)
        return;
    parts_.settings.addRecentFile(step->path);
    fillRecentFiles();
    parts_.messages.showNote(tr("%1 is recorded; the step before stays open.").arg(QFileInfo(step->path).fileName()),
                             {tr("Open"), [this, path = step->path, wanted] { openStep(path, wanted); }});
}

/// Shows what went wrong after the step was recorded, and offers what the script printed.
void Opener::showRemark(const QString& remark)
{
    MessageBar::Action output;
    if (parts_.records.hasOutput())
        output = {tr("Show output"), [this, remark] {
                      parts_.messages.dismiss();
                      parts_.records.showOutput(remark);
                  }};
    parts_.messages.showError(remark, output);
}

void Opener::refuse(const QString& reason)
{
    parts_.whatIf.cancel();
    parts_.messages.showError(sentence(reason));
    opensDocument_ = false;
    Q_EMIT nothingOpened();
    Q_EMIT failed(reason);
}

/// Times of a GPU that runs other kernels need a new recording. A recording is offered where possible.
void Opener::offerRecording(const QString& reason)
{
    const OpenStepPtr step = parts_.session.step();
    const std::string card = std::exchange(wanted_.card, {});
    if (!step || card.empty() || standsFor(*step->file, card))
        return;
    const bool isScript = !recordedScript(step->trace()).isEmpty();
    if (!isScript && !canRecordAgain(step->trace()))
        return;
    parts_.messages.showError(sentence(reason), {tr("Record again"), [this, card, step, isScript] {
                                                     parts_.messages.dismiss();
                                                     if (isScript)
                                                         parts_.records.askAgain(step->trace(), card);
                                                     else
                                                         parts_.whatIf.want(WhatIf::card, QString::fromStdString(card));
                                                 }});
}

void Opener::recordLarger()
{
    parts_.records.recordLarger(*parts_.session.step()->file);
}

namespace {

/// Returns the file of a frame on this machine; empty: there is none. A relative path is looked up beside the step.
QString sourceFile(const OpenStep& step, FrameId frame)
{
    const QString path = QString::fromUtf8(step.trace().strings[step.trace().frames.file[frame]]);
    const QFileInfo file(QFileInfo(step.path).absoluteDir(), path);
    return file.isFile() ? file.absoluteFilePath() : QString();
}

/// Whether the desktop shows the file and does not run it: the path comes from a step, and the step from anywhere.
bool isSourceText(const QString& path)
{
    static const QStringList kinds{QStringLiteral("py"),  QStringLiteral("pyi"), QStringLiteral("pyx"),
                                   QStringLiteral("cpp"), QStringLiteral("cc"),  QStringLiteral("h"),
                                   QStringLiteral("cu"),  QStringLiteral("cuh"), QStringLiteral("c")};
    return kinds.contains(QFileInfo(path).suffix().toLower()) && !QFileInfo(path).isExecutable();
}

} // namespace

void Opener::openLine(FrameId frame)
{
    const OpenStepPtr step = parts_.session.step();
    if (!step || !frame.valid()) {
        parts_.messages.showNote(tr("No line of source code is known here."));
        return;
    }
    const QString where = QString::fromStdString(frameText(step->trace(), frame));
    const QString file = sourceFile(*step, frame);
    if (file.isEmpty()) {
        const std::string path(step->trace().strings[step->trace().frames.file[frame]]);
        parts_.messages.showNote(tr("%1 is not on this machine, where the line %2 would be opened.")
                                     .arg(QString::fromStdString(printableText(path)), where));
        return;
    }
    const QString command = parts_.settings.editor();
    if (command.isEmpty()) {
        if (!isSourceText(file))
            parts_.messages.showNote(
                tr("The desktop might run %1 instead of showing the text; choose an editor in the menu View.")
                    .arg(QDir::toNativeSeparators(file)));
        else if (!QDesktopServices::openUrl(QUrl::fromLocalFile(file)))
            parts_.messages.showError(tr("The desktop has no program for %1; choose an editor in the menu View.")
                                          .arg(QFileInfo(file).fileName()));
        return;
    }
    QStringList words = QProcess::splitCommand(command); // without a shell, as the path comes from a step
    if (!command.contains(QLatin1String("%f")))
        words << QStringLiteral("%f");
    const QString line = QString::number(step->trace().frames.line[frame]);
    for (QString& word : words)
        word.replace(QLatin1String("%l"), line).replace(QLatin1String("%f"), file);
    const QString program = words.takeFirst();
    if (!QProcess::startDetached(program, words))
        parts_.messages.showError(tr("The editor %1 does not start.").arg(program),
                                  {tr("Choose editor…"), [this] { chooseEditor(); }});
}

void Opener::chooseEditor()
{
    auto* dialog = new QInputDialog(parts_.window);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->setObjectName(QStringLiteral("editor"));
    dialog->setWindowTitle(tr("Editor for source lines"));
    dialog->setLabelText(tr("Command, with %f for the file and %l for the line, as code -g %f:%l.\n"
                            "Without a command the desktop opens the file."));
    dialog->setTextValue(parts_.settings.editor());
    connect(dialog, &QInputDialog::textValueSelected, this,
            [this](const QString& command) { parts_.settings.setEditor(command.trimmed()); });
    dialog->open();
}

bool Opener::closeStep()
{
    if (!parts_.session.isOpen())
        return true;
    if (!parts_.mayCloseStep())
        return false;
    if (!opensDocument_) {
        parts_.jobs.forgetOpening(); // the step at another size, if being read
        parts_.messages.dismiss(); // of the step that is closed
    }
    parts_.session.close();
    return true;
}

void Opener::askForFile()
{
    const QStringList recent = parts_.settings.recentFiles();
    const QString folder = recent.isEmpty() ? QString() : QFileInfo(recent.first()).absolutePath();
    const QString path = QFileDialog::getOpenFileName(
        parts_.window, tr("Open a recorded step, a model or a training script"), folder,
        tr("All that Headroom opens (*.hrs *.pt2 *.pt *.py *.pickle *.pkl *.json *.json.gz);;Recorded steps "
           "(*.hrs);;Memory snapshots (*.pickle *.pkl);;Traces of torch.profiler (*.json *.json.gz);;Exported models "
           "(*.pt2);;"
           "TorchScript models (*.pt);;Training scripts (*.py);;All files (*)"));
    if (!path.isEmpty())
        openFile(path, {});
}

void Opener::askForScript()
{
    const QString path = QFileDialog::getOpenFileName(parts_.window, tr("Choose a training script"), {},
                                                      tr("Training scripts (*.py)"));
    if (!path.isEmpty())
        openFile(path, {});
}

void Opener::fillRecentFiles()
{
    const QStringList files = parts_.settings.recentFiles();
    parts_.start.setRecentFiles(files.mid(0, 4));
    QMenu* menu = parts_.actions.recentMenu;
    menu->clear();
    for (const QString& path : files) {
        QAction* action = menu->addAction(QFileInfo(path).fileName().replace(QLatin1Char('&'), QLatin1String("&&")));
        action->setStatusTip(path);
        action->setToolTip(path);
        connect(action, &QAction::triggered, this, [this, path] { openFile(path, {}); });
    }
    menu->setEnabled(!files.isEmpty());
    if (files.isEmpty())
        return;
    menu->addSeparator();
    QAction* clear = menu->addAction(tr("Clear this list"));
    clear->setStatusTip(tr("Forget all recent files"));
    connect(clear, &QAction::triggered, this, [this] {
        parts_.settings.clearRecentFiles();
        fillRecentFiles();
    });
}

} // namespace headroom
