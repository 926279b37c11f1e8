// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/fit_page.h"

#include "app/window/actions.h"
#include "app/window/document_page.h"
#include "app/window/record_controller.h"
#include "core/trace/step_file.h"
#include "tests/core/synthetic_step.h"
#include "tests/views/tab_order.h"
#include "tests/views/window_fixture.h"
#include "views/plot/fit_chart.h"
#include "views/widgets/labels.h"
#include "views/widgets/message_bar.h"

#include <QAction>
#include <QDir>
#include <QLineEdit>
#include <QMessageBox>
#include <QPushButton>
#include <QRegularExpression>
#include <QSignalSpy>
#include <QTest>
#include <QToolButton>
#include <QTreeView>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace headroom;

namespace {

constexpr int patienceMs = 600'000; ///< what a search waits for takes longer on a busy machine

} // namespace

/// The page Fit of the window, with a function in place of the processes that record.
class FitPageTest : public WindowFixture
{
    Q_OBJECT

private Q_SLOTS:
    void otherStepsSayWhyNot()
    {
        openStep(); // no command is known of it
        window().actions().showFit->trigger();
        QVERIFY(!button()->isEnabled());
        QVERIFY2(chart().accessibleDescription().startsWith(QStringLiteral("This step was not recorded from a model")),
                 qPrintable(chart().accessibleDescription()));
        page().start();
        QVERIFY(!page().running());
        QVERIFY(words().contains(QStringLiteral("was not recorded from a model")));
    }

    void sizesAreFoundAndShown()
    {
        open();
        QCOMPARE(page().panel()->batch(), QStringLiteral("1.."));
        QCOMPARE(page().panel()->cards(), std::vector<std::string>{gpu});
        search();
        const FitSeries series = first();
        QVERIFY(series.largest && series.largestPlain && series.fastest && series.isBounded);
        QVERIFY(*series.largest > *series.largestPlain);
        const QString batch = QString::number(series.rows[*series.largest].size.batch);
        const QString plain = QString::number(series.rows[*series.largestPlain].size.batch);
        QVERIFY2(
            words().startsWith(QStringLiteral("RTX 4060: batch %1 runs, %2 with a plan; fastest ").arg(plain, batch)),
            qPrintable(words()));
        QVERIFY(page().panel()->words()->toolTip().startsWith(QStringLiteral("RTX 4060: largest: batch ") + batch));
        QVERIFY(page().panel()->words()->toolTip().contains(QStringLiteral("The search took 0:")));
        QCOMPARE(chart().picture().curves.size(), std::size_t{1});
        QCOMPARE(chart().picture().curves[0].points.size(), series.rows.size());
        QCOMPARE(button()->text(), QStringLiteral("Start"));
    }

    void resultsComeWhileTheSearchRuns()
    {
        open();
        waitAt_ = 5;
        page().start();
        QCOMPARE(button()->text(), QStringLiteral("Cancel"));
        QTRY_VERIFY_WITH_TIMEOUT(asked_ >= 5, patienceMs);
        QTRY_VERIFY_WITH_TIMEOUT(!chart().picture().curves.empty(), patienceMs);
        QTRY_VERIFY2(words().contains(QStringLiteral(": RTX 4060, recording batch ")), qPrintable(words()));
        QTRY_VERIFY2(matches("^(?!0:00)\\d+:\\d\\d so far"), qPrintable(words()));
        QVERIFY(window().session().answerIsCurrent());
        waitAt_ = 0;
        QTRY_VERIFY_WITH_TIMEOUT(!page().running(), patienceMs);
        QVERIFY(words().contains(QStringLiteral("; fastest ")));
    }

