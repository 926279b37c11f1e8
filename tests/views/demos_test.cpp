// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/recording.h"
#include "core/cost/roofline.h"
#include "core/predict/predict.h"
#include "core/trace/step_file.h"
#include "views/widgets/start_page.h"

#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>

using namespace headroom;

/// The demo models of the start page with the real recorder.
class DemosTest : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void everyDemoIsRecordedAndDoesNotFitItsCard_data()
    {
        QTest::addColumn<QStringList>("arguments");
        for (const DemoModel& demo : demoModels())
            QTest::newRow(qPrintable(demo.name)) << demo.arguments;
    }
    void everyDemoIsRecordedAndDoesNotFitItsCard()
    {
        QFETCH(const QStringList, arguments);
        const QTemporaryDir folder;
        const QString path = folder.filePath(QStringLiteral("demo.hrs"));
        Recording recording;
        QSignalSpy finished(&recording, &Recording::finished);
        QSignalSpy failed(&recording, &Recording::failed);
        QSignalSpy progressed(&recording, &Recording::progressed);
        recording.start(recorderCommand(QStringLiteral(HEADROOM_BIN_DIR "/torch-headroom-record"), arguments, {}),
                        path);
        QTRY_VERIFY_WITH_TIMEOUT(finished.count() + failed.count() > 0, 60'000);
        QVERIFY2(failed.isEmpty(), failed.isEmpty() ? "" : qPrintable(failed.first().first().toString()));
        QCOMPARE(progressed.last().first().toDouble(), 1.0);

        const auto trace = readStepTrace(path.toStdString());
        QVERIFY2(trace.ok(), trace.ok() ? "" : trace.error().message.c_str());
        const Bytes card = findDeviceSpec((*trace)->info.gpu).value().memory;
        QVERIFY(predict(**trace, {}).value().peak > card);
    }
};

QTEST_GUILESS_MAIN(DemosTest)
#include "demos_test.moc"
