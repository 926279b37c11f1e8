// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/recording.h"

#include <QDir>
#include <QFile>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <csignal>

using namespace headroom;

/// The window's side of a recording, with scripts in place of torch-headroom-record and of a Python.
class RecordingTest : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void init()
    {
        folder_ = std::make_unique<QTemporaryDir>();
        destination_ = folder_->filePath(QStringLiteral("recordings/demo.hrs"));
        recording_ = std::make_unique<Recording>();
        progressed_ = std::make_unique<QSignalSpy>(recording_.get(), &Recording::progressed);
        printed_ = std::make_unique<QSignalSpy>(recording_.get(), &Recording::printed);
        finished_ = std::make_unique<QSignalSpy>(recording_.get(), &Recording::finished);
        failed_ = std::make_unique<QSignalSpy>(recording_.get(), &Recording::failed);
        cancelled_ = std::make_unique<QSignalSpy>(recording_.get(), &Recording::cancelled);
    }

    void recordsWithProgress()
    {
        const QString source = folder_->filePath(QStringLiteral("source"));
        write(source, "a recording");
        start(QStringLiteral("copy:") + source);
        QVERIFY(recording_->running());
        QVERIFY(finished_->wait());
        QCOMPARE(finished_->first().first().toString(), destination_);
        QCOMPARE(finished_->first().at(1).toString(), QString());
        QCOMPARE(read(destination_), QByteArray("a recording"));
        QCOMPARE(progressed_->last().at(0).toDouble(), 0.5);
        QCOMPARE(progressed_->last().at(1).toString(), QStringLiteral("backward"));
        expectNothingBut({QStringLiteral("demo.hrs")});
        QCOMPARE(failed_->count() + cancelled_->count(), 0);
    }

    void cancelEndsTheProcessAndLeavesNothing()
    {
        start(QStringLiteral("slow"));
        QTRY_COMPARE(progressed_->last().at(0).toDouble(), 0.25);
        recording_->cancel();
        QVERIFY(cancelled_->wait());
        QVERIFY(!recording_->running());
        expectNothingBut({});
        QCOMPARE(failed_->count() + finished_->count(), 0);
    }

    void hangIsEndedWithItsChildren()
    {
        recording_->setGrace(100); // it does not listen
        start(QStringLiteral("hang"));
        QTRY_COMPARE(progressed_->last().at(0).toDouble(), 0.25);
        const QList<int> children = childrenOfHang();
        recording_->cancel();
        QCOMPARE(progressed_->last().at(1).toString(), QStringLiteral("ending"));
        QVERIFY(cancelled_->wait());
        expectNothingBut({});
        for (const int child : children)
            QTRY_VERIFY2(!isAlive(child), "a child outlived the recording");
    }

    void cancelKeepsAnOlderRecording()
    {
        QVERIFY(QDir(folder_->path()).mkpath(QStringLiteral("recordings")));
        write(destination_, "older");
        start(QStringLiteral("slow"));
        QTRY_COMPARE(progressed_->last().at(0).toDouble(), 0.25);
        recording_->cancel();
        QVERIFY(cancelled_->wait());
        QCOMPARE(read(destination_), QByteArray("older"));
    }

    void deathsAreSaid_data()
    {
        QTest::addColumn<QString>("sentence");
        QTest::newRow("crash") << QStringLiteral(
            "The recording of model crashed in the stage “forward” with a segmentation "
            "fault (SIGSEGV); nothing was written.");
        QTest::newRow("killed") << QStringLiteral(
            "The system ended the recording of model in the stage “forward” (SIGKILL), most likely because the machine "
            "ran out of memory; nothing was written.");
        QTest::newRow("ended") << QStringLiteral("The recording of model was ended from outside in the stage “forward” "
                                                 "(SIGTERM); nothing was written.");
        QTest::newRow("refuse") << QStringLiteral("demo:refuse: unknown model; known are demo:mlp, demo:transformer.");
        QTest::newRow("flood") << QStringLiteral("Too much was said.");
    }
    void deathsAreSaid()
    {
        QFETCH(const QString, sentence);
        start(QString::fromLatin1(QTest::currentDataTag()));
        QVERIFY(failed_->wait(30'000));
        QCOMPARE(failed_->first().first().toString(), sentence);
        QCOMPARE(finished_->count() + cancelled_->count(), 0);
        expectNothingBut({});
    }

    void endOfTheRecorderFromOutsideIsSaid()
    {
        start(QStringLiteral("slow"));
        QTRY_COMPARE(progressed_->last().at(0).toDouble(), 0.25);
        QCOMPARE(::kill(static_cast<pid_t>(recording_->processId()), SIGINT), 0); // as Ctrl+C there
        QVERIFY(failed_->wait());
        QVERIFY(failed_->first().first().toString().contains(QStringLiteral("from outside")));
        expectNothingBut({});
    }

    void garbageIsNoProgress()
    {
        start(QStringLiteral("garbage"));
        QVERIFY(failed_->wait());
        for (const QList<QVariant>& call : *progressed_)
            QCOMPARE(call.first().toDouble(), -1.0);
        QCOMPARE(failed_->first().first().toString(), QStringLiteral("The end."));
    }

    void longOutputIsBounded()
    {
        OutputLines lines;
        QVERIFY(lines.take(QByteArray(100'000, 'x')).isEmpty());
        const QList<QByteArray> taken = lines.take("y\nnext\nrest");
        QCOMPARE(taken.size(), 2);
        QCOMPARE(taken[0], QByteArray(OutputLines::longestLine, 'x'));
        QCOMPARE(taken[1], QByteArray("next"));
        QCOMPARE(lines.rest(), QByteArray("rest"));
        lines.take("10 %\r");
        lines.take("20 %\r30 %");
        QCOMPARE(shownLine(lines.take("\r\n").first()), QStringLiteral("30 %"));
        QCOMPARE(shownLine("\x1b[1;31mloss\x1b[0m 1.5\x07\t!"), QStringLiteral("loss 1.5    !"));
    }

    void missingRecorderIsSaid()
    {
        recording_->start(recorderCommand(QStringLiteral("/nowhere/torch-headroom-record"), {}, {}), destination_);
        QTRY_COMPARE(failed_->count(), 1);
        QVERIFY(failed_->first().first().toString().contains(QStringLiteral("/nowhere/torch-headroom-record")));
        expectNothingBut({});
    }

    void recordsAgainAfterACancel()
    {
        start(QStringLiteral("slow"));
        QTRY_COMPARE(progressed_->last().at(0).toDouble(), 0.25);
        recording_->cancel();
        QVERIFY(cancelled_->wait());
        const QString source = folder_->filePath(QStringLiteral("source"));
        write(source, "second");
        start(QStringLiteral("copy:") + source);
        QVERIFY(finished_->wait());
        QCOMPARE(read(destination_), QByteArray("second"));
    }

    void closingTheWindowEndsTheRecorder()
    {
        start(QStringLiteral("hang"));
        QTRY_COMPARE(progressed_->last().at(0).toDouble(), 0.25);
        const qint64 process = recording_->processId();
        const QList<int> children = childrenOfHang();
        recording_.reset();
        QVERIFY(!isAlive(process));
        for (const int child : children)
            QTRY_VERIFY2(!isAlive(child), "a child outlived the window");
        expectNothingBut({});
    }

    void whatADeadProgramLeftIsRemoved()
    {
        QProcess dead;
        dead.start(QStringLiteral("true"), QStringList());
        QVERIFY(dead.waitForStarted());
        const QString abandoned = QStringLiteral(".recording-%1-abcdef").arg(dead.processId());
        dead.waitForFinished();
        QVERIFY(QDir(folder_->path()).mkpath(QStringLiteral("recordings/") + abandoned));
        start(QStringLiteral("refuse"));
        QVERIFY(failed_->wait());
        expectNothingBut({});
    }

    void scriptRunsInItsFolderWithItsArguments()
    {
        startScript("copies.py", QStringLiteral("--data 'my data' --epochs 3"));
        QVERIFY(finished_->wait());
        QCOMPARE(read(destination_), QByteArray("a step"));
        QStringList lines;
        for (const QList<QVariant>& call : *printed_)
            lines << call.first().toStringList();
        QCOMPARE(lines.value(0), QStringLiteral("arguments: --data my data --epochs 3"));
        QCOMPARE(lines.value(1),
                 QStringLiteral("folder: %1, gpu: t4-16gb").arg(QFileInfo(folder_->path()).canonicalFilePath()));
        QCOMPARE(progressed_->last().at(1).toString(), QStringLiteral("step 1"));
    }

    void exceptionAfterTheStepKeepsTheStep()
    {
        startScript("raises.py");
        QVERIFY(finished_->wait());
        QCOMPARE(finished_->first().at(1).toString(), QStringLiteral("raises.py: RuntimeError: after the step."));
        QCOMPARE(read(destination_), QByteArray("a step"));
    }

    void exceptionBeforeTheStepIsTheReason()
    {
        startScript("fails.py");
        QVERIFY(failed_->wait());
        QCOMPARE(failed_->first().first().toString(), QStringLiteral("fails.py: ValueError: no data in ./data."));
        expectNothingBut({});
    }

    void scriptWithoutAStepIsSaid()
    {
        startScript("nothing.py");
        QVERIFY(failed_->wait());
        QCOMPARE(failed_->first().first().toString(),
                 QStringLiteral("nothing.py ended before a training step, so there is nothing to show."));
    }

private:
    void start(const QString& what)
    {
        recording_->start(recorderCommand(QStringLiteral(HEADROOM_SOURCE_DIR "/tests/views/fake_recorder.sh"), {what},
                                          QStringLiteral("model")),
                          destination_);
    }
    void startScript(const char* name, const QString& arguments = {})
    {
        write(folder_->filePath(QStringLiteral("step.hrs")), "a step");
        RecordRequest request;
        request.kind = SourceKind::script;
        request.model = folder_->filePath(QString::fromLatin1(name));
        request.interpreter = QStringLiteral(HEADROOM_SOURCE_DIR "/tests/views/fake_python.sh");
        request.scriptArguments = arguments;
        request.workingFolder = folder_->path();
        request.gpu = QStringLiteral("t4-16gb");
        QVERIFY(problems(request).isEmpty());
        recording_->start(recordCommand(request, {}), destination_);
    }
    /// Returns the processes that `hang` started: one of its group, and one in a session of its own.
    QList<int> childrenOfHang() const
    {
        const QString said = printed_->first().first().toStringList().first();
        QList<int> children;
        for (const QString& number : said.section(QLatin1Char(' '), 1).split(QLatin1Char(' ')))
            children.append(number.toInt());
        const auto runs = [](int child) { return child > 0 && isAlive(child); };
        [&] { QVERIFY2(children.size() == 2 && std::ranges::all_of(children, runs), qPrintable(said)); }();
        return children;
    }
    /// A process that has ended but that nobody asked for is still known to kill().
    static bool isAlive(qint64 process)
    {
        const QByteArray state = read(QStringLiteral("/proc/%1/stat").arg(process));
        const QByteArray afterName = state.mid(state.lastIndexOf(')') + 2, 1);
        return !state.isEmpty() && afterName != "Z";
    }
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
    std::unique_ptr<QSignalSpy> progressed_, printed_, finished_, failed_, cancelled_;
};

QTEST_GUILESS_MAIN(RecordingTest)
#include "recording_test.moc"