    void cancelKeepsWhatIsKnown()
    {
        open();
        waitAt_ = 5;
        page().start();
        QTRY_VERIFY_WITH_TIMEOUT(asked_ >= 5, patienceMs);
        QTRY_VERIFY_WITH_TIMEOUT(!chart().picture().curves.empty(), patienceMs);
        QTest::keyClick(&chart(), Qt::Key_Escape);
        QTRY_VERIFY_WITH_TIMEOUT(!page().running(), patienceMs);
        QVERIFY2(matches("^Cancelled after \\d+:\\d\\d"), qPrintable(words()));
        QVERIFY(!first().rows.empty());
        const FitSeries known = first();
        for (const FitRow& row : known.rows)
            QCOMPARE(QString::fromStdString(row.failure), QString());
        waitAt_ = 1;
        asked_ = 0;
        page().start(); // once more, and cancelled at once
        page().cancel();
        QTRY_VERIFY_WITH_TIMEOUT(!page().running(), patienceMs);
        QVERIFY2(matches("^Cancelled after \\d+:\\d\\d, before a size was known\\.$"), qPrintable(words()));
    }

    void failureIsOneSentence()
    {
        open();
        failure_ = "train.py raised ValueError: no data";
        search();
        QVERIFY2(words().endsWith(QStringLiteral("train.py raised ValueError: no data.")), qPrintable(words()));
        QVERIFY(page().panel()->words()->property("danger").toBool());
        failure_.clear();
        field("fitBatch")->setText(QStringLiteral("a..b"));
        page().start();
        QVERIFY2(words().startsWith(QStringLiteral("Batch: ")), qPrintable(words()));
        QVERIFY(page().panel()->words()->property("danger").toBool());
        field("fitBatch")->setText(QStringLiteral("1,2"));
        search();
        QVERIFY(!page().panel()->words()->property("danger").toBool());
    }

    void pointOpensItsStepAndPlan()
    {
        open();
        search();
        const FitSeries series = first();
        const std::size_t largest = *series.largest;
        const auto batch = static_cast<int>(series.rows[largest].size.batch);
        const std::size_t rows = series.rows.size();
        const auto& points = chart().picture().curves[0].points;
        window().actions().showFit->trigger();
        QTest::mouseClick(&chart(), Qt::LeftButton, {}, chart().plane().at(0, points[largest]).toPoint());
        QTRY_COMPARE_WITH_TIMEOUT(window().session().step()->trace().info.batch, batch, patienceMs);
        QTRY_VERIFY(window().session().cardPlan() && window().session().answerIsCurrent());
        QTRY_COMPARE_WITH_TIMEOUT(window().session().budget(), window().session().cardBudget(), patienceMs);
        QCOMPARE(window().session().cardChoice().card, std::string(gpu));
        QVERIFY2(window().actions().undo->text().contains(QStringLiteral("card"))
                     || window().actions().undo->text().contains(QStringLiteral("batch %1").arg(batch))
                     || window().session().undoStack().count() > 0,
                 qPrintable(window().actions().undo->text()));
        QCOMPARE(chart().picture().curves[0].points.size(), rows); // of the same program
        QVERIFY(words().contains(QStringLiteral("; fastest ")));
        while (window().session().undoStack().canUndo())
            window().actions().undo->trigger();
        QCOMPARE(window().session().step()->trace().info.batch, 8);
        QCOMPARE(chart().picture().curves[0].points.size(), rows);
    }

    void calculatedSizeIsRecordedFirst()
    {
        open();
        search();
        const auto rows = first().rows;
        const auto calculated = std::ranges::find_if(rows, [](const FitRow& row) { return !row.isRecorded; });
        QVERIFY(calculated != rows.end());
        asked_ = 0;
        page().open(0, static_cast<std::size_t>(calculated - rows.begin()));
        QVERIFY(page().running());
        QTRY_COMPARE_WITH_TIMEOUT(window().session().step()->trace().info.batch,
                                  static_cast<int>(calculated->size.batch), patienceMs);
        QCOMPARE(asked_.load(), 1);
        failure_ = "no data";
        page().open(0, static_cast<std::size_t>(calculated - rows.begin()));
        QTRY_VERIFY2(words().endsWith(QStringLiteral("cannot be opened: No data.")), qPrintable(words()));
    }

