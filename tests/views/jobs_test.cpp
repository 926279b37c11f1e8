// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/jobs.h"
#include "core/trace/step_file.h"
#include "tests/core/synthetic_step.h"
#include "tests/views/block_engine.h"

#include <QFile>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>

#include <memory>

using namespace headroom;

class JobsTest : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void init()
    {
        folder_ = std::make_unique<QTemporaryDir>();
        file_ = folder_->filePath(QStringLiteral("step.hrs"));
        QVERIFY(writeStepTrace(*makeSyntheticStep({.blocks = 6, .activation = 64 * MiB}), file_.toStdString()).ok());
        jobs_ = std::make_unique<Jobs>([](StepTracePtr trace) { return BlockEngine::create(std::move(trace)); });
    }

    void opensAStep()
    {
        const OpenStepPtr step = open();
        QVERIFY(step);
        QCOMPARE(step->path, file_);
        QCOMPARE(step->recorded().size(), step->trace().modules.size());
    }

    void brokenFileNamesTheOffset()
    {
        QFile file(file_);
        QVERIFY(file.resize(1000));
        QSignalSpy failed(jobs_.get(), &Jobs::openFailed);
        jobs_->open(file_);
        QVERIFY(failed.wait());
        const QString reason = failed.first().at(1).toString();
        QVERIFY2(reason.contains(QStringLiteral("step.hrs")) && reason.contains(QStringLiteral("offset")),
                 qPrintable(reason));
    }

    void laterOpeningWins()
    {
        QSignalSpy opened(jobs_.get(), &Jobs::opened);
        QSignalSpy failed(jobs_.get(), &Jobs::openFailed);
        jobs_->open(QStringLiteral("/nowhere/first.hrs"));
        jobs_->open(file_);
        QVERIFY(opened.wait());
        QTest::qWait(20);
        QCOMPARE(failed.count(), 0);
        QCOMPARE(opened.count(), 1);
    }

    void forgottenOpeningSaysNothing()
    {
        QSignalSpy opened(jobs_.get(), &Jobs::opened);
        jobs_->open(file_);
        jobs_->forgetOpening();
        QVERIFY(!opened.wait(200));
    }

    void listsWhatIsAlive()
    {
        const OpenStepPtr step = open();
        const TimelinePtr& recorded = step->engine->recorded();
        QSignalSpy listed(jobs_.get(), &Jobs::liveMemoryListed);
        jobs_->listLiveMemory({step, recorded, recorded->peakChange + 1, nullptr});
        QVERIFY(listed.wait());
        QCOMPARE(listed.first().first().value<LiveBlocksAtPtr>()->table.total, recorded->peak);
    }

private:
    OpenStepPtr open()
    {
        QSignalSpy opened(jobs_.get(), &Jobs::opened);
        jobs_->open(file_);
        return opened.wait() ? opened.first().first().value<OpenStepPtr>() : nullptr;
    }
    std::unique_ptr<QTemporaryDir> folder_;
    QString file_;
    std::unique_ptr<Jobs> jobs_;
};

QTEST_GUILESS_MAIN(JobsTest)
#include "jobs_test.moc"
