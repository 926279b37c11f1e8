// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/actions.h"
#include "app/window/document_page.h"
#include "app/window/mainwindow.h"
#include "app/window/measured_controller.h"
#include "app/window/open_step.h"
#include "app/window/settings.h"
#include "app/window/snapshot_dialog.h"
#include "core/cost/calibration.h"
#include "core/predict/predict.h"
#include "core/trace/step_file.h"
#include "tests/core/measured_step.h"
#include "tests/core/synthetic_step.h"
#include "tests/views/tab_order.h"
#include "views/models/module_tree_model.h"
#include "views/models/ops_model.h"
#include "views/plot/timeline_canvas.h"
#include "views/plot/timeline_view.h"
#include "views/widgets/lower_panel.h"
#include "views/widgets/message_bar.h"
#include "views/widgets/module_panel.h"
#include "views/widgets/peak_panel.h"

#include <QAbstractItemModelTester>
#include <QAction>
#include <QDoubleSpinBox>
#include <QDropEvent>
#include <QLabel>
#include <QMimeData>
#include <QPushButton>
#include <QSignalSpy>
#include <QSortFilterProxyModel>
#include <QTemporaryDir>
#include <QTest>
#include <QToolButton>
#include <QTreeView>
#include <QTreeWidget>

#include <algorithm>
#include <memory>

using namespace headroom;

/// The window with a measured step beside the open one, with times of a calibration, and on a part of a snapshot.
class WindowMeasuredTest : public QObject
{
    Q_OBJECT

    void openAndWait(const QString& path)
    {
        window_->openFile(path);
        QTRY_VERIFY(window_->session().isOpen() && window_->session().answerIsCurrent()
                    && window_->session().step()->path == path);
    }
    void compareAndWait()
    {
        window_->compareWith(measured_);
        QTRY_VERIFY(window_->session().comparison());
    }
    QString write(const QString& name, const StepTrace& step)
    {
        const QString path = folder_->filePath(name);
        if (!writeStepTrace(step, path.toStdString()))
            qFatal("%s cannot be written", qPrintable(path));
        return path;
    }
    template <class Widget>
    Widget* child(const char* name)
    {
        return window_->findChild<Widget*>(QString::fromLatin1(name));
    }
    QString label(const char* name) { return child<QLabel>(name)->text(); }
    QTreeView* tree() { return window_->page().modules()->tree(); }
    TimelineCanvas* canvas() { return window_->page().timeline()->findChild<TimelineCanvas*>(); }

