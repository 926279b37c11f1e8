// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/recording.h"

#include <QCoreApplication>
#include <QDir>
#include <QFile>
#include <QFileInfo>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <unistd.h>

namespace headroom {
namespace {

const auto folderPrefix = QStringLiteral(".recording-");

QString resultIn(const QTemporaryDir& folder)
{
    return folder.filePath(QStringLiteral("step.hrs"));
}

/// The name of the recording `number` to `destination`: "train.hrs", "train-2.hrs".
QString numbered(const QString& destination, int number)
{
    const QFileInfo file(destination);
    return number == 1
        ? destination
        : file.dir().filePath(QStringLiteral("%1-%2.%3").arg(file.completeBaseName()).arg(number).arg(file.suffix()));
}

/// Moves a file without replacing another file; false: errno says why.
bool moveToNewName(const QString& from, const QString& to)
{
    const QByteArray before = QFile::encodeName(from);
    const QByteArray after = QFile::encodeName(to);
    if (::renameat2(AT_FDCWD, before.constData(), AT_FDCWD, after.constData(), RENAME_NOREPLACE) == 0)
        return true;
    // Some file systems know only links.
    return errno == EINVAL && ::link(before.constData(), after.constData()) == 0;
}

bool haveSameContent(const QString& one, const QString& other)
{
    QFile a(one);
    QFile b(other);
    return a.open(QIODevice::ReadOnly) && b.open(QIODevice::ReadOnly) && a.size() == b.size()
        && a.readAll() == b.readAll();
}

/// Removes the folders of programs that were killed during a recording.
void removeAbandoned(QDir place)
{
    const QStringList folders = place.entryList({folderPrefix + QLatin1Char('*')}, QDir::Dirs | QDir::Hidden);
    for (const QString& name : folders) {
        const int owner = name.mid(folderPrefix.size()).section(QLatin1Char('-'), 0, 0).toInt();
        if (owner > 0 && ::kill(owner, 0) != 0 && errno == ESRCH)
            QDir(place.filePath(name)).removeRecursively();
    }
}

} // namespace

Recording::Recording(QObject* parent)
    : RecorderRun(parent)
{
}

Recording::~Recording()
{
    abandon(); // before the folder is removed
}

QString Recording::freePath(const QString& destination)
{
    int number = 1;
    while (QFileInfo::exists(numbered(destination, number)))
        ++number;
    return numbered(destination, number);
}

void Recording::start(const RecordCommand& command, const QString& destination)
{
    begin(command);
    destination_ = destination;
    prints_ = {};
    const QDir place = QFileInfo(destination).absoluteDir();
    if (!place.mkpath(QStringLiteral("."))) {
        fail(tr("The folder %1 for the recording cannot be made.").arg(place.path()));
        return;
    }
    removeAbandoned(place);
    // The folder is beside the destination, so that a rename moves the finished file.
    const QString name = folderPrefix + QString::number(QCoreApplication::applicationPid()) + QStringLiteral("-XXXXXX");
    folder_ = std::make_unique<QTemporaryDir>(place.filePath(name));
    if (!folder_->isValid()) {
        fail(tr("The recording cannot be written to %1: %2.").arg(place.path(), folder_->errorString()));
        return;
    }
    launch(command.arguments(resultIn(*folder_)));
}

void Recording::takeOutput(const QByteArray& bytes)
{
    if (!command().isScript)
        return; // torch-headroom-record prints a summary for a terminal; the window has another
    QStringList shown;
    for (const QByteArray& line : prints_.take(bytes))
        shown << shownLine(line);
    if (!shown.isEmpty())
        Q_EMIT printed(shown);
}

void Recording::endOfOutput(QStringList& shown)
{
    if (const QByteArray line = prints_.rest(); !line.isEmpty())
        shown << shownLine(line);
}

void Recording::exited(int exitCode)
{
    if (exitCode == 0) {
        keepResult({});
        return;
    }
    QString reason = reasonOfExit(exitCode);
    reason.replace(resultIn(*folder_), QFileInfo(destination_).fileName()); // the user knows only the destination
    if (QFile::exists(resultIn(*folder_)))
        keepResult(reason); // the step is complete: the script failed after the step
    else
        fail(reason);
}

void Recording::keepResult(const QString& remark)
{
    const QString from = resultIn(*folder_);
    QString path = destination_;
    bool kept = moveToNewName(from, path);
    for (int number = 2; !kept && errno == EEXIST; ++number) {
        kept = haveSameContent(from, path); // the same step again needs no second file
        if (kept)
            break;
        path = numbered(destination_, number);
        kept = moveToNewName(from, path);
    }
    if (!kept) {
        fail(command().isScript
                 ? tr("%1 ended before a training step, so there is nothing to show.").arg(command().title)
                 : tr("The recorder ended without writing %1.").arg(destination_));
        return;
    }
    folder_.reset();
    Q_EMIT finished(path, remark);
}

void Recording::cleanUp()
{
    folder_.reset();
}

} // namespace headroom
