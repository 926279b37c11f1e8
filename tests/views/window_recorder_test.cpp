// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/recording_bar.h"
#include "app/window/document_page.h"
#include "app/window/fit_page.h"
#include "app/window/mainwindow.h"
#include "app/window/open_step.h"
#include "app/window/record_controller.h"
#include "app/window/step_header.h"
#include "views/plot/number_text.h"
#include "views/widgets/inspector.h"
#include "views/widgets/inspector_parts.h"
#include "views/widgets/message_bar.h"
#include "views/widgets/size_fields.h"

#include <QPushButton>
#include <QSpinBox>
#include <QTemporaryDir>
#include <QTest>

using namespace headroom;

/// The window with the real recorder and the real planner: a demo is recorded, planned, verified, and recorded again at
/// another batch.
class WindowRecorderTest : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void init()
    {
        folder_ = std::make_unique<QTemporaryDir>();
        settings_ = std::make_unique<Settings>(folder_->filePath(QStringLiteral("settings.ini")));
        window_ = std::make_unique<MainWindow>(
            MainWindow::Parts{makePlannerEngine, QStringLiteral(HEADROOM_BIN_DIR "/torch-headroom-record"),
                              folder_->filePath(QStringLiteral("recordings"))},
            *settings_);
        window_->askBeforeClosing(false);
        window_->show();
        const QStringList arguments
            = QStringLiteral("demo:transformer --batch 4 --seq 64 --set n_layers=3 --set dim=64 --set n_heads=4 --set "
                             "vocab_size=96 --set max_seq_len=64")
                  .split(QLatin1Char(' '));
        window_->recordController().recordDemo({QStringLiteral("Demo"), {}, arguments, QStringLiteral("demo")});
        QTRY_VERIFY_WITH_TIMEOUT(isPlanned() || window_->recordingBar().failed(), patienceMs);
        QVERIFY2(isPlanned(), qPrintable(window_->recordingBar().message()));
    }
    void cleanup()
    {
        window_.reset();
        settings_.reset();
        folder_.reset();
    }

    void planKeepsItsWord()
    {
        VerifyRow& row = *window_->page().inspector()->verifyRow();
        QTRY_VERIFY(row.button()->isEnabled());
        QTest::mouseClick(row.button(), Qt::LeftButton);
        QTRY_VERIFY_WITH_TIMEOUT(row.verdict() != VerifyRow::Verdict::none, patienceMs);
        QVERIFY2(row.verdict() == VerifyRow::Verdict::kept, qPrintable(row.text()));
    }

    void planOfOpsKeepsItsWord()
    {
        window_->session().setMode(PlanMode::ops);
        QTRY_VERIFY_WITH_TIMEOUT(
            window_->session().opsFrontier() && window_->session().opsFrontier()->complete && isPlanned(), patienceMs);
        const std::vector<OpsPlan>& plans = window_->session().opsFrontier()->plans;
        VerifyRow& row = *window_->page().inspector()->verifyRow();
        for (const std::size_t index : {std::size_t{0}, plans.size() / 2}) {
            window_->session().commitBudget(plans[index].peak);
            QTRY_VERIFY(isPlanned() && row.button()->isEnabled());
            QCOMPARE(row.text(), QString());
            QTest::mouseClick(row.button(), Qt::LeftButton);
            QTRY_VERIFY_WITH_TIMEOUT(row.verdict() != VerifyRow::Verdict::none, patienceMs);
            QVERIFY2(row.verdict() == VerifyRow::Verdict::kept, qPrintable(row.text()));
            QVERIFY2(row.text().contains(bytesText(plans[index].peak, 2)), qPrintable(row.text()));
            QVERIFY2(row.text().contains(bytesText(plans[index].savedBytes, 2)), qPrintable(row.text()));
        }
    }

    void anotherBatchIsRecorded()
    {
        const Bytes before = window_->session().recordedPeak();
        SizeFields& fields = *window_->page().header()->sizes();
        fields.field(QStringLiteral("batch"))->setValue(8);
        QTRY_VERIFY_WITH_TIMEOUT(window_->session().step()->trace().info.batch == 8 && isPlanned(), patienceMs);
        QVERIFY(window_->session().recordedPeak() > before);
        QCOMPARE(window_->session().step()->trace().info.sequence, std::int64_t{64});
        fields.field(QStringLiteral("sequence"))->setValue(32);
        QTRY_VERIFY_WITH_TIMEOUT(window_->session().step()->trace().info.sequence == 32 && isPlanned(), patienceMs);
        QCOMPARE(window_->session().step()->trace().info.batch, std::int64_t{8});
        window_->session().undoStack().undo();
        window_->session().undoStack().undo();
        QCOMPARE(window_->session().recordedPeak(), before);
        QTRY_VERIFY(isPlanned());
    }

    void sizesThatFitAreRecorded()
    {
        qputenv("XDG_CACHE_HOME", folder_->path().toUtf8());
        FitPage& fit = *window_->page().fit();
        QCOMPARE(fit.panel()->sequence(), QStringLiteral("64"));
        fit.panel()->setCards({{"rtx-4060-8gb", {}, true}, {"t4-16gb", {}, true}});
        fit.panel()->setBatch(QStringLiteral("2,16"), QStringLiteral("1.."));
        fit.start();
        QTRY_VERIFY_WITH_TIMEOUT(!fit.running(), patienceMs);
        const FitResult result = fit.exported().result;
        QCOMPARE(result.series.size(), std::size_t{2});
        QCOMPARE(result.series.back().rows.size(), std::size_t{2});
        for (const FitRow& row : result.series.back().rows)
            QVERIFY2(row.plain.runs() && row.plain.samplesPerSecond > 0, row.failure.c_str());
        fit.open(1, 1);
        QTRY_VERIFY_WITH_TIMEOUT(window_->session().step()->trace().info.batch == 16 && isPlanned(), patienceMs);
        QCOMPARE(window_->session().cardChoice().card, std::string("t4-16gb"));
        QCOMPARE(window_->session().step()->trace().info.gpu, std::string("t4-16gb"));
        QCOMPARE(fit.exported().result.series.size(), std::size_t{2}); // the step is of the same program
        while (window_->session().undoStack().canUndo())
            window_->session().undoStack().undo();
        QCOMPARE(window_->session().step()->trace().info.batch, std::int64_t{4});
        QCOMPARE(fit.exported().result.series.size(), std::size_t{2});
    }

private:
    static constexpr int patienceMs = 60'000;

    bool isPlanned() { return window_->session().isOpen() && window_->session().answerIsCurrent(); }

    std::unique_ptr<QTemporaryDir> folder_;
    std::unique_ptr<Settings> settings_;
    std::unique_ptr<MainWindow> window_;
};

QTEST_MAIN(WindowRecorderTest)
#include "window_recorder_test.moc"
