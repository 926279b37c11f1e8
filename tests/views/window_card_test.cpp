// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/record_dialog.h"
#include "app/window/actions.h"
#include "app/window/card_bar.h"
#include "app/window/card_controller.h"
#include "app/window/document_page.h"
#include "app/window/exporter.h"
#include "app/window/fit_page.h"
#include "app/window/open_step.h"
#include "app/window/record_controller.h"
#include "app/window/step_header.h"
#include "core/policy/policy.h"
#include "core/trace/step_file.h"
#include "core/trace/step_trace_builder.h"
#include "tests/core/synthetic_step.h"
#include "tests/views/window_fixture.h"
#include "views/widgets/allocator_panel.h"
#include "views/widgets/budget_bar.h"
#include "views/widgets/message_bar.h"

#include <QAbstractItemView>
#include <QAction>
#include <QActionGroup>
#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QDir>
#include <QFile>
#include <QFileDialog>
#include <QGuiApplication>
#include <QInputDialog>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QTest>
#include <QTimer>
#include <QToolButton>
#include <QTreeView>

#include <algorithm>
#include <set>

using namespace headroom;

/// One card in the window: its chooser, the verdict on the shown plan, the stop of the budget, and what follows them.
class WindowCardTest : public WindowFixture
{
    Q_OBJECT

private Q_SLOTS:
    void theCardsInTheMenuAreChoicesOfOne()
    {
        openOnCard({});
        QVERIFY(entry(QStringLiteral("A size …")));
        QMenu& menu = *chooser()->menu();
        menu.popup(chooser()->mapToGlobal(QPoint()));
        QVERIFY(QTest::qWaitForWindowExposed(&menu));
        int choices = 0;
        int chosen = 0;
        for (QAction* action : menu.actions()) {
            if (action->isSeparator())
                continue;
            QVERIFY(action->actionGroup() && action->actionGroup()->isExclusive());
            QVERIFY2(isDrawnAsChoice(menu, *action), qPrintable(action->text()));
            ++choices;
            chosen += action->isChecked() ? 1 : 0;
        }
        QVERIFY(choices > 4);
        QCOMPARE(chosen, 1);
        menu.close();
    }

    void aStepThatFitsItsCardOpensWithoutAPlan()
    {
        openOnCard({});
        QCOMPARE(window().session().budget(), peak());
        QVERIFY(window().session().answer()->regions.empty());
        QTRY_VERIFY2(verdict().startsWith(QStringLiteral("Runs on A100-SXM4-80GB, 66.")), qPrintable(verdict()));
        QVERIFY(verdict().endsWith(QStringLiteral(" GiB left")));
        QVERIFY(!offer(0)->isVisible());
    }

    void aStepThatDoesNotFitOpensAtThePlanThatRuns()
    {
        openOnCard(small());
        settle();
        Session& session = window().session();
        QCOMPARE(session.budget(), session.cardBudget());
        QVERIFY(session.budget() < peak());
        QVERIFY(session.verdict()->run.runs);
        QVERIFY(verdict().startsWith(QStringLiteral("Runs on ")));
        QCOMPARE(session.undoStack().count(), 0);
        const Result<Card> card = cardFor(small(), session.step()->trace(), std::nullopt);
        const CardRun run = runOnCard(*card, session.step()->trace(), *session.shownTimeline());
        QCOMPARE(session.verdict()->run.reservedPeak, run.reservedPeak);
    }

    /// The window can be used while the plan for the card is looked for, and what the user does counts.
    void aBudgetOfTheUserIsNotReplaced()
    {
        control().holdCard = true;
        openOnCard(small());
        QCOMPARE(window().session().budget(), peak());
        QTRY_VERIFY2(verdict().contains(QStringLiteral("looking for a plan that runs")), qPrintable(verdict()));
        window().session().commitBudget(peak() * 8 / 10);
        control().holdCard = false;
        settle();
        QCOMPARE(window().session().budget(), peak() * 8 / 10);
    }

    void aPlanThatFailsSaysSoAndOffersOneThatRuns()
    {
        openOnCard(small());
        settle();
        const Bytes runs = window().session().cardBudget();
        window().session().commitBudget(peak());
        QVERIFY2(!verdict().startsWith(QStringLiteral("Runs")), "the verdict of another plan is never shown");
        settle();
        QVERIFY2(verdict().startsWith(QStringLiteral("Out of memory on ")), qPrintable(verdict()));
        QVERIFY(verdictLabel()->toolTip().contains(QStringLiteral("of training")));
        QVERIFY(offer(0)->isVisible());
        QVERIFY2(offer(0)->text().endsWith(QStringLiteral(" (runs)")), qPrintable(offer(0)->text()));
        QTest::mouseClick(offer(0), Qt::LeftButton);
        QCOMPARE(window().session().budget(), runs);
        settle();
        QVERIFY(window().session().verdict()->run.runs);
        window().actions().undo->trigger();
        QCOMPARE(window().session().budget(), peak());
    }