    /// Drops a file on the window, as from a file manager.
    void drop(const QString& path)
    {
        QMimeData data;
        data.setUrls({QUrl::fromLocalFile(path)});
        QDragEnterEvent enter(QPoint(400, 300), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
        QApplication::sendEvent(window_.get(), &enter);
        QVERIFY(enter.isAccepted());
        QDropEvent event(QPointF(400, 300), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
        QApplication::sendEvent(window_.get(), &event);
    }

private Q_SLOTS:
    void init()
    {
        folder_ = std::make_unique<QTemporaryDir>();
        qputenv("HEADROOM_CALIBRATION_DIR", folder_->filePath(QStringLiteral("calibration")).toUtf8());
        StepTrace simulated = *makeSyntheticStep({.blocks = 4, .activation = 64 * MiB, .weight = 8 * MiB});
        simulated.info.gpu = "a100-80gb";
        simulated_ = std::make_shared<const StepTrace>(simulated);
        step_ = write(QStringLiteral("step.hrs"), simulated);
        // Twice the prediction, but one op in five is another one there.
        run_ = makeMeasuredStep(
            simulated_, "cuda:0", [&](OpId op) { return 2 * simulated_->ops.ms[op]; },
            [](OpId op) { return op.value % 5 == 4; });
        measured_ = write(QStringLiteral("run.hrs"), *run_);
        settings_ = std::make_unique<Settings>(folder_->filePath(QStringLiteral("settings.ini")));
        settings_->setTheme(ThemeChoice::light);
        window_ = std::make_unique<MainWindow>(MainWindow::Parts{makePlannerEngine, QString(), folder_->path()},
                                               *settings_);
        window_->askBeforeClosing(false);
        window_->show();
        QVERIFY(QTest::qWaitForWindowExposed(window_.get()));
    }
    void cleanup()
    {
        window_.reset();
        settings_.reset();
        qunsetenv("HEADROOM_CALIBRATION_DIR");
    }

    /// Dropped, opened and named on the command line alike; without an open step it is opened itself.
    void aProfilersTraceLiesOverThePrediction()
    {
        const QString profiles = QStringLiteral(HEADROOM_TEST_DATA "/profiles/");
        const QString trace = profiles + QStringLiteral("mlp_gpu.json.gz");
        openAndWait(profiles + QStringLiteral("mlp.hrs"));
        drop(trace);
        QTRY_VERIFY(window_->session().comparison());
        const StepComparisonPtr dropped = window_->session().comparison();
        QVERIFY(dropped->pairs + 1 >= dropped->measuredOp.size());
        QVERIFY(dropped->hasMemory);
        QCOMPARE(window_->session().comparedFile(), trace);
        QVERIFY(!tree()->isColumnHidden(ModuleTreeModel::measuredColumn));
        window_->actions().stopComparing->trigger();
        QTRY_VERIFY(!window_->session().comparison());
        window_->openFile(trace);
        QTRY_VERIFY(window_->session().comparison());
        QCOMPARE(window_->session().step()->path, profiles + QStringLiteral("mlp.hrs"));
        openAndWait(step_);
        QSignalSpy failed(&window_->measuredController(), &MeasuredController::failed);
        drop(profiles + QStringLiteral("linear_mi250_torch25.json.gz"));
        QTRY_COMPARE(failed.count(), 1);
        QVERIFY(failed.first().first().toString().contains(QStringLiteral("another model")));
    }

    void theMeasuredStepLiesOverThePrediction()
    {
        openAndWait(step_);
        QVERIFY(child<QWidget>("comparisonTitle")->isHidden() || !child<QWidget>("comparisonTitle")->isVisible());
        QVERIFY(tree()->isColumnHidden(ModuleTreeModel::measuredColumn));
        compareAndWait();
        const StepComparison& comparison = *window_->session().comparison();
        QVERIFY(child<QWidget>("comparisonTitle")->isVisible());
        QCOMPARE(label("comparisonTitle"), QStringLiteral("run.hrs, measured on cuda:0"));
        QVERIFY2(label("comparisonAxis").startsWith(QStringLiteral("Time is predicted time: ")),
                 qPrintable(label("comparisonAxis")));
        QVERIFY2(label("comparisonPeak").endsWith(QStringLiteral("+0.0 %")), qPrintable(label("comparisonPeak")));
        QVERIFY2(label("comparisonTimes").endsWith(QStringLiteral("+100 %")), qPrintable(label("comparisonTimes")));
        QTRY_VERIFY(window_->page().timeline()->upToDate());
        const QString words = canvas()->accessibleDescription();
        QVERIFY2(words.contains(QStringLiteral("Measured: peak")) && words.contains(QStringLiteral("Predicted: peak")),
                 qPrintable(words));
        QCOMPARE(comparison.aligned->durationMs, window_->session().step()->engine->recorded()->durationMs);

        window_->actions().stopComparing->trigger();
        QVERIFY(!window_->session().comparison());
        QVERIFY(!child<QWidget>("comparisonTitle")->isVisible());
        QVERIFY(tree()->isColumnHidden(ModuleTreeModel::measuredColumn));
        QVERIFY(!tree()->isColumnHidden(ModuleTreeModel::recomputeColumn));
        QTRY_VERIFY(window_->page().timeline()->upToDate());
        QVERIFY(canvas()->accessibleDescription().contains(QStringLiteral("Recorded: peak")));
    }

    void modulesAndOpsHaveTheirMeasuredTimes()
    {
        openAndWait(step_);
        compareAndWait();
        auto* modules = tree()->model();
        QAbstractItemModelTester tester(modules, QAbstractItemModelTester::FailureReportingMode::QtTest);
        const auto measured
            = [&](int column) { return modules->index(0, column).data(ModuleTreeModel::SortRole).toDouble(); };
        const auto first = ModuleId(modules->index(0, 0).data(ModuleTreeModel::ModuleRole).toUInt());
        const StepComparison::ModuleTimes& times = window_->session().comparison()->modules[first.value];
        QVERIFY(times.measured);
        QCOMPARE(measured(ModuleTreeModel::measuredColumn), times.measuredMs);
        QCOMPARE(modules->index(0, ModuleTreeModel::ratioColumn).data().toString(), QStringLiteral("2.00"));
        QVERIFY(!tree()->isColumnHidden(ModuleTreeModel::measuredColumn));
        QVERIFY(tree()->isColumnHidden(ModuleTreeModel::recomputeColumn));

        window_->session().select({});
        window_->actions().showOps->trigger();
        QTreeView* table = window_->page().lowerPanel()->ops();
        QVERIFY(!table->isColumnHidden(OpsModel::measuredColumn));
        QAbstractItemModelTester opsTester(table->model(), QAbstractItemModelTester::FailureReportingMode::QtTest);
        table->sortByColumn(OpsModel::numberColumn, Qt::AscendingOrder);
        int paired = 0;
        for (int row = 0; row < table->model()->rowCount(); ++row) {
            const QString ms = table->model()->index(row, OpsModel::measuredColumn).data().toString();
            const OpId op(static_cast<std::uint32_t>(row));
            const double wanted = window_->session().comparison()->measuredMsOf(op);
            QCOMPARE(ms == QStringLiteral("–"), wanted < 0);
            if (wanted >= 0)
                QCOMPARE(ms, QLocale::c().toString(wanted, 'f', 3));
            if (wanted >= 0 && wanted == 2 * simulated_->ops.ms[op] && wanted > 0)
                QCOMPARE(table->model()->index(row, OpsModel::ratioColumn).data().toString(), QStringLiteral("2.00"));
            paired += ms != QStringLiteral("–") ? 1 : 0;
        }
        QCOMPARE(static_cast<std::size_t>(paired), window_->session().comparison()->pairs);
        table->sortByColumn(OpsModel::measuredColumn, Qt::DescendingOrder);
        double before = 1e9;
        for (int row = 0; row < paired; ++row) {
            const double ms = table->model()->index(row, OpsModel::measuredColumn).data().toString().toDouble();
            QVERIFY(ms <= before);
            before = ms;
        }
        window_->actions().stopComparing->trigger();
        QVERIFY(table->isColumnHidden(OpsModel::measuredColumn));
    }

    void theBlocksOfAnInstantAreThoseOfThePrediction()
    {
        openAndWait(step_);
        compareAndWait();
        QTRY_VERIFY(window_->page().timeline()->upToDate());
        QSignalSpy listed(&window_->jobs(), &Jobs::liveMemoryListed);
        canvas()->setFocus();
        QTest::keyClick(canvas(), Qt::Key_Space);
        QTRY_VERIFY(listed.count() > 0);
        const auto memory = listed.last().first().value<LiveBlocksAtPtr>();
        QCOMPARE(memory->request.timeline, window_->session().step()->engine->recorded());
    }

    void ADroppedMeasuredStepIsCompared()
    {
        openAndWait(step_);
        drop(measured_);
        QTRY_VERIFY(window_->session().comparison());
        QCOMPARE(window_->session().step()->path, step_);
        QVERIFY(window_->messages().message().contains(QStringLiteral("run.hrs was measured")));
        QTest::mouseClick(window_->messages().actionButton(), Qt::LeftButton);
        QTRY_COMPARE(window_->session().step()->path, measured_);
        QVERIFY(!window_->session().comparison());
    }

    void ADroppedSimulatedStepOpens()
    {
        openAndWait(step_);
        const QString other = write(QStringLiteral("other.hrs"), *simulated_);
        drop(other);
        QTRY_COMPARE(window_->session().step()->path, other);
    }

    /// The file before is read meanwhile, and is slower than the one that is dropped.
    void AFileDroppedWhileAnotherOneOpensIsNotLost_data()
    {
        QTest::addColumn<bool>("measured");
        QTest::addColumn<bool>("later");
        QTest::newRow("simulated, at once") << false << false;
        QTest::newRow("measured, at once") << true << false;
        QTest::newRow("simulated, while the modules are measured") << false << true;
        QTest::newRow("measured, while the modules are measured") << true << true;
    }
    void AFileDroppedWhileAnotherOneOpensIsNotLost()
    {
        QFETCH(const bool, measured);
        QFETCH(const bool, later);
        openAndWait(step_);
        const QString between = write(QStringLiteral("between.hrs"), *simulated_);
        const QString dropped = measured ? measured_ : write(QStringLiteral("dropped.hrs"), *simulated_);
        if (later)
            connect(&window_->jobs(), &Jobs::openProgressed, this,
                    [&, said = false](const QString& path, const QString& stage) mutable {
                        if (path == between && stage == QStringLiteral("Measuring modules")
                            && !std::exchange(said, true))
                            drop(dropped);
                    });
        window_->openFile(between);
        if (!later)
            drop(dropped);
        if (measured) {
            QTRY_VERIFY(window_->session().comparison() && window_->session().step()->path == between);
            QCOMPARE(window_->session().comparedFile(), measured_);
        } else {
            QTRY_COMPARE(window_->session().step()->path, dropped);
        }
        disconnect(&window_->jobs(), nullptr, this, nullptr);
        QTest::qWait(100);
        QCOMPARE(window_->session().step()->path, measured ? between : dropped);
    }

    void AChangedMeasuredFileIsSaidAndComparedAgain_data()
    {
        QTest::addColumn<QString>("file");
        QTest::newRow("a step") << QStringLiteral("measured.hrs");
        QTest::newRow("a memory snapshot") << QStringLiteral("snapshot.pickle");
    }
    void AChangedMeasuredFileIsSaidAndComparedAgain()
    {
        QFETCH(const QString, file);
        const bool isStep = file.endsWith(QStringLiteral(".hrs"));
        const QString path = folder_->filePath(file);
        const QString snapshots = QStringLiteral(HEADROOM_TEST_DATA "/snapshots/");
        const auto put = [&](const QString& source) {
            QFile from(source);
            QFile to(path);
            QVERIFY(from.open(QIODevice::ReadOnly) && to.open(QIODevice::WriteOnly | QIODevice::Truncate));
            to.write(from.readAll());
        };
        put(isStep ? measured_ : snapshots + QStringLiteral("protocol4.pickle"));
        openAndWait(step_);
        window_->compareWith(path);
        QTRY_VERIFY(window_->session().comparison());
        const StepComparisonPtr before = window_->session().comparison();
        QTest::qWait(600);
        QCOMPARE(window_->messages().type(), MessageBar::MessageType::none);

        const StepTracePtr slower = makeMeasuredStep(
            simulated_, "cuda:1", [&](OpId op) { return 3 * simulated_->ops.ms[op]; }, [](OpId) { return false; });
        put(isStep ? write(QStringLiteral("slower.hrs"), *slower) : snapshots + QStringLiteral("full.pickle"));
        QTRY_COMPARE(window_->messages().type(), MessageBar::MessageType::note);
        QVERIFY2(window_->messages().message().startsWith(file + QStringLiteral(" has changed since")),
                 qPrintable(window_->messages().message()));
        QCOMPARE(window_->session().comparison(), before);
        window_->messages().actionButton()->click();
        QTRY_VERIFY(window_->session().comparison() && window_->session().comparison() != before);
        QCOMPARE(window_->session().step()->path, step_);
        QCOMPARE(window_->session().comparedFile(), path);
        QVERIFY(window_->session().comparison()->measured->info.device != before->measured->info.device || !isStep);

        QVERIFY(QFile::remove(path));
        QTRY_VERIFY(window_->messages().message().startsWith(file + QStringLiteral(" was deleted, moved or renamed")));
        QVERIFY(window_->session().comparison());
    }

    /// The measured step is the open one.
    void AChangedMeasuredFileThatIsOpenIsSaid()
    {
        openAndWait(measured_);
        write(
            QStringLiteral("run.hrs"),
            *makeMeasuredStep(
                simulated_, "cuda:1", [&](OpId op) { return 3 * simulated_->ops.ms[op]; }, [](OpId) { return false; }));
        QTRY_COMPARE(window_->messages().type(), MessageBar::MessageType::note);
        window_->messages().actionButton()->click();
        QTRY_COMPARE(window_->session().step()->trace().info.device, std::string("cuda:1"));
    }

    void AFileOpenedAfterADropWins()
    {
        openAndWait(step_);
        const QString dropped = write(QStringLiteral("dropped.hrs"), *simulated_);
        const QString last = write(QStringLiteral("last.hrs"), *makeSyntheticStep({.blocks = 400})); // read longer
        drop(dropped);
        window_->openFile(last);
        QTRY_COMPARE(window_->session().step()->path, last);
        QTest::qWait(100);
        QCOMPARE(window_->session().step()->path, last);
    }

    void AComparisonAskedForWhileAnotherStepOpensIsWithThatStep()
    {
        openAndWait(measured_);
        window_->openFile(step_);
        window_->compareWith(measured_);
        QTRY_COMPARE(window_->session().step()->path, step_);
        QTRY_VERIFY(window_->session().comparison());
    }

    void AComparisonEndsWithTheOpeningThatIsCancelled()
    {
        window_->compareWith(measured_);
        int cancelled = 0;
        const auto cancelling = connect(&window_->jobs(), &Jobs::openProgressed, this, [&] {
            QCOMPARE(window_->messages().type(), MessageBar::MessageType::progress);
            window_->messages().actionButton()->click();
            ++cancelled;
        });
        window_->openFile(step_);
        QTRY_COMPARE(cancelled, 1);
        disconnect(cancelling);
        QVERIFY(!window_->session().isOpen());
        openAndWait(step_);
        QTest::qWait(100);
        QVERIFY(!window_->session().comparison());
    }

    void TwoSimulatedStepsHaveTheirPeaksBesideEachOther()
    {
        openAndWait(step_);
        const QString other = write(QStringLiteral("other.hrs"),
                                    *makeSyntheticStep({.blocks = 6, .activation = 64 * MiB, .weight = 8 * MiB}));
        window_->compareWith(other);
        QTRY_VERIFY(window_->session().peaks());
        QVERIFY(!window_->session().comparison());
        QCOMPARE(label("comparisonTitle"), QStringLiteral("other.hrs beside step.hrs"));
        QVERIFY(child<QWidget>("comparisonTitle")->isVisible());
        QCOMPARE(window_->page().lowerPanel()->page(), LowerPanel::Page::peaks);
        auto* panel = window_->findChild<PeakPanel*>();
        QVERIFY(panel->table()->isVisibleTo(panel));
        const PeakTables& peaks = *window_->session().peaks();
        QVERIFY2(panel->text().startsWith(QString::fromStdString(
                     "other.hrs peaks " + exactBytes(peaks.peakB - peaks.peakA) + " above step.hrs.")),
                 qPrintable(panel->text()));
        QAbstractItemModel* table = panel->table()->model();
        QAbstractItemModelTester tester(table, QAbstractItemModelTester::FailureReportingMode::QtTest);
        for (const auto shown : {PeakModel::Shown::modules, PeakModel::Shown::lines, PeakModel::Shown::categories}) {
            panel->show(shown);
            Bytes a = 0;
            Bytes b = 0;
            for (int row = 0; row < table->rowCount(); ++row) {
                a += table->index(row, PeakModel::aColumn).data(PeakModel::SortRole).toLongLong();
                b += table->index(row, PeakModel::bColumn).data(PeakModel::SortRole).toLongLong();
            }
            QCOMPARE(a, peaks.peakA);
            QCOMPARE(b, peaks.peakB);
            panel->table()->sortByColumn(PeakModel::nameColumn, Qt::AscendingOrder);
            panel->table()->sortByColumn(PeakModel::differenceColumn, Qt::DescendingOrder);
        }
        panel->show(PeakModel::Shown::ops);
        QCOMPARE(static_cast<std::size_t>(table->rowCount()), peaks.ops.changes.size());
        QVERIFY(table->rowCount() > 0);
        window_->actions().stopComparing->trigger();
        QVERIFY(!window_->session().peaks());
        QCOMPARE(table->rowCount(), 0);
        QVERIFY2(!panel->table()->isVisibleTo(panel), "nothing is compared: a sentence, without an empty table");
        QVERIFY(!child<QWidget>("comparisonTitle")->isVisible());
    }

    /// Any two files: the open one may be measured, and the other a snapshot or a trace.
    void AnyOpenStepIsCompared()
    {
        openAndWait(measured_);
        for (const QString& other : {step_, QStringLiteral(HEADROOM_TEST_DATA "/snapshots/protocol4.pickle"),
                                     QStringLiteral(HEADROOM_TEST_DATA "/profiles/mlp_gpu.json.gz")}) {
            window_->compareWith(other);
            QTRY_COMPARE(window_->session().comparedFile(), other);
            QVERIFY(window_->session().peaks());
            QVERIFY(!window_->session().comparison());
            QTRY_VERIFY(window_->page().timeline()->upToDate());
            const QString words = canvas()->accessibleDescription();
            QVERIFY2(words.contains(QStringLiteral("Compared step: peak"))
                         && words.contains(QStringLiteral("This step: peak")),
                     qPrintable(words));
            QCOMPARE(window_->session().beside()->durationMs,
                     window_->session().step()->engine->recorded()->durationMs);
            QCOMPARE(window_->session().beside()->peak, window_->session().peaks()->peakB);
        }
        window_->actions().stopComparing->trigger();
        QTRY_VERIFY(window_->page().timeline()->upToDate());
        QVERIFY(!canvas()->accessibleDescription().contains(QStringLiteral("Compared step")));
    }

    void WhatCannotBeComparedIsASentence()
    {
        openAndWait(measured_);
        QCOMPARE(window_->session().budget(), window_->session().recordedPeak());
        window_->compareWith(QStringLiteral(HEADROOM_TEST_DATA "/profiles/alexnet_a100_torch21.json.gz"));
        QTRY_VERIFY(window_->messages().message().contains(QStringLiteral("has no memory")));
        QVERIFY(!window_->session().isComparing());
    }

    void TheStepOfTheCommandLineIsComparedOnceItIsOpen()
    {
        window_->compareWith(measured_);
        openAndWait(step_);
        QTRY_VERIFY(window_->session().comparison());
    }

    void ASnapshotIsAlignedByItsPhases()
    {
        openAndWait(step_);
        window_->compareWith(QStringLiteral(HEADROOM_TEST_DATA "/snapshots/protocol4.pickle"));
        QTRY_VERIFY(window_->session().comparison());
        QVERIFY(label("comparisonAxis").startsWith(QStringLiteral("A memory snapshot has no ops")));
        QVERIFY(label("comparisonTimes").endsWith(QStringLiteral("not measured")));
        QVERIFY(tree()->isColumnHidden(ModuleTreeModel::measuredColumn));
        QTRY_VERIFY(window_->page().timeline()->upToDate());
        // By module too: the groups are those of the open step.
        window_->actions().stackByModule->trigger();
        QTRY_VERIFY(window_->page().timeline()->upToDate());
    }

    void TimesOfACalibrationAreShownAndCanBeTurnedOff()
    {
        openAndWait(step_);
        auto* note = child<QToolButton>("stepTimes");
        const QString model = QStringLiteral("Roofline");
        const QString measured = QStringLiteral("Calibrated");
        QCOMPARE(note->text(), model);
        QVERIFY(!window_->actions().calibratedTimes->isEnabled());
        const double roofline = window_->session().step()->engine->recorded()->durationMs;

        const Result<Calibration> learned = calibrate(*run_, "run.hrs");
        QVERIFY2(learned.ok(), learned.ok() ? "" : learned.error().message.c_str());
        QVERIFY(addToCalibration(*learned, calibrationFile("a100-80gb")).ok());
        const double calibratedMs = predict(*calibrated(simulated_, *learned), {})->durationMs;
        window_->closeStep();
        openAndWait(step_);
        QCOMPARE(note->text(), measured);
        QVERIFY(window_->actions().calibratedTimes->isChecked());
        QCOMPARE(window_->session().step()->engine->recorded()->durationMs, calibratedMs);
        QVERIFY(calibratedMs != roofline);

        const Bytes budget = window_->session().budget();
        window_->actions().calibratedTimes->trigger();
        QTRY_COMPARE(note->text(), model);
        QCOMPARE(window_->session().step()->engine->recorded()->durationMs, roofline);
        QCOMPARE(window_->session().budget(), budget);
        QVERIFY(!window_->actions().calibratedTimes->isChecked());
        window_->session().undoStack().undo();
        QCOMPARE(note->text(), measured);
        QCOMPARE(window_->session().step()->engine->recorded()->durationMs, calibratedMs);
        // What is compared stays, against the other times.
        compareAndWait();
        const double before = window_->session().comparison()->predictedMs;
        window_->actions().calibratedTimes->trigger();
        QTRY_VERIFY(window_->session().comparison() && window_->session().comparison()->predictedMs != before);
    }

    void ASnapshotOfSeveralDevicesAsksWhichPart()
    {
        const QString path = QStringLiteral(HEADROOM_TEST_DATA "/snapshots/two_devices.pickle");
        window_->openFile(path);
        QTRY_VERIFY(window_->findChild<SnapshotDialog*>());
        auto* dialog = window_->findChild<SnapshotDialog*>();
        auto* devices = dialog->findChild<QTreeWidget*>(QStringLiteral("snapshotDevices"));
        QCOMPARE(devices->topLevelItemCount(), 2);
        QCOMPARE(dialog->part().device, std::optional<std::size_t>(0));
        devices->setCurrentItem(devices->topLevelItem(1));
        auto* from = dialog->findChild<QDoubleSpinBox*>(QStringLiteral("rangeFrom"));
        auto* to = dialog->findChild<QDoubleSpinBox*>(QStringLiteral("rangeTo"));
        const auto openButton = [&] {
            const auto buttons = dialog->findChildren<QPushButton*>();
            return *std::ranges::find_if(buttons,
                                         [](const QPushButton* b) { return b->text() == QStringLiteral("Open"); });
        };
        to->setValue(from->value());
        QVERIFY(!openButton()->isEnabled());
        to->setValue((from->minimum() + to->maximum()) / 2);
        QVERIFY(openButton()->isEnabled());
        const QString fault = tabOrderFault(*dialog);
        QVERIFY2(fault.isEmpty(), qPrintable(fault));
        const ImportRequest part = dialog->part();
        const Result<ImportedSnapshot> expected = importSnapshot(path.toStdString(), part);
        QVERIFY(expected.ok());
        QTest::mouseClick(openButton(), Qt::LeftButton);
        QTRY_VERIFY(window_->session().isOpen());
        QCOMPARE(window_->session().step()->trace().info.device, std::string("cuda:1"));
        QCOMPARE(window_->session().step()->engine->recorded()->durationMs, predict(*expected->step, {})->durationMs);
    }

    void ADialogThatIsCancelledOpensNothing()
    {
        window_->openFile(QStringLiteral(HEADROOM_TEST_DATA "/snapshots/two_devices.pickle"));
        QTRY_VERIFY(window_->findChild<SnapshotDialog*>());
        QTest::keyClick(window_->findChild<SnapshotDialog*>(), Qt::Key_Escape);
        QTRY_VERIFY(!window_->findChild<SnapshotDialog*>());
        QVERIFY(!window_->session().isOpen());
        QCOMPARE(window_->messages().type(), MessageBar::MessageType::none);
    }

    void APartOfTheCommandLineIsNotAskedFor()
    {
        window_->usePart(ImportRequest{{}, 1});
        window_->openFile(QStringLiteral(HEADROOM_TEST_DATA "/snapshots/two_devices.pickle"));
        QTRY_VERIFY(window_->session().isOpen());
        QVERIFY(!window_->findChild<SnapshotDialog*>());
        QCOMPARE(window_->session().step()->trace().info.device, std::string("cuda:1"));
    }

    void WhereMemoryRanOutIsMarkedAndExplained()
    {
        window_->openFile(QStringLiteral(HEADROOM_TEST_DATA "/snapshots/full.pickle"));
        QTRY_VERIFY(window_->session().isOpen());
        QVERIFY2(window_->messages().message().contains(QStringLiteral("asked for 1.17 GiB")),
                 qPrintable(window_->messages().message()));
        const auto& failures = canvas()->failures().failures();
        QCOMPARE(failures.size(), std::size_t(1));
        QCOMPARE(failures.front().label, QStringLiteral("Out of memory: asked for 1.17 GiB, 182.00 MiB left"));
        QVERIFY(canvas()->accessibleDescription().contains(QStringLiteral("Out of memory at")));
    }

    void MemoryThatIsNotPyTorchsIsABandOfItsOwn()
    {
        const QString path = write(QStringLiteral("context.hrs"), *makeStepBesideOthers());
        window_->openFile(path);
        QTRY_VERIFY(window_->session().isOpen());
        QTRY_VERIFY(window_->page().timeline()->upToDate());
        QAbstractItemModel* table = window_->page().timeline()->table();
        QStringList headings;
        for (int column = 0; column < table->columnCount(); ++column)
            headings << table->headerData(column, Qt::Horizontal).toString();
        QVERIFY2(headings.filter(QStringLiteral("PyTorch")).size() == 1, qPrintable(headings.join(QLatin1Char(','))));
    }

private:
    std::unique_ptr<QTemporaryDir> folder_;
    std::unique_ptr<Settings> settings_;
    std::unique_ptr<MainWindow> window_;
    StepTracePtr simulated_;
    StepTracePtr run_;
    QString step_;
    QString measured_;
};

QTEST_MAIN(WindowMeasuredTest)
#include "window_measured_test.moc"
