// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/record_dialog.h"
#include "app/window/actions.h"
#include "app/window/document_page.h"
#include "app/window/plan_text.h"
#include "app/window/step_header.h"
#include "app/window/step_text.h"
#include "app/window/what_if.h"
#include "core/cost/op_signature.h"
#include "core/predict/predict.h"
#include "core/trace/step_file.h"
#include "tests/core/synthetic_step.h"
#include "tests/views/window_fixture.h"
#include "views/widgets/message_bar.h"

#include <QAction>
#include <QFile>
#include <QLabel>
#include <QMenu>
#include <QPushButton>
#include <QTest>
#include <QToolButton>

#include <algorithm>

using namespace headroom;

namespace {

/// The step of a file that says what its GELUs were called with.
StepTrace withShapes(const StepTracePtr& step)
{
    struct Columns
    {
        std::vector<SignatureId> signature;
        std::vector<std::uint32_t> first;
        std::vector<std::int64_t> values;
        StepTracePtr step;
    };
    const OpSignature::Value x{OpSignature::Value::ValueType::tensor, {{{1 << 26}, {1}, DType::float32, 4}}, {}};
    auto columns = std::make_shared<Columns>();
    for (std::uint32_t row = 0; row < step->ops.size(); ++row)
        columns->signature.push_back(SignatureId(step->opName(OpId(row)) == "aten.gelu.default" ? 1 : 0));
    columns->values = encoded(OpSignature{0, {x}, {x}});
    columns->first = {0, 0, static_cast<std::uint32_t>(columns->values.size())};
    columns->step = step;
    StepTrace result = *step;
    result.ops.signature.rows = columns->signature;
    result.signatures.values = {columns->first, columns->values};
    result.memory = columns;
    return result;
}

} // namespace