    void noPlanThatRunsIsSaidWithTheLeastMemory()
    {
        openOnCard("64MiB");
        settle();
        QVERIFY2(verdict().contains(QStringLiteral("no plan runs, the least that would do is ")),
                 qPrintable(verdict()));
        const QString policy = inFolder(QStringLiteral("none.json"));
        QVERIFY(window().exporter().writePolicyTo(policy));
        QCOMPARE(window().messages().type(), MessageBar::MessageType::note);
        QVERIFY(window().messages().message().contains(QStringLiteral("does not run")));
        QVERIFY2(!exportButton()->property("primary").toBool(), "no export is proposed");
        QTRY_VERIFY(offerNamed(QStringLiteral("What would help")));
        QTest::mouseClick(offerNamed(QStringLiteral("What would help")), Qt::LeftButton);
        QVERIFY(window().page().fit()->running());
        QTRY_VERIFY(!window().page().fit()->running());
        QVERIFY(window().page().fit()->panel()->changes()->isVisible());
    }

    /// Another order of the same plan would not do: the budget of the plan for the card has that plan.
    void theStopHasThePlanForTheCard()
    {
        openOnCard(small());
        settle();
        Session& session = window().session();
        QCOMPARE(session.shownTimeline(), session.cardPlan()->timeline);
        session.commitBudget(peak());
        settle();
        auto* scale = window().page().budgetBar()->findChild<BudgetScale*>();
        const QPoint label = labelOfStop(*scale);
        QVERIFY2(!label.isNull(), "the card has a label");
        QTest::mouseClick(scale, Qt::LeftButton, {}, label);
        QCOMPARE(session.budget(), session.cardBudget());
        settle();
        QCOMPARE(session.shownTimeline(), session.cardPlan()->timeline);
    }

    /// With the planner of the tests, which plans by blocks, and with the real one.
    void theStopsAreTheBudgetsWhosePlansRun()
    {
        MainWindow real({makePlannerEngine, {}, inFolder(QStringLiteral("recordings"))}, settings());
        real.askBeforeClosing(false);
        real.show();
        std::size_t running = 0, failing = 0;
        for (MainWindow* tested : {&window(), &real}) {
            Session& session = tested->session();
            tested->openFile(file());
            QTRY_VERIFY(session.isOpen() && session.frontierIsFinal());
            for (const std::string settings : {"", "expandable_segments:True", "max_split_size_mb:64"})
                for (const int percent : {60, 85}) {
                    session.chooseAllocator(settings);
                    session.chooseCard(std::to_string(peak() * percent / 100) + "B");
                    QVERIFY(QTest::qWaitFor([&] { return session.cardPoints() && !tested->cardController().busy(); }));
                    const std::vector<Bytes> stops = tested->page().budgetBar()->findChild<BudgetScale*>()->stops();
                    std::set<Bytes> budgets(stops.begin(), stops.end());
                    for (const FrontierPoint& point : *session.frontier())
                        budgets.insert(point.peak);
                    for (const Bytes budget : budgets) {
                        session.commitBudget(budget);
                        QVERIFY(QTest::qWaitFor([&] {
                            return session.answerIsCurrent() && !session.answer()->preliminary && session.verdict();
                        }));
                        const bool runs = session.verdict()->run.runs;
                        QCOMPARE(std::ranges::find(stops, budget) != stops.end(), runs);
                        ++(runs ? running : failing);
                    }
                }
        }
        QVERIFY2(running > 20 && failing > 20, "both kinds are there");
    }

    void aCardIsChosenFromTheMenuAndRemembered()
    {
        openOnCard({});
        settle();
        choose(QStringLiteral("No card"));
        QCOMPARE(chooser()->text(), QStringLiteral("No card"));
        QVERIFY(verdict().contains(QStringLiteral("not looked at")));
        QCOMPARE(settings().card(), std::string("none"));
        chooseSize(QStringLiteral("a lot"));
        QCOMPARE(settings().card(), std::string("none"));
        chooseSize(QString::fromStdString(small()));
        QVERIFY(chooser()->text().startsWith(QStringLiteral("Card: ")));
        settle();
        QCOMPARE(window().session().budget(), window().session().cardBudget());
        QVERIFY2(window().session().budget() < peak(), "the budget follows the card");
        window().actions().undo->trigger(); // the budget
        window().actions().undo->trigger(); // the card
        QCOMPARE(settings().card(), std::string("none"));
        window().actions().redo->trigger();
        destroyWindow();
        makeWindow();
        openStep();
        QCOMPARE(window().session().cardChoice().card, small());
    }