    void anotherProgramEndsTheSearch()
    {
        open();
        waitAt_ = 5;
        page().start();
        QTRY_VERIFY_WITH_TIMEOUT(!chart().picture().curves.empty(), patienceMs);
        window().openFile(file());
        QTRY_COMPARE_WITH_TIMEOUT(window().session().step()->path, file(), patienceMs);
        QVERIFY(!page().running());
        QVERIFY(chart().picture().curves.empty());
        open();
        waitAt_ = 0;
        search();
        window().closeStep();
        QVERIFY(chart().picture().curves.empty());
    }

    void closingWhileSearchingDoesNotHang()
    {
        open();
        waitAt_ = 1;
        page().start();
        QTRY_VERIFY_WITH_TIMEOUT(asked_ >= 1, patienceMs);
        window().close();
        destroyWindow();
        QVERIFY(stopped_);
    }

    void scriptsPythonNeedsConsent()
    {
        writeScript();
        openFile(QStringLiteral("script.hrs"));
        QCOMPARE(page().panel()->batch(), QStringLiteral("--batch-size=1.."));
        page().start();
        auto* box = window().findChild<QMessageBox*>(QStringLiteral("interpreterConsent"));
        QVERIFY(box);
        QVERIFY(!page().running());
        for (QAbstractButton* answer : box->buttons())
            if (box->buttonRole(answer) == QMessageBox::AcceptRole)
                answer->click();
        QTRY_VERIFY(!page().running() && words().contains(QStringLiteral("RTX 4060: --batch-size ")));
        QCOMPARE(QString::fromStdString(program_.python), python());
        field("fitBatch")->clear();
        page().start();
        QVERIFY2(words().startsWith(QStringLiteral("Name the script's argument")), qPrintable(words()));
    }

    void otherSizesAreTheSameProgram()
    {
        const auto script = [](std::vector<std::string> words) {
            FitProgram program;
            program.isScript = true;
            program.words = std::move(words);
            return program;
        };
        FitProgram searched = script({"--gpu", "a", "t.py", "--batch-size", "8", "--lr=1"});
        searched.batch.name = "--batch-size";
        QVERIFY(isSameProgram(searched, script({"--unlimited", "t.py", "--batch-size", "64", "--lr=1"})));
        QVERIFY(!isSameProgram(searched, script({"t.py", "--batch-size", "64", "--lr=2"})));
        QVERIFY(!isSameProgram(searched, script({"u.py", "--batch-size", "64", "--lr=1"})));
        searched.batch.name.clear();
        QVERIFY(!isSameProgram(searched, script({"t.py", "--batch-size", "64", "--lr=1"})));
        FitProgram module = script({"-m", "pkg.train", "batch=8"});
        module.batch.name = "batch";
        QVERIFY(isSameProgram(module, script({"-m", "pkg.train", "batch=9"})));
        QVERIFY(!isSameProgram(module, script({"-m", "pkg.test", "batch=9"})));
        FitProgram model;
        model.words = {"demo:mlp", "--set", "width=8"};
        FitProgram other = model;
        QVERIFY(isSameProgram(model, other));
        other.words.back() = "width=9";
        QVERIFY(!isSameProgram(model, other));
        other = model;
        other.isScript = true;
        QVERIFY(!isSameProgram(model, other));
    }

    void cardsAreLines()
    {
        open();
        page().panel()->setCards({{"rtx-4060-8gb", {}, true}, {"rtx-3060-12gb", {}, true}});
        field("fitBatch")->setText(QStringLiteral("2,200"));
        search();
        QCOMPARE(chart().picture().curves.size(), std::size_t{2});
        QVERIFY2(words().contains(QStringLiteral("RTX 3060: batch ")), qPrintable(words()));
    }

