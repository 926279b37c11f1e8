// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/recording.h"

#include <QDir>
#include <QFile>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>

using namespace headroom;

/// The window's side of a recording, with a script in place of headroom-record.
class RecordingTest : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void init()
    {
        folder_ = std::make_unique<QTemporaryDir>();
        destination_ = folder_->filePath(QStringLiteral("recordings/demo.hrs"));
        recording_ = std::make_unique<Recording>(QStringLiteral(HEADROOM_SOURCE_DIR "/tests/views/fake_recorder.sh"));
        progressed_ = std::make_unique<QSignalSpy>(recording_.get(), &Recording::progressed);
        finished_ = std::make_unique<QSignalSpy>(recording_.get(), &Recording::finished);
        failed_ = std::make_unique<QSignalSpy>(recording_.get(), &Recording::failed);
        cancelled_ = std::make_unique<QSignalSpy>(recording_.get(), &Recording::cancelled);
    }

    void recordsWithProgress()
    {
        const QString source = folder_->filePath(QStringLiteral("source"));
        write(source, "a recording");
        recording_->start({QStringLiteral("copy:") + source}, destination_);
        QVERIFY(recording_->running());
        QVERIFY(finished_->wait());
        QCOMPARE(finished_->first().first().toString(), destination_);
        QCOMPARE(read(destination_), QByteArray("a recording"));
        QCOMPARE(progressed_->last().at(0).toDouble(), 0.5);
        QCOMPARE(progressed_->last().at(1).toString(), QStringLiteral("backward"));
        expectNothingBut({QStringLiteral("demo.hrs")});
        QCOMPARE(failed_->count() + cancelled_->count(), 0);
    }

    void cancelEndsTheProcessAndLeavesNothing()
    {
        recording_->start({QStringLiteral("slow")}, destination_);
        QTRY_COMPARE(progressed_->last().at(0).toDouble(), 0.25);
        recording_->cancel();
        QVERIFY(cancelled_->wait());
        QVERIFY(!recording_->running());
        expectNothingBut({});
        QCOMPARE(failed_->count() + finished_->count(), 0);
    }

    void cancelKeepsAnOlderRecording()
    {
        QVERIFY(QDir(folder_->path()).mkpath(QStringLiteral("recordings")));
        write(destination_, "older");
        recording_->start({QStringLiteral("slow")}, destination_);
        QTRY_COMPARE(progressed_->last().at(0).toDouble(), 0.25);
        recording_->cancel();
        QVERIFY(cancelled_->wait());
        QCOMPARE(read(destination_), QByteArray("older"));
    }

    void failureIsTheRecordersSentence()
    {
        recording_->start({QStringLiteral("refuse")}, destination_);
        QVERIFY(failed_->wait());
        QCOMPARE(failed_->first().first().toString(),
                 QStringLiteral("demo:refuse: unknown model; known are demo:mlp, demo:transformer."));
        expectNothingBut({});
    }

    void crashIsSaid()
    {
        recording_->start({QStringLiteral("crash")}, destination_);
        QVERIFY(failed_->wait());
        QVERIFY(failed_->first().first().toString().startsWith(QStringLiteral("The recorder ended unexpectedly.")));
        expectNothingBut({});
    }

    void missingRecorderIsSaid()
    {
        Recording recording(QStringLiteral("/nowhere/headroom-record"));
        QSignalSpy failed(&recording, &Recording::failed);
        recording.start({QStringLiteral("slow")}, destination_);
        QTRY_COMPARE(failed.count(), 1);
        QVERIFY(failed.first().first().toString().contains(QStringLiteral("/nowhere/headroom-record")));
        expectNothingBut({});
    }

    void recordsAgainAfterACancel()
    {
        recording_->start({QStringLiteral("slow")}, destination_);
        QTRY_COMPARE(progressed_->last().at(0).toDouble(), 0.25);
        recording_->cancel();
        QVERIFY(cancelled_->wait());
        const QString source = folder_->filePath(QStringLiteral("source"));
        write(source, "second");
        recording_->start({QStringLiteral("copy:") + source}, destination_);
        QVERIFY(finished_->wait());
        QCOMPARE(read(destination_), QByteArray("second"));
    }

    void closingTheWindowEndsTheRecorder()
    {
        recording_->start({QStringLiteral("slow")}, destination_);
        QTRY_COMPARE(progressed_->last().at(0).toDouble(), 0.25);
        recording_.reset();
        expectNothingBut({});
    }

private:
    static void write(const QString& path, const QByteArray& content)
    {
        QFile file(path);
        QVERIFY(file.open(QIODevice::WriteOnly));
        QCOMPARE(file.write(content), content.size());
    }
    static QByteArray read(const QString& path)
    {
        QFile file(path);
        return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
    }
    void expectNothingBut(const QStringList& files) const
    {
        const QDir recordings(folder_->filePath(QStringLiteral("recordings")));
        QCOMPARE(recordings.entryList(QDir::AllEntries | QDir::Hidden | QDir::NoDotAndDotDot), files);
    }

    std::unique_ptr<QTemporaryDir> folder_;
    QString destination_;
    std::unique_ptr<Recording> recording_;
    std::unique_ptr<QSignalSpy> progressed_, finished_, failed_, cancelled_;
};

QTEST_GUILESS_MAIN(RecordingTest)
#include "recording_test.moc"