    void allFollowTheCard()
    {
        openOnCard({});
        choose(QStringLiteral("NVIDIA GeForce RTX 3090"));
        QTRY_COMPARE(chooser()->text(), QStringLiteral("Card: RTX 3090"));
        QCOMPARE(window().session().step()->trace().info.gpu, std::string("rtx-3090-24gb"));
        settle();
        QVERIFY(verdict().startsWith(QStringLiteral("Runs on RTX 3090")));
        // The page of reserved memory.
        window().actions().showReserved->trigger();
        const auto* panel = window().findChild<AllocatorPanel*>();
        QTRY_COMPARE(panel->plot()->curves().capacity, window().session().card()->rules.capacity);
        QVERIFY(!panel->findChild<QLineEdit*>(QStringLiteral("allocatorCard")));
        // The dialog that records.
        QFile script(inFolder(QStringLiteral("train.py")));
        QVERIFY(script.open(QIODevice::WriteOnly));
        script.close();
        window().openFile(script.fileName());
        QVERIFY(window().recordController().dialog());
        QCOMPARE(window().recordController().dialog()->request().gpu, QStringLiteral("rtx-3090-24gb"));
        window().recordController().dialog()->reject();
    }

    /// Steps whose blocks find no room in the pieces that others left run with segments that grow.
    void anotherSettingIsAppliedAndExported()
    {
        openOnCard(small());
        settle();
        Session& session = window().session();
        window().actions().showReserved->trigger();
        auto* settingsEdit = window().findChild<AllocatorPanel*>()->settingsEdit();
        settingsEdit->setText(QString());
        QTest::keyClicks(settingsEdit, QStringLiteral("expandable_segments:True"));
        QCOMPARE(session.cardChoice().settings, std::optional<std::string>("expandable_segments:True"));
        settle();
        QVERIFY2(verdict().contains(QStringLiteral("with expandable segments")), qPrintable(verdict()));
        QCOMPARE(session.undoStack().undoText(), QStringLiteral("settings of the allocator"));
        window().exporter().writePolicyTo(inFolder(QStringLiteral("policy.json")));
        const Result<Policy> policy = readPolicy(inFolder(QStringLiteral("policy.json")).toStdString());
        QVERIFY(policy.ok());
        QCOMPARE(policy->allocatorSettings, std::string("expandable_segments:True"));
        if (session.verdict()->run.runs) {
            auto* copy = offerNamed(QStringLiteral("Copy variable"));
            QVERIFY(copy);
            QTest::mouseClick(copy, Qt::LeftButton);
            QCOMPARE(QGuiApplication::clipboard()->text(),
                     QStringLiteral("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"));
        }
        window().actions().undo->trigger();
        QVERIFY(!session.cardChoice().settings);
        QCOMPARE(settingsEdit->text(), QString());
    }

    void theVerdictFollowsADragWithin100Ms()
    {
        openOnCard(small());
        settle();
        Session& session = window().session();
        for (const int share : {95, 90, 85, 80, 75})
            session.dragBudget(peak() * share / 100);
        session.commitBudget(peak() * 7 / 10);
        QTRY_VERIFY_WITH_TIMEOUT(session.verdict(), 100);
        QCOMPARE(session.verdict(), &*session.answer()->card);
    }