    void changesThatHelpAreListed()
    {
        open(200); // more than the card has
        window().actions().whatHelps->trigger();
        QCOMPARE(window().page().lowerPanel()->page(), LowerPanel::Page::fit);
        QVERIFY(page().running());
        QTRY_VERIFY_WITH_TIMEOUT(!page().running(), patienceMs);
        QVERIFY2(words().startsWith(QStringLiteral("Does not run on RTX 4060: ")), qPrintable(words()));
        QVERIFY(changes().isVisible() && !chart().isVisible());
        const QStringList listed = columnOf(ChangesModel::changeColumn);
        const QStringList sure = columnOf(ChangesModel::sourceColumn);
        const auto half = listed.indexOf(QStringLiteral("batch 100, gradients of two accumulated"));
        QVERIFY2(half >= 0, qPrintable(listed.join(QLatin1Char(';'))));
        QCOMPARE(sure[half], QStringLiteral("recorded"));
        QVERIFY(sure.contains(QStringLiteral("calculated")));
        QVERIFY(changes().model()->index(0, 0).data(Qt::ToolTipRole).toString().size() > 5);
        // A click records the change and makes the step the open one; undo goes back.
        const QString before = window().session().step()->path;
        takeOver(half);
        QTRY_VERIFY(window().session().step()->path != before);
        QCOMPARE(window().session().step()->trace().info.batch, 100);
        QVERIFY(changes().isVisible()); // the list stays
        QCOMPARE(window().actions().undo->text(), QStringLiteral("&Undo batch 100, gradients of two accumulated"));
        window().actions().undo->trigger();
        QCOMPARE(window().session().step()->path, before);
        // What is only calculated says what to change.
        const auto gradients = listed.indexOf(QStringLiteral("8-bit optimizer"));
        if (gradients >= 0) {
            takeOver(gradients);
            QVERIFY2(words().contains(QStringLiteral("change the program")), qPrintable(words()));
        }
        QTest::mouseClick(page().panel()->findChild<QToolButton*>(QStringLiteral("fitHelp")), Qt::LeftButton);
        QVERIFY(!changes().isVisible() && chart().isVisible());
    }

    void aPlanAndACardAreTakenOver()
    {
        open(8);
        search();
        const std::int64_t withPlan = first().rows[*first().largest].size.batch; // runs only with a plan
        open(withPlan);
        QTRY_VERIFY(window().session().cardPlan() && !window().session().cardPlan()->preliminary);
        window().session().commitBudget(window().session().recordedPeak());
        window().actions().whatHelps->trigger();
        QTRY_VERIFY_WITH_TIMEOUT(!page().running(), patienceMs);
        const QStringList listed = columnOf(ChangesModel::changeColumn);
        const auto plan = listed.indexOf(QStringLiteral("activation checkpointing, as planned"));
        QVERIFY2(plan >= 0, qPrintable(listed.join(QLatin1Char(';'))));
        QCOMPARE(columnOf(ChangesModel::sourceColumn)[plan], QStringLiteral("planned"));
        QCOMPARE(columnOf(ChangesModel::runsColumn)[plan], QStringLiteral("yes"));
        takeOver(plan);
        QVERIFY(window().session().budget() < window().session().recordedPeak());
        window().actions().undo->trigger();
        QCOMPARE(window().session().budget(), window().session().recordedPeak());
        const auto card = std::ranges::find_if(
            listed, [](const QString& what) { return what.startsWith(QStringLiteral("NVIDIA")); });
        QVERIFY2(card != listed.end(), qPrintable(listed.join(QLatin1Char(';'))));
        const std::string own = window().session().card()->name;
        takeOver(card - listed.begin());
        QTRY_VERIFY(window().session().card() && window().session().card()->name != own);
        window().actions().undo->trigger();
        QTRY_COMPARE_WITH_TIMEOUT(window().session().card()->name, own, patienceMs);
    }

    void changesNeedACardAndCanBeCancelled()
    {
        open(8);
        waitAt_ = 1;
        page().start(); // one search at a time
        window().actions().whatHelps->trigger();
        QVERIFY(!page().changes().running());
        page().cancel();
        QTRY_VERIFY_WITH_TIMEOUT(!page().running(), patienceMs);
        waitAt_ = 0;
        window().session().chooseCard(CardChoice::none);
        window().actions().whatHelps->trigger();
        QVERIFY2(words().startsWith(QStringLiteral("What would help depends on the card")), qPrintable(words()));
        window().actions().undo->trigger();
        QTRY_VERIFY(window().session().card());
        asked_ = 0;
        waitAt_ = 1;
        window().actions().whatHelps->trigger();
        QTRY_VERIFY(asked_ >= 1);
        QTest::mouseClick(button(), Qt::LeftButton);
        QTRY_VERIFY_WITH_TIMEOUT(!page().running(), patienceMs);
        QCOMPARE(words(), QStringLiteral("Cancelled."));
        QVERIFY(!changes().isVisible());
    }

