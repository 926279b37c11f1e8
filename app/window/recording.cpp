// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/recording.h"

#include "app/window/sentence.h"

#include <QCoreApplication>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QJsonDocument>
#include <QJsonObject>

#include <cstdio>
#include <utility>

namespace headroom {
namespace {

constexpr int patienceMs = 2000; // until a recorder that is told to end is ended

QString resultIn(const QTemporaryDir& folder)
{
    return folder.filePath(QStringLiteral("step.hrs"));
}

/// The recorder says who it is; the window does not.
QString withoutProgram(const QString& message)
{
    const QString prefix = QStringLiteral("headroom-record: ");
    return message.startsWith(prefix) ? message.mid(prefix.size()) : message;
}

} // namespace

QString recorderProgram()
{
    return QDir(QCoreApplication::applicationDirPath()).filePath(QStringLiteral("headroom-record"));
}

Recording::Recording(QString program, QObject* parent)
    : QObject(parent)
    , program_(std::move(program))
{
    process_.setStandardOutputFile(QProcess::nullDevice());
    connect(&process_, &QProcess::readyReadStandardError, this, &Recording::readMessages);
    connect(&process_, &QProcess::finished, this, &Recording::ended);
    connect(&process_, &QProcess::errorOccurred, this, [this](QProcess::ProcessError error) {
        if (error == QProcess::FailedToStart)
            couldNotStart();
    });
}

Recording::~Recording()
{
    process_.disconnect(this);
    process_.kill();
    process_.waitForFinished(patienceMs);
}

void Recording::start(const QStringList& arguments, const QString& destination)
{
    destination_ = destination;
    cancelling_ = false;
    messages_.clear();
    lastMessage_.clear();
    const QDir place = QFileInfo(destination).absoluteDir();
    if (!place.mkpath(QStringLiteral("."))) {
        Q_EMIT failed(tr("The folder %1 for the recording cannot be made.").arg(place.path()));
        return;
    }
    // Beside the destination: the finished file is then moved by a rename.
    folder_ = std::make_unique<QTemporaryDir>(place.filePath(QStringLiteral(".recording-XXXXXX")));
    if (!folder_->isValid()) {
        Q_EMIT failed(tr("The recording cannot be written to %1: %2.").arg(place.path(), folder_->errorString()));
        return;
    }
    QStringList all{QStringLiteral("record")};
    all << arguments << QStringLiteral("-o") << resultIn(*folder_) << QStringLiteral("--progress");
    Q_EMIT progressed(-1, tr("Starting"));
    process_.start(program_, all);
}

void Recording::cancel()
{
    if (!running())
        return;
    cancelling_ = true;
    process_.kill();
}

void Recording::readMessages()
{
    messages_ += process_.readAllStandardError();
    qsizetype end = 0;
    while ((end = messages_.indexOf('\n')) >= 0) {
        readMessage(messages_.left(end));
        messages_.remove(0, end + 1);
    }
}

/// A line is {"stage": "backward", "done": 0.42}, or a message for the user.
void Recording::readMessage(const QByteArray& line)
{
    const QJsonObject progress = QJsonDocument::fromJson(line).object();
    const QString text = QString::fromUtf8(line).trimmed();
    if (progress.contains(QLatin1String("done")))
        Q_EMIT progressed(progress.value(QLatin1String("done")).toDouble(),
                          progress.value(QLatin1String("stage")).toString());
    else if (!text.isEmpty())
        lastMessage_ = text;
}

void Recording::ended(int exitCode, QProcess::ExitStatus status)
{
    readMessages();
    if (!messages_.isEmpty())
        readMessage(std::exchange(messages_, {}));
    if (cancelling_) {
        folder_.reset();
        Q_EMIT cancelled();
    } else if (status == QProcess::CrashExit) {
        folder_.reset();
        Q_EMIT failed(tr("The recorder ended unexpectedly. The machine may have run out of memory; "
                         "`headroom doctor` says what it has."));
    } else if (exitCode != 0) {
        folder_.reset();
        Q_EMIT failed(lastMessage_.isEmpty() ? tr("The recorder failed with exit code %1.").arg(exitCode)
                                             : sentence(withoutProgram(lastMessage_)));
    } else {
        keepResult();
    }
}

void Recording::keepResult()
{
    const QByteArray from = QFile::encodeName(resultIn(*folder_));
    const bool kept = std::rename(from.constData(), QFile::encodeName(destination_).constData()) == 0;
    folder_.reset();
    if (kept)
        Q_EMIT finished(destination_);
    else
        Q_EMIT failed(tr("The recorder ended without writing %1.").arg(destination_));
}

void Recording::couldNotStart()
{
    folder_.reset();
    Q_EMIT failed(tr("The recorder cannot be started: %1 is not there or is no program. "
                     "It comes with Headroom; install it again.")
                      .arg(program_));
}

} // namespace headroom
