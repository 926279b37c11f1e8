// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/record_controller.h"

#include "app/recording/interpreters.h"
#include "app/recording/record_dialog.h"
#include "app/recording/recorder_program.h"
#include "app/recording/recording_bar.h"
#include "app/window/settings.h"
#include "app/window/step_text.h"
#include "core/base/mapped_file.h"
#include "core/cost/roofline.h"

#include <QDir>
#include <QFileInfo>
#include <QMessageBox>
#include <QPlainTextEdit>
#include <QPushButton>

#include <algorithm>
#include <utility>

namespace headroom {

RecordController::RecordController(Paths paths, Settings& settings, RecordingBar& bar, QWidget* window)
    : QObject(window)
    , paths_(std::move(paths))
    , settings_(settings)
    , bar_(bar)
    , window_(window)
{
    wire();
}

void RecordController::wire()
{
    connect(&bar_, &RecordingBar::cancelWanted, &recording_, &Recording::cancel);
    connect(&bar_, &RecordingBar::changeWanted, this, [this] {
        if (request_)
            openDialog(*request_);
    });
    connect(&recording_, &Recording::progressed, &bar_, &RecordingBar::setProgress);
    connect(&recording_, &Recording::printed, &bar_, &RecordingBar::addLines);
    connect(&recording_, &Recording::finished, this, [this](const QString& path, const QString& remark) {
        bar_.finish();
        Q_EMIT busyChanged(false);
        Q_EMIT recorded(path, remark);
    });
    connect(&recording_, &Recording::failed, this, [this](const QString& reason) {
        bar_.showFailure(reason, request_.has_value());
        Q_EMIT busyChanged(false);
    });
    connect(&recording_, &Recording::cancelled, this, [this] {
        bar_.finish();
        Q_EMIT busyChanged(false);
        Q_EMIT cancelled();
    });
}

RecordDialog* RecordController::dialog() const
{
    return dialog_;
}

QString RecordController::destination(const QString& name) const
{
    return QDir(paths_.folder).filePath(name + QStringLiteral(".hrs"));
}

bool RecordController::refuseWhileBusy()
{
    if (recording_.running())
        Q_EMIT refused(tr("A recording is running; cancel the recording or wait for the end."));
    return recording_.running();
}

bool RecordController::refuseUnreadable(const QString& path)
{
    const Result<InputFile> file = InputFile::open(path.toStdU16String());
    QString reason;
    if (!file)
        reason = sentence(QString::fromStdString(file.error().message));
    else if (file->size() == 0 && sourceKind(path) != SourceKind::script)
        reason = tr("%1 is empty, and no model: save the model again with torch.export.save or torch.jit.save.")
                     .arg(QDir::toNativeSeparators(path));
    if (!reason.isEmpty())
        Q_EMIT refused(reason);
    return !reason.isEmpty();
}

void RecordController::ask(const QString& path)
{
    if (!refuseWhileBusy() && !refuseUnreadable(path))
        openDialog(requestFor(path));
}

/// The request with the options of the last recording of the file, else of a file of the same kind.
RecordRequest RecordController::requestFor(const QString& path) const
{
    const QFileInfo file(path);
    RecordRequest request;
    request.kind = sourceKind(path);
    request.model = file.absoluteFilePath();
    request.workingFolder = file.absolutePath();
    takeChoices(request, settings_.recordChoices(request.kind));
    if (const std::string card = settings_.card(); findDeviceSpec(card))
        request.gpu = QString::fromStdString(card);
    const QString lastUsed = std::exchange(request.interpreter, {});
    takeChoices(request, settings_.recordChoices(request.model));
    if (request.isScript() && request.interpreter.isEmpty()) {
        const std::vector<Interpreter> found = findInterpreters(request.model, lastUsed);
        request.interpreter = found.empty() ? QString() : found.front().path;
    }
    return request;
}

/// The request that recorded the step.
std::optional<RecordRequest> RecordController::requestAgain(const StepTrace& trace)
{
    const QString script = recordedScript(trace);
    if (refuseWhileBusy() || refuseUnreadable(script))
        return std::nullopt;
    RecordRequest request = requestFor(script);
    request.gpu = QString::fromStdString(trace.info.gpu);
    const QStringList arguments = recordArguments(trace);
    request.scriptArguments = shellLine(arguments.mid(arguments.indexOf(script) + 1));
    for (const auto& [key, value] : trace.info.settings) {
        if (key == "interpreter" || key == "folder")
            takeChoices(request, {{QString::fromStdString(key), QString::fromStdString(value)}});
    }
    return request;
}

void RecordController::askAgain(const StepTrace& trace, const std::string& card)
{
    std::optional<RecordRequest> request = requestAgain(trace);
    if (!request)
        return;
    request->gpu = QString::fromStdString(card);
    if (request->interpreter.isEmpty() || knows(request->interpreter, request->model))
        openDialog(*request);
    else
        askForConsent(*request);
}

void RecordController::recordLarger(const StepTrace& trace)
{
    std::optional<RecordRequest> request = requestAgain(trace);
    if (!request)
        return;
    request->unlimited = true;
    if (!request->interpreter.isEmpty() && !knows(request->interpreter, request->model))
        askForConsent(*request);
    else if (problems(*request).isEmpty())
        start(*request);
    else
        openDialog(*request);
}

/// Returns whether the user has chosen this Python, or this Python is the environment's own (never named by a step
/// file).
bool RecordController::knows(const QString& interpreter, const QString& script) const
{
    const QString key = QStringLiteral("interpreter");
    if (settings_.recordChoices(script).value(key).toString() == interpreter)
        return true;
    const auto found = findInterpreters({}, settings_.recordChoices(SourceKind::script).value(key).toString());
    return settings_.trustedPrograms().contains(interpreter)
        || std::ranges::any_of(found, [&](const Interpreter& one) { return one.path == interpreter; });
}

void RecordController::askForConsent(const QString& script, const QString& python, const QString& refusal,
                                     const std::function<void()>& use, const std::function<void()>& refuse)
{
    auto* box = new QMessageBox(QMessageBox::Warning, tr("Headroom"),
                                tr("The step file says that this program runs %1:\n\n%2")
                                    .arg(QFileInfo(script).fileName(), QDir::toNativeSeparators(python)),
                                QMessageBox::NoButton, window_);
    box->setObjectName(QStringLiteral("interpreterConsent"));
    box->setTextFormat(Qt::PlainText); // the path comes from the file
    box->setInformativeText(tr("Headroom has never started this Python before. Start only a Python that you trust."));
    box->setAttribute(Qt::WA_DeleteOnClose);
    const QPushButton* accept = box->addButton(tr("Use This Python"), QMessageBox::AcceptRole);
    QPushButton* reject = box->addButton(refusal, QMessageBox::RejectRole);
    box->setDefaultButton(reject);
    connect(accept, &QPushButton::clicked, this, [this, python, use] {
        settings_.trustProgram(python);
        use();
    });
    connect(reject, &QPushButton::clicked, this, refuse);
    box->open();
}

void RecordController::askForConsent(const RecordRequest& request)
{
    askForConsent(
        request.model, request.interpreter, tr("Choose Another"), [this, request] { openDialog(request); },
        [this, request] {
            RecordRequest other = request;
            const std::vector<Interpreter> found = findInterpreters({}, {});
            other.interpreter = found.empty() ? QString() : found.front().path;
            openDialog(other);
        });
}

void RecordController::withPython(const StepTrace& trace, const std::function<void(const QString& python)>& run,
                                  const std::function<void()>& refuse)
{
    const QString python = recordedPython(trace);
    const QString script = recordedScript(trace);
    if (knows(python, script))
        run(python);
    else
        askForConsent(
            script.isEmpty() ? trainingProgram(trace) : script, python, tr("Cancel"), [run, python] { run(python); },
            refuse);
}

void RecordController::openDialog(const RecordRequest& request)
{
    if (dialog_)
        dialog_->reject();
    dialog_ = new RecordDialog(request, paths_.recorder, Recording::freePath(destination(request.name())), window_);
    dialog_->setAttribute(Qt::WA_DeleteOnClose);
    const QString proposed = dialog_->request().gpu;
    connect(dialog_, &QDialog::accepted, this, [this, proposed, dialog = dialog_.data()] {
        if (dialog->request().gpu != proposed) // another card was chosen, and is that of the window from now on
            settings_.setCard(dialog->request().gpu.toStdString());
        start(dialog->request());
    });
    dialog_->open();
}

void RecordController::start(const RecordRequest& request)
{
    if (refuseWhileBusy())
        return;
    settings_.setRecordChoices(request.kind, kindChoices(request));
    settings_.setRecordChoices(request.model, fileChoices(request));
    request_ = request;
    run(recordCommand(request, paths_.recorder), request.name());
}

bool RecordController::hasOutput() const
{
    return !bar_.log()->document()->isEmpty();
}

void RecordController::showOutput(const QString& remark)
{
    bar_.showFailure(remark, request_.has_value());
}

void RecordController::recordDemo(const DemoModel& demo)
{
    if (refuseWhileBusy())
        return;
    if (!QFileInfo::exists(paths_.recorder) && QFileInfo::exists(paths_.sample)) {
        Q_EMIT recorded(paths_.sample,
                        tr("The recorder is not there, or is still being built: this step of the demo transformer was "
                           "recorded before and comes with Headroom."));
        return;
    }
    request_.reset();
    run(recorderCommand(paths_.recorder, demo.arguments, demo.title), demo.name);
}

void RecordController::run(const RecordCommand& command, const QString& name)
{
    bar_.begin(command.title, command.isScript);
    Q_EMIT busyChanged(true);
    recording_.start(command, destination(name));
}

} // namespace headroom