    void roomForOthersIsReadFromTheFields()
    {
        open(8);
        QVERIFY(!field("fitShare")->isVisible());
        window().actions().showFit->trigger();
        QTest::mouseClick(page().panel()->findChild<QToolButton*>(QStringLiteral("fitMore")), Qt::LeftButton);
        QVERIFY(field("fitShare")->isVisible());
        field("fitBatch")->setText(QStringLiteral("1..64"));
        search();
        const std::int64_t whole = first().rows[*first().largest].size.batch;
        field("fitShare")->setText(QStringLiteral("0.5"));
        search();
        QVERIFY(first().rows[*first().largest].size.batch < whole);
        field("fitShare")->clear();
        field("fitBeside")->setText(QStringLiteral("4 GiB"));
        search();
        QVERIFY(first().rows[*first().largest].size.batch < whole);
        field("fitBeside")->clear();
        for (const auto& [name, wrong] :
             {std::pair("fitShare", "2"), std::pair("fitBeside", "a bit"), std::pair("fitGlobalBatch", "0")}) {
            field(name)->setText(QLatin1String(wrong));
            page().start();
            QVERIFY(!page().running());
            QVERIFY2(words().contains(QLatin1String(wrong)), qPrintable(words()));
            field(name)->clear();
        }
    }

    void pageIsReachedByKeys()
    {
        open();
        search();
        window().activateWindow();
        QVERIFY(QTest::qWaitForWindowActive(&window()));
        QTest::keyClick(&window(), Qt::Key_9, Qt::ControlModifier);
        QCOMPARE(window().page().lowerPanel()->page(), LowerPanel::Page::fit);
        QVERIFY(window().actions().showFit->isChecked());
        window().resize(1280, 800);
        field("fitBatch")->setFocus();
        const QString fault = tabOrderFault(window());
        QVERIFY2(fault.isEmpty(), qPrintable(fault));
        const auto round = focusRound(window(), Qt::Key_Tab);
        QVERIFY(std::ranges::find(round, static_cast<QWidget*>(&chart())) != round.end());
        QVERIFY2(window().minimumSizeHint().width() <= 1280,
                 qPrintable(QString::number(window().minimumSizeHint().width())));
    }

private:
    static constexpr const char* gpu = "rtx-4060-8gb";

    FitPage& page() { return *window().page().fit(); }
    FitChart& chart() { return *page().panel()->chart(); }
    QPushButton* button() { return page().panel()->findChild<QPushButton*>(QStringLiteral("fitStart")); }
    QLineEdit* field(const char* name) { return page().panel()->findChild<QLineEdit*>(QLatin1String(name)); }
    FitSeries first() { return page().exported().result.series.front(); }
    QString words() { return page().panel()->words()->text(); }
    bool matches(const char* pattern) { return words().contains(QRegularExpression(QString::fromLatin1(pattern))); }
    static QString python() { return QStringLiteral(HEADROOM_SOURCE_DIR "/tests/views/fake_python.sh"); }

    StepTrace stepOf(std::int64_t batch) const
    {
        StepTrace step = *makeSyntheticStep({.blocks = 8, .activation = batch * 2 * MiB + 300, .weight = 8 * MiB});
        step.info.gpu = gpu;
        step.info.batch = static_cast<int>(batch);
        step.info.dimensions = {{"batch", batch, 1, 4096}};
        step.info.simulated = true;
        step.info.arguments = {"sizes:none", "--batch", std::to_string(batch)};
        return step;
    }
    void writeScript()
    {
        StepTrace step = stepOf(8);
        QVERIFY(QFile(inFolder(QStringLiteral("train.py"))).open(QIODevice::WriteOnly));
        step.info.dimensions.clear();
        step.info.arguments = {inFolder(QStringLiteral("train.py")).toStdString(), "--batch-size", "8"};
        step.info.settings = {
            {"program", "train.py"}, {"interpreter", python().toStdString()}, {"folder", inFolder({}).toStdString()}};
        QVERIFY(writeStepTrace(step, inFolder(QStringLiteral("script.hrs")).toStdString()));
    }

