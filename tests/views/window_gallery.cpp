// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Renders the whole window, light and dark and at several sizes, as PNG files to look at: start page, a plan, a budget
// that nothing fits, pins, tables. Usage: window_gallery FOLDER [STEP.hrs [fit|range|offload|help|peaks]]
// (QT_QPA_PLATFORM=offscreen). With an empty name of a step file a synthetic step is planned block by block. The last
// argument draws only the page Fit, a selected range, plans with offload of a step with shapes, what would help, or
// another step beside the open one and the live blocks as an icicle.

#include "app/recording/record_dialog.h"
#include "app/recording/recording_bar.h"
#include "app/window/actions.h"
#include "app/window/document_page.h"
#include "app/window/fit_page.h"
#include "app/window/mainwindow.h"
#include "app/window/open_step.h"
#include "app/window/record_controller.h"
#include "app/window/snapshot_dialog.h"
#include "app/window/step_header.h"
#include "app/window/verify_controller.h"
#include "core/trace/step_file.h"
#include "tests/core/measured_step.h"
#include "tests/core/synthetic_step.h"
#include "tests/views/block_engine.h"
#include "tests/views/made_up.h"
#include "views/plot/timeline_view.h"
#include "views/widgets/inspector.h"
#include "views/widgets/inspector_parts.h"
#include "views/widgets/message_bar.h"
#include "views/widgets/module_panel.h"
#include "views/widgets/size_fields.h"

#include <QAction>
#include <QApplication>
#include <QDir>
#include <QEventLoop>
#include <QFile>
#include <QFileInfo>
#include <QLineEdit>
#include <QMenu>
#include <QTemporaryDir>
#include <QTimer>
#include <QToolButton>
#include <QTreeView>

using namespace headroom;

namespace {

void wait(int ms)
{
    QEventLoop loop;
    QTimer::singleShot(ms, Qt::PreciseTimer, &loop, &QEventLoop::quit);
    loop.exec();
}

void settle(MainWindow& window)
{
    for (int i = 0; i < 300 && !(window.session().answerIsCurrent() && window.session().frontier()); ++i)
        wait(20);
    wait(700);
}

class Gallery
{
public:
    Gallery(MainWindow& window, const QDir& folder)
        : window_(window)
        , folder_(folder)
    {
    }

    void save(const QString& name) { save(name, window_); }
    void save(const QString& name, QWidget& widget)
    {
        wait(300);
        widget.grab().save(folder_.filePath(name + QStringLiteral(".png")));
    }