/// The menus in the header: whose times, and of which card.
class TimesTest : public WindowFixture
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase()
    {
        qputenv("HEADROOM_CALIBRATION_DIR", inFolder(QStringLiteral("calibration")).toUtf8());
        const StepTracePtr step = makeSyntheticStep({.blocks = 8, .activation = 64 * MiB, .weight = 8 * MiB});
        StepTrace shaped = withShapes(step);
        QVERIFY(writeStepTrace(shaped, inFolder(QStringLiteral("shaped.hrs")).toStdString()));
        shaped.info.dimensions = {{"batch", 8, 1, 4096}};
        shaped.info.arguments = {"cards:" + inFolder({}).toStdString(), "--batch", "8"};
        QVERIFY(writeStepTrace(shaped, inFolder(QStringLiteral("again.hrs")).toStdString()));
        QFile script(inFolder(QStringLiteral("train.py")));
        QVERIFY(script.open(QIODevice::WriteOnly));
        StepTrace ofScript = withShapes(step);
        ofScript.info.arguments
            = {"--gpu", "a100-80gb", "--steps", "2", script.fileName().toStdString(), "--lr", "1", "a b"};
        ofScript.info.settings = {{"program", "train.py --lr 1 'a b'"}, {"folder", inFolder({}).toStdString()}};
        QVERIFY(writeStepTrace(ofScript, inFolder(QStringLiteral("script.hrs")).toStdString()));
        shaped.info.gpu = "v100-32gb";
        QVERIFY(writeStepTrace(shaped, inFolder(QStringLiteral("v100-32gb.hrs")).toStdString()));
    }
    void cleanupTestCase() { qunsetenv("HEADROOM_CALIBRATION_DIR"); }

    void offersModelsAndCards()
    {
        open(QStringLiteral("shaped.hrs"));
        QCOMPARE(button()->text(), QStringLiteral("Kernel model"));
        QCOMPARE(card()->text(), QStringLiteral("Card: A100-SXM4-80GB"));
        QCOMPARE(
            checked(),
            (QStringList{QStringLiteral("Kernel model"), QStringLiteral("Card of the recording\tA100-SXM4-80GB")}));
        QCOMPARE(entry(QStringLiteral("Roofline"))->isEnabled(), true);
        QVERIFY(!entry(QStringLiteral("Calibrated")));
        for (const DeviceSpec& device : deviceSpecs())
            QVERIFY2(entry(QString::fromStdString(device.title)), device.name.c_str());
    }

    void aFileWithoutShapesHasNoKernelModel()
    {
        openStep();
        QCOMPARE(button()->text(), QStringLiteral("Roofline"));
        QVERIFY(!entry(QStringLiteral("Kernel model"))->isEnabled());
        QCOMPARE(entry(QStringLiteral("Kernel model"))->text(),
                 QStringLiteral("Kernel model\tthe file holds no shapes"));
        QVERIFY(!solverLine().contains(QStringLiteral("a step")));
    }

    void theModelIsChosenAndUndone()
    {
        open(QStringLiteral("shaped.hrs"));
        const double kernel = stepMs();
        choose(QStringLiteral("Roofline"));
        QTRY_COMPARE(button()->text(), QStringLiteral("Roofline"));
        QCOMPARE(window().session().step()->times.model, TimeModel::roofline);
        QVERIFY(stepMs() != kernel);
        QCOMPARE(window().session().undoStack().undoText(), QStringLiteral("times of the roofline"));
        window().actions().undo->trigger();
        QCOMPARE(button()->text(), QStringLiteral("Kernel model"));
        QCOMPARE(stepMs(), kernel);
    }

    void aCardIsChosenAndUndone()
    {
        open(QStringLiteral("shaped.hrs"));
        const double recorded = stepMs();
        const Bytes budget = window().session().budget();
        choose(QStringLiteral("NVIDIA A100-SXM4-40GB"));
        QTRY_COMPARE(card()->text(), QStringLiteral("Card: A100-SXM4-40GB"));
        QCOMPARE(button()->text(), QStringLiteral("Kernel model"));
        QVERIFY(stepMs() > recorded);
        QCOMPARE(window().session().budget(), budget);
        QCOMPARE(checked().last(), QStringLiteral("NVIDIA A100-SXM4-40GB"));
        QVERIFY(
            pictureTitle(window().session().step()->trace()).contains(QStringLiteral("Kernel model · A100-SXM4-40GB")));
        choose(QStringLiteral("Roofline")); // of the chosen card
        QTRY_COMPARE(button()->text(), QStringLiteral("Roofline"));
        QCOMPARE(card()->text(), QStringLiteral("Card: A100-SXM4-40GB"));
        window().actions().undo->trigger();
        QCOMPARE(window().session().undoStack().undoText(), QStringLiteral("times of NVIDIA A100-SXM4-40GB"));
        window().actions().undo->trigger();
        QCOMPARE(stepMs(), recorded);
        QCOMPARE(card()->text(), QStringLiteral("Card: A100-SXM4-80GB"));
    }

    void aCardOfOtherKernelsIsRefused()
    {
        open(QStringLiteral("shaped.hrs"));
        const OpenStepPtr before = window().session().step();
        choose(QStringLiteral("Tesla V100-SXM2-32GB"));
        QTRY_COMPARE(window().messages().type(), MessageBar::MessageType::error);
        QVERIFY2(window().messages().message().contains(
                     QStringLiteral("cannot stand for v100-32gb: attention would run in other kernels there")),
                 qPrintable(window().messages().message()));
        QVERIFY(!window().messages().actionButton()->isVisible());
        QCOMPARE(window().session().step(), before);
        // Its memory is known, and the verdict says whose kernels were recorded.
        QCOMPARE(card()->text(), QStringLiteral("Card: V100-SXM2-32GB"));
        const auto* verdict = window().findChild<QLabel*>(QStringLiteral("cardVerdict"));
        QTRY_VERIFY2(verdict->text().endsWith(QStringLiteral("recorded with the kernels of A100-SXM4-80GB")),
                     qPrintable(verdict->text()));
        QCOMPARE(button()->text(), QStringLiteral("Kernel model · A100-SXM4-80GB"));
    }

    void cardsOfOtherKernelsAreMarked()
    {
        open(QStringLiteral("shaped.hrs"));
        const auto note = [this](const QString& card) {
            for (const QAction* action : entries())
                if (action->text().section(u'\t', 0, 0) == card)
                    return action->text().section(u'\t', 1);
            return QStringLiteral("none");
        };
        QCOMPARE(note(QStringLiteral("Tesla V100-SXM2-32GB")), QStringLiteral("other kernels"));
        QCOMPARE(note(QStringLiteral("NVIDIA L4")), QString());
        QCOMPARE(note(QStringLiteral("NVIDIA A100-SXM4-80GB")), QStringLiteral("recorded"));
    }

    /// Of a script the dialog asks, with the card, the arguments and the folder of the step.
    void aScriptIsAskedForAgain()
    {
        open(QStringLiteral("script.hrs"));
        choose(QStringLiteral("Tesla V100-SXM2-32GB"));
        QTRY_VERIFY(window().messages().actionButton()->isVisible());
        QTest::mouseClick(window().messages().actionButton(), Qt::LeftButton);
        const auto* const dialog = window().findChild<RecordDialog*>();
        QVERIFY(dialog);
        const RecordRequest request = dialog->request();
        QCOMPARE(request.model, inFolder(QStringLiteral("train.py")));
        QCOMPARE(request.gpu, QStringLiteral("v100-32gb"));
        QCOMPARE(request.scriptArguments, QStringLiteral("--lr 1 'a b'"));
        QCOMPARE(request.workingFolder, inFolder({}));
    }

    void aCardOfOtherKernelsIsRecorded()
    {
        open(QStringLiteral("again.hrs"));
        choose(QStringLiteral("NVIDIA L4"));
        QTRY_COMPARE(card()->text(), QStringLiteral("Card: L4"));
        QTRY_VERIFY(window().session().answerIsCurrent());
        choose(QStringLiteral("Tesla V100-SXM2-32GB"));
        QTRY_COMPARE(window().messages().type(), MessageBar::MessageType::error);
        QTRY_VERIFY(window().messages().actionButton()->isVisible());
        QTest::mouseClick(window().messages().actionButton(), Qt::LeftButton);
        QVERIFY(window().whatIf().running());
        QTRY_COMPARE(window().session().step()->file->info.gpu, std::string("v100-32gb"));
        QCOMPARE(card()->text(), QStringLiteral("Card: V100-SXM2-32GB"));
        QCOMPARE(checked().last(), QStringLiteral("Tesla V100-SXM2-32GB\trecorded"));
        QCOMPARE(window().session().undoStack().undoText(), QStringLiteral("gpu v100-32gb"));
        QTRY_VERIFY(window().session().answerIsCurrent());
        window().actions().undo->trigger();
        QCOMPARE(window().session().step()->trace().info.gpu, std::string("l4-24gb"));
        QTRY_VERIFY(window().session().answerIsCurrent());
    }

    void theClockSaysWhatBindsAndWhatAPlanAdds()
    {
        open(QStringLiteral("shaped.hrs"));
        window().session().commitBudget(peak());
        QTRY_VERIFY(window().session().answerIsCurrent() && window().session().answer()->regions.empty());
        const StepClock recorded = *clockOf(window().session().step()->trace(), {});
        const QString step = QString::number(recorded.stepMs, 'f', 2) + QStringLiteral(" ms");
        const QString binds = recorded.bound() == StepClock::Bound::cpu ? QStringLiteral("the CPU binds")
                                                                        : QStringLiteral("the GPU binds");
        QTRY_VERIFY(solverLine().endsWith(QStringLiteral("Kernel model: %1 a step; %2").arg(step, binds)));
        window().session().commitBudget(peak() * 7 / 10);
        QTRY_VERIFY(window().session().answerIsCurrent() && !window().session().answer()->regions.empty());
        const StepClock planned = *clockOf(window().session().step()->trace(), window().session().answer()->regions);
        QVERIFY(planned.recomputedKernels >= 1 && planned.stepMs > recorded.stepMs);
        const QString said
            = QStringLiteral("Kernel model: %1 ms a step, %2 without the plan; %3; %4 kernels are launched again")
                  .arg(planned.stepMs, 0, 'f', 2)
                  .arg(step, binds)
                  .arg(std::lround(planned.recomputedKernels));
        QVERIFY2(solverLine().endsWith(said), qPrintable(solverLine()));
    }

    void thePlanOfOpsHasItsOwnClock()
    {
        open(QStringLiteral("shaped.hrs"));
        Session& session = window().session();
        window().actions().planOps->trigger();
        QTRY_VERIFY(session.opsFrontier() && session.opsFrontier()->complete && session.answerIsCurrent());
        session.commitBudget(session.opsFrontier()->plans.front().peak);
        QTRY_VERIFY(session.answerIsCurrent());
        const OpsDecisions& answer = *session.answer()->ops;
        const StepClock planned = answer.frontier->planner.clock(answer.plan());
        QVERIFY(planned.stepMs > session.step()->clock->stepMs);
        QVERIFY2(solverLine().contains(QStringLiteral("Kernel model: %1 ms a step, %2 ms without the plan")
                                           .arg(planned.stepMs, 0, 'f', 2)
                                           .arg(session.step()->clock->stepMs, 0, 'f', 2)),
                 qPrintable(solverLine()));
    }