    /// As a new user would, with the mouse: opens the script, chooses the card, records, exports the policy, copies the
    /// line and pastes it. A choice in the list or the dialog that an action opens is part of the action.
    void theMainPathTakesSixActions()
    {
        window().resize(1280, 800);
        settings().setRecordChoices(SourceKind::script, {{QStringLiteral("interpreter"), python()}});
        const QString script = inFolder(QStringLiteral("copies.py"));
        makeScript(script);
        int actions = 0;
        const auto act = [&actions](QWidget* widget) {
            QVERIFY(widget && widget->isVisible() && widget->isEnabled());
            const QRect place(widget->mapTo(widget->window(), QPoint()), widget->size());
            QVERIFY2(widget->window()->rect().contains(place), qPrintable(widget->objectName()));
            ++actions;
            QTest::mouseClick(widget, Qt::LeftButton);
        };
        enterInFileDialog(script);
        act(window().findChild<QPushButton*>(QStringLiteral("scriptButton")));
        auto* dialog = window().recordController().dialog();
        QVERIFY(dialog);
        auto* gpu = dialog->findChild<QComboBox*>(QStringLiteral("gpu"));
        act(gpu);
        QTRY_VERIFY(gpu->view()->isVisible());
        QTest::qWait(QApplication::doubleClickInterval() + 50); // until then the list takes a click for that on the box
        const QModelIndex card = gpu->model()->index(gpu->findData(QStringLiteral("rtx-4090-24gb")), 0);
        gpu->view()->scrollTo(card);
        QTest::mouseClick(gpu->view()->viewport(), Qt::LeftButton, {}, gpu->view()->visualRect(card).center());
        QTRY_COMPARE(gpu->currentData().toString(), QStringLiteral("rtx-4090-24gb"));
        auto* record = dialog->findChild<QPushButton*>(QStringLiteral("recordButton"));
        QTRY_VERIFY(record->isEnabled());
        act(record);
        QTRY_VERIFY(window().session().isOpen() && window().session().answerIsCurrent());
        QCOMPARE(settings().card(), std::string("rtx-4090-24gb"));
        settle();
        QVERIFY2(verdict().startsWith(QStringLiteral("Runs on RTX 4090")), qPrintable(verdict()));
        enterInFileDialog(inFolder(QStringLiteral("path.json")));
        act(exportButton());
        act(window().messages().actionButton());
        QPlainTextEdit editor;
        editor.show();
        QTest::keySequence(&editor, QKeySequence::Paste);
        ++actions;
        QCOMPARE(editor.toPlainText(), QStringLiteral("torch_headroom.apply(model, \"path.json\")"));
        QVERIFY(QFile::exists(inFolder(QStringLiteral("path.json"))));
        QCOMPARE(actions, 6);
        QCOMPARE(QDir(inFolder(QStringLiteral("recordings"))).entryList({QStringLiteral("*.hrs")}).size(), 1);
    }

    void aStepThatEndedOutOfMemoryIsRecordedAgainAsOnALargerCard()
    {
        const QString script = inFolder(QStringLiteral("copies.py"));
        makeScript(script);
        StepTraceBuilder builder;
        builder.addModule("Net", "Net", {});
        builder.mark(Mark::stepBegin);
        builder.endOp(builder.outOfMemory({}, GiB, MiB), {});
        StepTrace full = *builder.finish().value();
        full.info.gpu = "t4-16gb";
        full.info.simulated = true;
        full.info.arguments = {"--gpu", "t4-16gb", script.toStdString()};
        full.info.settings = {
            {"program", "copies.py"}, {"interpreter", python().toStdString()}, {"folder", inFolder({}).toStdString()}};
        QVERIFY(writeStepTrace(full, inFolder(QStringLiteral("full.hrs")).toStdString()));
        settings().trustProgram(python());
        MainWindow real({makePlannerEngine, {}, inFolder(QStringLiteral("recordings"))}, settings());
        real.askBeforeClosing(false);
        real.show();
        real.openFile(inFolder(QStringLiteral("full.hrs")));
        QTRY_VERIFY2(real.session().isOpen(), qPrintable(real.messages().message()));
        QCOMPARE(real.findChild<QLabel*>(QStringLiteral("cardVerdict"))->text(),
                 QStringLiteral("Out of memory on T4 during the recording"));
        auto* again = real.findChild<QPushButton*>(QStringLiteral("cardOffer0"));
        QCOMPARE(again->text(), QStringLiteral("Record again as on a larger card"));
        QTest::mouseClick(again, Qt::LeftButton);
        QTRY_COMPARE(real.session().recordedPeak(), peak());
        QVERIFY(plannable(real.session().step()->trace()).ok());
        QVERIFY(QFile::remove(inFolder(QStringLiteral("full.hrs"))));
    }

    /// Every part of the row can be reached by Tab, and says what it is.
    void theRowIsAccessible()
    {
        openOnCard(small());
        settle();
        QVERIFY(chooser()->accessibleName().startsWith(QStringLiteral("Card of the training: ")));
        QVERIFY(chooser()->focusPolicy() & Qt::TabFocus);
        QCOMPARE(verdictLabel()->accessibleName(), verdict());
        QVERIFY(offer(0)->focusPolicy() & Qt::TabFocus);
        QVERIFY(!window().page().header()->card()->focusProxy());
    }

private:
    /// A size on which the step without a plan does not run, and some plan does.
    std::string small() const { return std::to_string(peak() * 8 / 10) + "B"; }