    void bothThemes(const QString& name) { bothThemes(name, window_); }
    void bothThemes(const QString& name, QWidget& widget)
    {
        window_.theme().useOnce(ThemeChoice::light);
        save(name + QStringLiteral("-light"), widget);
        window_.theme().useOnce(ThemeChoice::dark);
        save(name + QStringLiteral("-dark"), widget);
        window_.theme().useOnce(ThemeChoice::light);
    }

private:
    MainWindow& window_;
    QDir folder_;
};

/// The dialogs for a model and for a script, right and wrong, and the bar while it records and after it failed.
void showRecording(MainWindow& window, Gallery& gallery)
{
    const QTemporaryDir place;
    for (const char* name : {"gpt2-small.pt2", "train.py"}) {
        const QString path = place.filePath(QString::fromLatin1(name));
        QFile(path).open(QIODevice::WriteOnly);
        window.openFile(path);
        RecordDialog& dialog = *window.recordController().dialog();
        wait(600); // for the answer of the Python
        gallery.bothThemes(QStringLiteral("sheet-") + QFileInfo(path).suffix(), dialog);
        for (QLineEdit* edit : dialog.findChildren<QLineEdit*>()) {
            if (edit->isEnabled() && edit->parentWidget()->parentWidget() != &dialog)
                edit->setText(QStringLiteral("'wrong"));
        }
        gallery.save(QStringLiteral("sheet-wrong-") + QFileInfo(path).suffix(), dialog);
        dialog.reject();
        wait(50);
    }
    RecordingBar& bar = window.recordingBar();
    bar.begin(QStringLiteral("train.py"), true);
    bar.setProgress(0.42, QStringLiteral("step 2, backward"));
    bar.addLines({QStringLiteral("loading tokens.bin: 338,025 tokens"), QStringLiteral("model: 124.4 M parameters"),
                  QStringLiteral("step 1: loss 0.0000, 1.2 s")});
    window.resize(1280, 800);
    gallery.bothThemes(QStringLiteral("recording"));
    bar.outputButton()->setChecked(true);
    gallery.bothThemes(QStringLiteral("recording-output"));
    bar.showFailure(
        QStringLiteral("train.py: RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x512 and 768x768)."),
        true);
    gallery.bothThemes(QStringLiteral("recording-failed"));
    bar.finish();
    window.resize(1600, 1000);
}

/// The slider's second mode: a plan of ops, its changed decisions in the table, a budget that none fits, and the
/// largest screen.
void showOpsPlans(MainWindow& window, Gallery& gallery)
{
    window.actions().planOps->trigger();
    settle(window);
    gallery.bothThemes(QStringLiteral("ops-plan"));
    window.page().lowerPanel()->showChanged();
    gallery.bothThemes(QStringLiteral("ops-flips"));
    window.resize(3840, 2160);
    gallery.save(QStringLiteral("ops-plan-4k"));
    window.resize(1280, 800);
    gallery.save(QStringLiteral("ops-plan-1280"));
    window.resize(1600, 1000);
    window.session().commitBudget(window.session().leastBudget() - 256 * MiB);
    settle(window);
    gallery.bothThemes(QStringLiteral("ops-infeasible"));
    window.actions().showTradeOff->trigger();
    window.actions().planModules->trigger();
    settle(window);
}

/// A measured step over the prediction, on small and large screens.
void showComparison(MainWindow& window, Gallery& gallery)
{
    const QTemporaryDir place;
    const QString path = place.filePath(QStringLiteral("run.hrs"));
    const StepTracePtr& step = window.session().step()->engine->trace();
    const StepTracePtr measured
        = makeMeasuredStep(step, "cuda:0", [&](OpId op) { return (1.2 + 0.1 * (op.value % 9)) * step->ops.ms[op]; });
    if (!writeStepTrace(*measured, path.toStdString()))
        return;
    window.compareWith(path);
    settle(window);
    window.page().modules()->tree()->expandToDepth(2);
    gallery.bothThemes(QStringLiteral("compare-1600"));
    window.resize(1280, 800);
    gallery.bothThemes(QStringLiteral("compare-1280"));
    window.resize(3840, 2160);
    gallery.save(QStringLiteral("compare-4k"));
    window.actions().stopComparing->trigger();
    window.resize(1600, 1000);
}

/// What fits: before a search, while it runs, with all sizes, cancelled, and failed.
void showFit(MainWindow& window, Gallery& gallery)
{
    window.actions().showFit->trigger();
    FitPanel& panel = *window.page().fit()->panel();
    FitResult all = madeUpFit();
    FitResult some = all;
    some.series.resize(1);
    some.series[0].rows.resize(6);
    some.series[0].largest = some.series[0].fastest = std::nullopt;
    const auto shown
        = [&](const FitResult& result) { panel.showResult(std::make_shared<const FitResult>(result), false); };
    const auto bothSizes = [&](const QString& name) {
        window.resize(1280, 800);
        gallery.bothThemes(QStringLiteral("fit-1280-") + name);
        window.resize(3840, 2160);
        gallery.bothThemes(QStringLiteral("fit-4k-") + name);
    };
    bothSizes(QStringLiteral("empty"));
    panel.setRunning(true);
    panel.showProgress(-1, QStringLiteral("0:03 so far: RTX 4090 (1 of 2), recording batch 2, 4"));
    bothSizes(QStringLiteral("begins"));
    shown(some);
    panel.showProgress(0.5,
                       QStringLiteral("0:12 so far, this recording about 0:07 more: RTX 4090 (1 of 2), recording batch "
                                      "23, 24, 1 of 2 done"));
    bothSizes(QStringLiteral("running"));
    panel.setEnding();
    panel.setRunning(false);
    panel.say(QStringLiteral("Cancelled after 0:14. The 6 sizes that are known stay."));
    bothSizes(QStringLiteral("cancelled"));
    shown(all);
    panel.say(QStringLiteral("RTX 4090: batch 23 runs, 38 with a plan; fastest 24: 56.7 samples/s. RTX 3090: batch 12 "
                             "runs, 20 with a plan; fastest 20: 35.1 samples/s."));
    bothSizes(QStringLiteral("results"));
    for (QToolButton* button : panel.findChildren<QToolButton*>())
        if (button->text() == QStringLiteral("Table"))
            button->click();
    panel.table()->setCurrentIndex(panel.table()->model()->index(6, 0));
    bothSizes(QStringLiteral("table"));
    panel.showResult(nullptr, false);
    panel.showProblem(QStringLiteral("Batch 2, 4 failed: train.py raised RuntimeError: mat1 and mat2 shapes cannot be "
                                     "multiplied (32x512 and 768x768)."));
    bothSizes(QStringLiteral("failed"));
    panel.say({});
    panel.setWhyNot(QStringLiteral("This step was measured: expected a step that was recorded on the simulated card."));
    bothSizes(QStringLiteral("whynot"));
    window.resize(1600, 1000);
    window.actions().showTradeOff->trigger();
}

/// What is asked of a memory snapshot of two GPUs, and what is shown of one.
void showSnapshot(MainWindow& window, Gallery& gallery)
{
    window.openFile(QStringLiteral(HEADROOM_TEST_DATA "/snapshots/two_devices.pickle"));
    wait(1000);
    if (auto* dialog = window.findChild<SnapshotDialog*>()) {
        gallery.bothThemes(QStringLiteral("sheet-snapshot"), *dialog);
        dialog->reject();
    }
}

/// The header of a step with remarks, and what its button opens.
void showRemarks(MainWindow& window, Gallery& gallery)
{
    const QTemporaryDir place;
    const QString path = place.filePath(QStringLiteral("remarks.hrs"));
    StepTrace step = window.session().step()->trace();
    step.info.remarks
        = {"xformers' attention ran as scaled_dot_product_attention: its workspace may be larger",
           "the card's free memory was read in Model.forward: with a plan the script may decide otherwise"};
    if (!writeStepTrace(step, path.toStdString()))
        return;
    window.openFile(path);
    settle(window);
    window.resize(1280, 800);
    gallery.bothThemes(QStringLiteral("remarks"));
    auto* popup = window.findChild<QMenu*>(QStringLiteral("remarksPopup"));
    popup->popup(window.mapToGlobal(QPoint(600, 60)));
    gallery.bothThemes(QStringLiteral("remarks-popup"), *popup);
    popup->close();
    window.resize(1600, 1000);
}

/// A range of the timeline, and the tables that the range filters.
void showRange(MainWindow& window, Gallery& gallery)
{
    const double end = window.session().shownTimeline()->durationMs;
    for (const QSize size : {QSize(1280, 800), QSize(1600, 1000), QSize(3840, 2160)}) {
        window.resize(size);
        const QString name = QStringLiteral("range-%1").arg(size.width());
        window.actions().showTradeOff->trigger();
        window.page().timeline()->selectRange(end * 0.22, end * 0.41);
        settle(window);
        gallery.bothThemes(name);
        window.actions().showOps->trigger();
        settle(window);
        gallery.bothThemes(name + QStringLiteral("-ops"));
        window.actions().showLiveBlocks->trigger();
        settle(window);
        gallery.bothThemes(name + QStringLiteral("-live"));
        window.page().timeline()->zoomToSelection();
        settle(window);
        gallery.bothThemes(name + QStringLiteral("-zoomed"));
        window.page().timeline()->zoomBack();
        window.page().timeline()->unpin();
    }
    window.resize(1600, 1000);
}

/// Another run beside the open step: with wider layers and one block less.
void showPeaks(MainWindow& window, Gallery& gallery)
{
    const QTemporaryDir place;
    const QString path = place.filePath(QStringLiteral("wider.hrs"));
    StepTrace wider = *makeSyntheticStep({.blocks = 23, .elementwise = 3, .activation = 120 * MiB, .weight = 12 * MiB});
    if (!writeStepTrace(wider, path.toStdString()))
        return;
    window.compareWith(path);
    for (int i = 0; i < 300 && !window.session().peaks(); ++i)
        wait(20);
    window.actions().showPeaks->trigger();
    for (const QSize size : {QSize(1280, 800), QSize(3840, 2160)}) {
        window.resize(size);
        settle(window);
        gallery.bothThemes(QStringLiteral("peaks-%1").arg(size.width()));
    }
    window.actions().stopComparing->trigger();
    window.actions().showLiveBlocks->trigger();
    window.findChild<QToolButton*>(QStringLiteral("showIcicle"))->setChecked(true);
    for (const QSize size : {QSize(1280, 800), QSize(3840, 2160)}) {
        window.resize(size);
        settle(window);
        gallery.bothThemes(QStringLiteral("icicle-%1").arg(size.width()));
    }
    window.resize(1600, 1000);
}

/// What would help the open step on a card that is too small.
void showChanges(MainWindow& window, Gallery& gallery)
{
    window.session().chooseCard("rtx-4060-8gb");
    window.actions().whatHelps->trigger();
    for (int i = 0; i < 3000 && window.page().fit()->running(); ++i)
        wait(20);
    for (const QSize size : {QSize(1280, 800), QSize(3840, 2160)}) {
        window.resize(size);
        gallery.bothThemes(QStringLiteral("help-%1").arg(size.width()));
    }
    window.resize(1280, 800);
    window.findChild<QToolButton*>(QStringLiteral("fitHelp"))->click();
    window.findChild<QToolButton*>(QStringLiteral("fitMore"))->setChecked(true);
    gallery.bothThemes(QStringLiteral("help-more"));
}

/// A plan with offload beside recomputation: the whole tree, what moves only, a pin, and a step without offload.
void showOffload(MainWindow& window, Gallery& gallery)
{
    Session& session = window.session();
    session.setOffload({true, 0});
    session.commitBudget(session.leastBudget() + (session.recordedPeak() - session.leastBudget()) / 10);
    const auto isReady = [&] {
        return session.answerIsCurrent() && !session.answer()->preliminary && session.frontierIsFinal()
            && session.recomputeFrontier();
    };
    for (int i = 0; i < 3000 && !isReady(); ++i)
        wait(20);
    if (!session.answer()->offloads.empty())
        session.select(session.answer()->offloads.front().module);
    for (const QSize size : {QSize(1280, 800), QSize(3840, 2160)}) {
        window.resize(size);
        gallery.bothThemes(QStringLiteral("offload-%1").arg(size.width()));
    }
    window.resize(1280, 800);
    window.page().modules()->markButton(PlanMark::offloaded)->click();
    gallery.bothThemes(QStringLiteral("offload-filtered"));
    window.page().modules()->markButton(PlanMark::offloaded)->click();
    window.actions().pinOffload->trigger();
    session.setOffload({true, 512 * MiB});
    settle(window);
    gallery.bothThemes(QStringLiteral("offload-pinned"));
    session.clearPins();
    session.setWorldSize(8);
    settle(window);
    gallery.save(QStringLiteral("offload-not-possible"));
}

void showAll(MainWindow& window, Gallery& gallery, const QString& file)
{
    window.resize(1600, 1000);
    window.show();
    gallery.bothThemes(QStringLiteral("start"));
    window.messages().showError(
        QStringLiteral("step.hrs: at offset 64 a section table of 21 entries was expected, the file ends at 80."));
    gallery.save(QStringLiteral("start-error"));
    window.messages().dismiss();
    showRecording(window, gallery);
    showSnapshot(window, gallery);

    window.openFile(file);
    settle(window);
    showFit(window, gallery);
    gallery.bothThemes(QStringLiteral("plan-1600"));
    for (const QSize size : {QSize(1280, 800), QSize(2560, 1440), QSize(1024, 700)}) {
        window.resize(size);
        wait(400);
        gallery.save(QStringLiteral("plan-%1").arg(size.width()));
    }
    SizeFields& sizes = *window.page().header()->sizes();
    VerifyRow& verify = *window.page().inspector()->verifyRow();
    window.resize(1280, 800);
    sizes.setRecording(0.4, QStringLiteral("batch 64"));
    verify.setProgress(0.6, QStringLiteral("policy"));
    gallery.save(QStringLiteral("other-size-recording"));
    sizes.setResult(QStringLiteral("peak 18.42 GiB, was 32.07 GiB"));
    VerifyResult kept;
    kept.agrees = kept.gradientsCompared = true;
    kept.executedPeak = kept.predictedPeak = 4 * GiB;
    kept.allocations = 12'345;
    kept.recomputeMs = 1.5;
    kept.parameters = 294;
    verify.setVerdict(VerifyRow::Verdict::kept, verdictText(kept));
    gallery.bothThemes(QStringLiteral("other-size"));
    sizes.setResult({});
    verify.setVerdict(VerifyRow::Verdict::none, {});
    window.resize(1600, 1000);
    showComparison(window, gallery);
    showPeaks(window, gallery);
    showOpsPlans(window, gallery);
    window.actions().pinKeep->trigger();
    window.actions().showLiveBlocks->trigger();
    settle(window);
    gallery.bothThemes(QStringLiteral("pinned-live"));
    window.actions().showOps->trigger();
    gallery.save(QStringLiteral("ops"));
    showRange(window, gallery);
    window.actions().showReserved->trigger();
    settle(window);
    gallery.bothThemes(QStringLiteral("reserved"));
    window.actions().showTradeOff->trigger();
    window.session().commitBudget(window.session().recordedPeak() / 5);
    settle(window);
    gallery.bothThemes(QStringLiteral("infeasible"));
    showRemarks(window, gallery);
}

} // namespace