    std::vector<Result<RecordedStep>> record(std::span<const StepSize> sizes, const std::stop_token& stop)
    {
        asked_ += static_cast<int>(sizes.size());
        while (waitAt_ > 0 && asked_ >= waitAt_ && !stop.stop_requested())
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        stopped_ = stop.stop_requested();
        std::vector<Result<RecordedStep>> results;
        for (const StepSize& size : sizes) {
            if (!failure_.empty() || stopped_) {
                results.emplace_back(badInput(stopped_ ? "stopped" : failure_));
                continue;
            }
            const auto step = std::make_shared<const StepTrace>(stepOf(size.batch));
            const auto file = inFolder(QStringLiteral("kept-%1.hrs").arg(size.batch)).toStdString();
            const Status written = writeStepTrace(*step, file);
            results.push_back(written ? Result<RecordedStep>(RecordedStep{step, file}) : written.error());
        }
        return results;
    }

    void openFile(const QString& name)
    {
        asked_ = waitAt_ = 0;
        failure_.clear();
        stopped_ = false;
        page().use({[this](const auto& step, const auto& run, const auto& refuse) {
                        window().recordController().withPython(step, run, refuse);
                    },
                    HEADROOM_SOURCE_DIR "/tests/views/fake_recorder.sh", inFolder(QStringLiteral("recordings")),
                    [this](const FitProgram& program) -> RecordSteps {
                        program_ = program;
                        return [this](std::span<const StepSize> sizes, const std::string&,
                                      const std::stop_token& stop) { return record(sizes, stop); };
                    }});
        window().openFile(inFolder(name));
        QTRY_VERIFY(window().session().isOpen() && window().session().answerIsCurrent()
                    && window().session().step()->path == inFolder(name));
    }
    void open(std::int64_t batch = 8)
    {
        const QString name = QStringLiteral("batch-%1.hrs").arg(batch);
        QVERIFY(writeStepTrace(stepOf(batch), inFolder(name).toStdString()));
        openFile(name);
        page().changes().use(
            {HEADROOM_SOURCE_DIR "/tests/views/fake_recorder.sh", inFolder(QStringLiteral("recordings")),
             [this](const FitProgram&) {
                 return [this](const StepSize& size, const std::vector<std::string>& options, const std::string&,
                               const std::stop_token& stop) -> Result<RecordedStep> {
                     const StepSize other{options.front() == "--batch" ? std::stoll(options[1]) : size.batch, 0, 1};
                     return record(std::span(&other, 1), stop).front();
                 };
             }});
    }
    QTreeView& changes() { return *page().panel()->changes(); }
    QStringList columnOf(int column)
    {
        QStringList texts;
        for (int row = 0; row < changes().model()->rowCount(); ++row)
            texts << changes().model()->index(row, column).data().toString();
        return texts;
    }
    void takeOver(qsizetype row)
    {
        changes().setCurrentIndex(changes().model()->index(static_cast<int>(row), 0));
        QTest::keyClick(&changes(), Qt::Key_Return);
        QTRY_VERIFY_WITH_TIMEOUT(!page().running(), patienceMs);
    }
    void search()
    {
        QSignalSpy ended(&page(), &FitPage::ended);
        page().start();
        QTRY_COMPARE_WITH_TIMEOUT(ended.size(), 1, patienceMs);
        QVERIFY(!page().running());
    }

    std::atomic<int> asked_ = 0; ///< sizes that record() was asked for
    std::atomic<int> waitAt_ = 0; ///< the number of the size that waits, from 1; 0: none
    std::atomic<bool> stopped_ = false;
    std::string failure_;
    FitProgram program_;
};

QTEST_MAIN(FitPageTest)
#include "fit_page_test.moc"