private:
    void open(const QString& name)
    {
        window().openFile(inFolder(name));
        QTRY_VERIFY(window().session().isOpen() && window().session().answerIsCurrent());
    }
    QToolButton* button() { return window().findChild<QToolButton*>(QStringLiteral("stepTimes")); }
    QToolButton* card() { return window().findChild<QToolButton*>(QStringLiteral("card")); }
    double stepMs() { return window().session().step()->engine->recorded()->durationMs; }
    QString solverLine() { return inspectorText("solverLine"); }
    QList<QAction*> entries()
    {
        Q_EMIT button()->menu()->aboutToShow();
        Q_EMIT card()->menu()->aboutToShow();
        return button()->menu()->actions() + card()->menu()->actions();
    }
    /// Null: the menu does not offer it.
    QAction* entry(const QString& text)
    {
        const QList<QAction*> all = entries();
        const auto found
            = std::ranges::find_if(all, [&](QAction* action) { return action->text().section(u'\t', 0, 0) == text; });
        return found == all.end() ? nullptr : *found;
    }
    QStringList checked()
    {
        QStringList texts;
        for (const QAction* action : entries()) {
            if (action->isChecked())
                texts << action->text();
        }
        return texts;
    }
    void choose(const QString& text)
    {
        QVERIFY(entry(text));
        entry(text)->trigger();
    }
};

QTEST_MAIN(TimesTest)
#include "times_test.moc"