int main(int argc, char** argv)
{
    QApplication application(argc, argv);
    const QStringList arguments = QApplication::arguments();
    if (arguments.size() < 2)
        return 2;
    const QDir folder(arguments[1]);
    folder.mkpath(QStringLiteral("."));
    QTemporaryDir place;
    QString file = arguments.value(2);
    if (file.isEmpty()) {
        file = place.filePath(QStringLiteral("step.hrs"));
        StepTrace step
            = *makeSyntheticStep({.blocks = 24, .elementwise = 3, .activation = 96 * MiB, .weight = 12 * MiB});
        step.info.arguments = {"demo:synthetic"};
        step.info.dimensions = {{"batch", 8, 1, 4096}, {"sequence", 1024, 1, 0}};
        if (!writeStepTrace(step, file.toStdString()))
            return 1;
    }
    Settings settings(place.filePath(QStringLiteral("settings.ini")));
    MainWindow window({[](StepTracePtr trace) {
                           return trace->info.source == "snapshot" || hasClock(*trace)
                               ? makePlannerEngine(std::move(trace))
                               : BlockEngine::create(std::move(trace));
                       },
                       QApplication::applicationFilePath(), place.path()},
                      settings);
    window.askBeforeClosing(false);
    Gallery gallery(window, folder);
    if (const QString only = arguments.value(3); !only.isEmpty()) {
        window.show();
        window.openFile(file);
        settle(window);
        (only == QStringLiteral("fit")           ? showFit
             : only == QStringLiteral("offload") ? showOffload
             : only == QStringLiteral("help")    ? showChanges
             : only == QStringLiteral("peaks")   ? showPeaks
                                                 : showRange)(window, gallery);
    } else {
        showAll(window, gallery, file);
    }
    return 0;
}