    void openOnCard(const std::string& card)
    {
        settings().setCard(card);
        window().openFile(file());
        QTRY_VERIFY(window().session().isOpen() && window().session().answerIsCurrent());
    }
    void settle()
    {
        QTRY_VERIFY(!window().cardController().busy() && window().session().answerIsCurrent()
                    && (window().session().verdict() || !window().session().feasible()));
    }
    static QString python() { return QStringLiteral(HEADROOM_SOURCE_DIR "/tests/views/fake_python.sh"); }
    static void makeScript(const QString& path)
    {
        QFile script(path);
        QVERIFY(script.open(QIODevice::WriteOnly));
    }
    QLabel* verdictLabel() { return window().findChild<QLabel*>(QStringLiteral("cardVerdict")); }
    QString verdict() { return verdictLabel()->text(); }
    QToolButton* chooser() { return window().findChild<QToolButton*>(QStringLiteral("card")); }
    QPushButton* offer(int number)
    {
        return window().findChild<QPushButton*>(QStringLiteral("cardOffer%1").arg(number));
    }
    QToolButton* exportButton()
    {
        const auto buttons = window().page().header()->findChildren<QToolButton*>();
        return *std::ranges::find(buttons, window().actions().exportPolicy, &QToolButton::defaultAction);
    }
    /// Enters a name in the next file dialog as soon as it is there.
    void enterInFileDialog(const QString& path)
    {
        auto* look = new QTimer(this);
        connect(look, &QTimer::timeout, look, [look, path] {
            auto* dialog = qobject_cast<QFileDialog*>(QApplication::activeModalWidget());
            if (!dialog)
                return;
            look->stop();
            look->deleteLater();
            auto* name = dialog->findChild<QLineEdit*>(QStringLiteral("fileNameEdit"));
            name->setText(path); // typed, its completer would change it
            QTest::keyClick(name, Qt::Key_Return);
        });
        look->start(20);
    }
    QPushButton* offerNamed(const QString& text)
    {
        for (int i = 0; i < 3; ++i)
            if (offer(i)->isVisible() && offer(i)->text() == text)
                return offer(i);
        return nullptr;
    }
    QAction* entry(const QString& text)
    {
        Q_EMIT chooser()->menu()->aboutToShow();
        const QList<QAction*> all = chooser()->menu()->actions();
        const auto found
            = std::ranges::find_if(all, [&](QAction* action) { return action->text().section(u'\t', 0, 0) == text; });
        return found == all.end() ? nullptr : *found;
    }
    /// Whether the menu draws no check box before an entry: nothing, or the dot of the chosen one.
    static bool isDrawnAsChoice(QMenu& menu, QAction& action)
    {
        constexpr int leastBox = 11; // pixels
        const QImage picture = menu.grab().toImage();
        const QRect row = menu.actionGeometry(&action).adjusted(3, 3, -3, -3);
        std::set<int> columns; // where something is drawn
        for (int y = row.top(); y <= row.bottom(); ++y)
            for (int x = row.left(); x < row.left() + row.height() + 2; ++x)
                if (picture.pixelColor(x, y) != picture.pixelColor(row.topLeft()))
                    columns.insert(x);
        const int width = columns.empty() ? 0 : *columns.rbegin() - *columns.begin() + 1;
        return action.isChecked() ? width > 0 && width < leastBox : width == 0;
    }
    void choose(const QString& text)
    {
        QVERIFY(entry(text));
        entry(text)->trigger();
    }
    void chooseSize(const QString& text)
    {
        choose(QStringLiteral("A size …"));
        auto* dialog = window().findChild<QInputDialog*>(QStringLiteral("cardSize"));
        QVERIFY(dialog);
        auto* edit = dialog->findChild<QLineEdit*>();
        edit->selectAll();
        QTest::keyClicks(edit, text);
        QTest::keyClick(edit, Qt::Key_Return);
        if (dialog->isVisible())
            dialog->reject();
        QCoreApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete);
    }
    /// Where the cursor says that a label can be clicked, left of the recorded peak's.
    QPoint labelOfStop(BudgetScale& scale)
    {
        for (int x = 0; x < scale.width(); x += 3) {
            QMouseEvent move(QEvent::MouseMove, QPointF(x, 9), scale.mapToGlobal(QPointF(x, 9)), Qt::NoButton,
                             Qt::NoButton, Qt::NoModifier);
            QCoreApplication::sendEvent(&scale, &move);
            if (scale.cursor().shape() == Qt::PointingHandCursor)
                return {x, 9};
        }
        return {};
    }
};

QTEST_MAIN(WindowCardTest)
#include "window_card_test.moc"
