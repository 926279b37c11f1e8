// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/actions.h"
#include "app/window/document_page.h"
#include "app/window/exporter.h"
#include "app/window/open_step.h"
#include "core/trace/step_file.h"
#include "core/trace/step_trace_builder.h"
#include "tests/core/synthetic_step.h"
#include "tests/views/window_fixture.h"
#include "views/export/export.h"
#include "views/models/ops_model.h"
#include "views/plot/timeline_view.h"
#include "views/widgets/budget_bar.h"
#include "views/widgets/lower_panel.h"
#include "views/widgets/message_bar.h"

#include <QAbstractScrollArea>
#include <QAction>
#include <QApplication>
#include <QDesktopServices>
#include <QDir>
#include <QDropEvent>
#include <QFile>
#include <QInputDialog>
#include <QJsonDocument>
#include <QJsonObject>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QMimeData>
#include <QPushButton>
#include <QScreen>
#include <QSignalSpy>
#include <QTest>
#include <QTreeView>
#include <QUrl>

#include <array>
#include <cstdio>
#include <functional>
#include <vector>

using namespace headroom;

/// Takes the files that the desktop is to open.
class Desktop : public QObject
{
    Q_OBJECT
public:
    Desktop() { QDesktopServices::setUrlHandler(QStringLiteral("file"), this, "open"); }
    ~Desktop() override { QDesktopServices::unsetUrlHandler(QStringLiteral("file")); }
    QList<QUrl> urls;

public Q_SLOTS:
    void open(const QUrl& url) { urls << url; }
};

/// A step of two ops, each at a line of a file.
StepTracePtr stepWithLines(const QString& first, const QString& second)
{
    StepTraceBuilder builder;
    const ModuleId net = builder.addModule("Net", "Net", {});
    const ModuleId layer = builder.addModule("Net.layer", "Linear", net);
    const CallId call = builder.enter(layer, {});
    builder.mark(Mark::stepBegin);
    const std::array files{std::pair(first, 64 * MiB), std::pair(second, 32 * MiB)};
    for (const auto& [file, bytes] : files) {
        StepTraceBuilder::Op op;
        op.name = builder.string("aten.mm.default");
        op.module = layer;
        op.call = call;
        op.frame = builder.frame({}, file.toStdString(), "forward", 57);
        const OpId mm = builder.beginOp(op);
        builder.alloc(bytes, Category::activation, mm);
        builder.endOp(mm, {});
    }
    builder.exit(call, {});
    builder.mark(Mark::forwardEnd);
    return *builder.finish();
}

/// The window around a step: first start, opening, recording, exporting, settings.
class WindowFilesTest : public WindowFixture
{
    Q_OBJECT

private Q_SLOTS:
    void firstStartSaysWhatCanBeDone()
    {
        QVERIFY(window().startPage().isVisible());
        QVERIFY(!window().page().isVisible());
        QVERIFY(window().startPage().findChild<QPushButton*>(QStringLiteral("openButton")));
        QVERIFY(window().startPage().findChild<QAbstractButton*>(QStringLiteral("demo-transformer")));
        QVERIFY(!window().actions().exportPolicy->isEnabled());
        QVERIFY(window().actions().open->isEnabled());
        QCOMPARE(window().windowTitle(), QStringLiteral("Headroom"));
    }

    void aDemoWithoutARecorderIsTheStepThatComesWithHeadroom()
    {
        MainWindow without({makePlannerEngine, inFolder(QStringLiteral("no-recorder")),
                            inFolder(QStringLiteral("made")),
                            QStringLiteral(HEADROOM_SOURCE_DIR "/resources/samples/transformer.hrs")},
                           settings());
        without.askBeforeClosing(false);
        without.show();
        without.startPage().findChild<QAbstractButton*>(QStringLiteral("demo-resnet50"))->click();
        QTRY_VERIFY(without.session().isOpen());
        QCOMPARE(without.session().step()->path,
                 QStringLiteral(HEADROOM_SOURCE_DIR "/resources/samples/transformer.hrs"));
        QVERIFY(without.messages().message().startsWith(QStringLiteral("The recorder is not there")));
    }

    void everyActionHasTextAndStatusTip()
    {
        for (const QAction* action : window().actions().findChildren<QAction*>()) {
            if (action->menu() || action->isSeparator())
                continue;
            QVERIFY2(!action->text().isEmpty() && !action->statusTip().isEmpty(), qPrintable(action->text()));
            QVERIFY2(!action->shortcut().isEmpty(), qPrintable(action->text()));
        }
    }

    void shortcutsAreUnique()
    {
        QMap<QString, QString> seen;
        for (const QAction* action : window().actions().findChildren<QAction*>()) {
            const QString keys = action->shortcut().toString();
            QVERIFY2(keys.isEmpty() || !seen.contains(keys), qPrintable(keys + action->text() + seen.value(keys)));
            seen.insert(keys, action->text());
        }
    }

    void opensAndPlans()
    {
        openStep();
        QVERIFY(window().page().isVisible());
        QCOMPARE(window().page().findChild<QLabel*>(QStringLiteral("stepName"))->text(), QStringLiteral("synthetic"));
        QVERIFY(window().windowTitle().startsWith(QStringLiteral("step.hrs")));
        QVERIFY(window().session().feasible());
        QCOMPARE(window().page().budgetBar()->budget(), window().session().budget());
        QCOMPARE(settings().recentFiles(), QStringList{file()});
        QCOMPARE(window().session().selectedFqn(), std::string("Transformer.layers.0"));
        QVERIFY(window().actions().exportPolicy->isEnabled());
    }

    void aSourceLineOpensInTheEditor()
    {
        const QString source = inFolder(QStringLiteral("my model.py"));
        QFile model(source);
        QVERIFY(model.open(QIODevice::WriteOnly));
        model.close();
        const QString step = inFolder(QStringLiteral("lines.hrs"));
        QVERIFY(writeStepTrace(*stepWithLines(QStringLiteral("/gone/train.py"), source), step.toStdString()));
        Desktop desktop;
        window().openFile(step);
        QTRY_VERIFY(window().session().isOpen());

        // The op at the peak; then the module's line, of a file that is not here.
        window().actions().openLine->trigger();
        QCOMPARE(desktop.urls, QList<QUrl>{QUrl::fromLocalFile(source)});
        auto* line = window().page().findChild<QLabel*>(QStringLiteral("moduleLine"));
        QTRY_VERIFY(line->isVisible());
        QVERIFY(line->text().contains(QStringLiteral("train.py:57 forward")));
        Q_EMIT line->linkActivated({});
        QCOMPARE(window().messages().message(),
                 QStringLiteral(
                     "/gone/train.py is not on this machine, where the line train.py:57 forward would be opened."));
        QCOMPARE(desktop.urls.size(), 1);

        // A click in the table of ops, with an editor of the user's own.
        settings().setEditor(QStringLiteral("cp %f ") + inFolder(QStringLiteral("opened-%l")));
        window().actions().showOps->trigger();
        QTreeView* ops = window().page().lowerPanel()->ops();
        QTRY_COMPARE(ops->model()->rowCount(), 2);
        const QModelIndex cell = ops->model()->index(1, OpsModel::lineColumn);
        ops->scrollTo(cell);
        QTest::mouseClick(ops->viewport(), Qt::LeftButton, {}, ops->visualRect(cell).center());
        QTRY_VERIFY(QFile::exists(inFolder(QStringLiteral("opened-57"))));
        QTest::mouseClick(ops->viewport(), Qt::LeftButton, {}, ops->visualRect(cell.siblingAtColumn(0)).center());
        QCOMPARE(desktop.urls.size(), 1);

        settings().setEditor(QStringLiteral("no-such-editor"));
        window().actions().openLine->trigger();
        QCOMPARE(window().messages().message(), QStringLiteral("The editor no-such-editor does not start."));
        window().messages().actionButton()->click();
        auto* dialog = window().findChild<QInputDialog*>(QStringLiteral("editor"));
        QVERIFY(dialog);
        dialog->setTextValue(QStringLiteral("code -g %f:%l"));
        dialog->accept();
        QCOMPARE(settings().editor(), QStringLiteral("code -g %f:%l"));

        // The desktop is not asked for what it might run.
        settings().setEditor({});
        QVERIFY(model.setPermissions(model.permissions() | QFileDevice::ExeOwner));
        window().actions().openLine->trigger();
        QVERIFY(window().messages().message().startsWith(QStringLiteral("The desktop might run ")));
        QCOMPARE(desktop.urls.size(), 1);
    }

    void guessedBudgetThatDoesNotFitIsReplaced()
    {
        window().openFile(file());
        QTRY_VERIFY(window().session().isOpen());
        QCOMPARE(window().session().budget(), peak()); // it fits its card
        window().closeStep();
        const Bytes asked = 64 * MiB;
        window().openFile(file(), asked); // what was asked for stays, though nothing fits
        QTRY_VERIFY(window().session().isOpen() && window().session().answerIsCurrent());
        QCOMPARE(window().session().budget(), asked);
    }

    void exportsThePolicy()
    {
        openStep();
        window().session().commitBudget(peak() / 2);
        QTRY_VERIFY(window().session().answerIsCurrent());
        QVERIFY(window().isWindowModified());
        const QString path = inFolder(QStringLiteral("policy.json"));
        QVERIFY(window().exporter().writePolicyTo(path));
        QVERIFY(!window().isWindowModified());
        QFile file(path);
        QVERIFY(file.open(QIODevice::ReadOnly));
        const QJsonObject policy = QJsonDocument::fromJson(file.readAll()).object();
        QCOMPARE(policy.value(QStringLiteral("headroom_policy")).toInt(), 1);
        QCOMPARE(static_cast<Bytes>(policy.value(QStringLiteral("budget_bytes")).toDouble()), peak() / 2);
        QCOMPARE(window().messages().type(), MessageBar::MessageType::done);
    }

    void policyThatCannotBeWrittenIsSaid()
    {
        openStep();
        QVERIFY(!window().exporter().writePolicyTo(QStringLiteral("/nowhere/policy.json")));
        QCOMPARE(window().messages().type(), MessageBar::MessageType::error);
        window().session().commitBudget(64 * MiB);
        QTRY_VERIFY(window().session().answerIsCurrent());
        QVERIFY(!window().exporter().writePolicyTo(inFolder(QStringLiteral("none.json"))));
        QVERIFY(window().messages().message().contains(QStringLiteral("none fits")));
    }

    void exportsPictures()
    {
        openStep();
        QTRY_VERIFY(window().session().frontier() != nullptr);
        const auto path = [this](const char* name) { return inFolder(QString::fromLatin1(name)); };
        QVERIFY(window().exporter().writeTimelineTo(path("timeline.svg")));
        QVERIFY(window().exporter().writeTradeOffTo(path("tradeoff.csv")));
        QVERIFY(window().exporter().writeFrontierTo(path("frontier.png")));
        for (const char* name : {"timeline.svg", "tradeoff.csv", "frontier.png"})
            QVERIFY(QFileInfo(path(name)).size() > 100);
    }

    void brokenFileLeavesTheOpenStep()
    {
        openStep();
        const OpenStepPtr before = window().session().step();
        const QString broken = inFolder(QStringLiteral("broken.hrs"));
        QFile content(broken);
        QVERIFY(content.open(QIODevice::WriteOnly));
        content.write(QByteArray(300, 'x'));
        content.close();
        window().openFile(broken);
        QTRY_COMPARE(window().messages().type(), MessageBar::MessageType::error);
        QVERIFY2(window().messages().message().contains(QStringLiteral("broken.hrs")),
                 qPrintable(window().messages().message()));
        QCOMPARE(window().session().step(), before);
        QCOMPARE(settings().recentFiles(), QStringList{file()});
    }

    /// What, where, what was expected, and what to do.
    void whatCannotBeOpenedIsSaidInASentence_data()
    {
        QTest::addColumn<QString>("name");
        QTest::addColumn<QByteArray>("content");
        QTest::addColumn<QString>("said"); // with the path as %1
        const auto row = [](const char* title, const char* name, const QByteArray& content, const char* said) {
            QTest::newRow(title) << QString::fromLatin1(name) << content << QString::fromUtf8(said);
        };
        const char* neither = "neither a step file nor a memory snapshot nor a trace of torch.profiler: open another "
                              "file, or record the step again.";
        for (const char* name : {"empty.hrs", "empty.pickle", "empty.json", "empty"})
            row(name, name, {}, qPrintable(QStringLiteral("%1 is empty, and ") + QString::fromLatin1(neither)));
        row("text", "notes.txt", "Batch 32 ran out of memory.\n",
            qPrintable(QStringLiteral("%1 is ") + QString::fromLatin1(neither)));
        row("zeros", "zeros.pickle", QByteArray(4096, '\0'),
            qPrintable(QStringLiteral("%1 is ") + QString::fromLatin1(neither)));
        const char* folder = "Cannot open %1: expected a regular file, but found a folder: name a file in the folder.";
        row("folder", "", {}, folder);
        row("folder of a model", "model.pt2/", {}, folder);
        row("folder of scripts", "scripts.py/", {}, folder);
        const char* missing = "Cannot open %1: No such file or directory; check the name.";
        row("no step", "no.hrs", "-", missing);
        row("no script", "no.py", "-", missing);
    }
    void whatCannotBeOpenedIsSaidInASentence()
    {
        QFETCH(const QString, name);
        QFETCH(const QByteArray, content);
        QFETCH(const QString, said);
        const QString path = QDir::cleanPath(inFolder(name));
        if (name.endsWith(u'/'))
            QVERIFY(QDir().mkpath(path));
        else if (!name.isEmpty() && content != "-") {
            QFile file(path);
            QVERIFY(file.open(QIODevice::WriteOnly));
            QCOMPARE(file.write(content), content.size());
        }
        window().openFile(path);
        QTRY_COMPARE(window().messages().type(), MessageBar::MessageType::error);
        QCOMPARE(window().messages().message(), said.arg(path));
        QVERIFY(!window().session().isOpen() && window().startPage().isVisible());
        QCOMPARE(settings().recentFiles(), QStringList());
    }

    void fileThatMayNotBeReadIsSaid()
    {
        const QString path = inFolder(QStringLiteral("private.hrs"));
        QVERIFY(QFile::copy(file(), path));
        QVERIFY(QFile::setPermissions(path, {}));
        if (QFile(path).open(QIODevice::ReadOnly))
            QSKIP("this user may read every file");
        window().openFile(path);
        QTRY_COMPARE(window().messages().type(), MessageBar::MessageType::error);
        QCOMPARE(
            window().messages().message(),
            QStringLiteral("Cannot open %1: Permission denied; allow reading (chmod +r), or copy the file.").arg(path));
    }

    /// The open step and the compared one are never replaced, whatever is exported and however the path is written.
    void exportsReplaceNoFileThatIsShown()
    {
        const QString compared = inFolder(QStringLiteral("compared.hrs"));
        QVERIFY(writeStepTrace(*makeSyntheticStep({.blocks = 6}), compared.toStdString()).ok());
        const QString link = inFolder(QStringLiteral("link.svg"));
        QVERIFY(QFile::link(file(), link));
        openStep();
        QTRY_VERIFY(window().session().frontierIsFinal());
        window().compareWith(compared);
        QTRY_VERIFY(window().session().isComparing());
        const auto content = [](const QString& path) {
            QFile read(path);
            return read.open(QIODevice::ReadOnly) ? read.readAll() : QByteArray();
        };
        const QByteArray before = content(file());
        const QByteArray beside = content(compared);
        Exporter& exporter = window().exporter();
        QSignalSpy reported(&exporter, &Exporter::reportEnded);
        const std::vector<std::function<bool(const QString&)>> exports{
            [&](const QString& path) { return exporter.writePolicyTo(path); },
            [&](const QString& path) { return exporter.writeTimelineTo(path); },
            [&](const QString& path) { return exporter.writeTradeOffTo(path); },
            [&](const QString& path) { return exporter.writeFrontierTo(path); },
            [&](const QString& path) { return exporter.writeFitTo(path, {}); },
            [&](const QString& path) {
                exporter.writeReportTo(path);
                return reported.isEmpty() || reported.takeFirst().first().toBool();
            }};
        for (const QString& path : {file(), compared, link}) {
            for (const auto& write : exports) {
                window().messages().dismiss();
                QVERIFY(!write(path));
                QCOMPARE(window().messages().type(), MessageBar::MessageType::error);
                QCOMPARE(window().messages().message(),
                         QStringLiteral("%1 is shown in the window and was not replaced: choose another name.")
                             .arg(QFileInfo(path).fileName()));
            }
        }
        QVERIFY(content(file()) == before && content(compared) == beside);
        QVERIFY(exporter.writeTimelineTo(inFolder(QStringLiteral("another.svg"))));
    }

    void fileCanBeDropped()
    {
        QMimeData data;
        data.setUrls({QUrl::fromLocalFile(file())});
        QDragEnterEvent enter(QPoint(10, 10), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
        QApplication::sendEvent(&window(), &enter);
        QVERIFY(enter.isAccepted());
        QDropEvent drop(QPointF(10, 10), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
        QApplication::sendEvent(&window(), &drop);
        QTRY_VERIFY(window().session().isOpen());
    }

    /// Plots take drags as their scenes want, and a line of text takes the file's name.
    void fileCanBeDroppedAnywhere()
    {
        openStep();
        const QString other = inFolder(QStringLiteral("other.hrs"));
        QVERIFY(writeStepTrace(*makeSyntheticStep({.blocks = 3}), other.toStdString()).ok());
        QMimeData data;
        data.setUrls({QUrl::fromLocalFile(other)});
        int count = 0;
        for (QWidget* widget : window().findChildren<QWidget*>()) {
            if (!widget->isVisible() || widget->window() != &window())
                continue;
            QDragEnterEvent enter(QPoint(1, 1), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
            QApplication::sendEvent(widget, &enter);
            QVERIFY2(enter.isAccepted(), widget->metaObject()->className());
            QDragMoveEvent move(QPoint(2, 2), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
            QApplication::sendEvent(widget, &move);
            QVERIFY2(move.isAccepted(), widget->metaObject()->className());
            ++count;
        }
        QVERIFY(count > 50);
        for (QWidget* target : {static_cast<QWidget*>(window().page().timeline()->findChild<QAbstractScrollArea*>()),
                                static_cast<QWidget*>(window().page().findChild<QLineEdit*>())}) {
            window().closeStep();
            openStep();
            if (auto* area = qobject_cast<QAbstractScrollArea*>(target))
                target = area->viewport();
            QVERIFY(target);
            QDragEnterEvent enter(QPoint(1, 1), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
            QApplication::sendEvent(target, &enter);
            QDropEvent drop(QPointF(2, 2), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
            QApplication::sendEvent(target, &drop);
            QTRY_COMPARE(window().session().step()->path, other);
            for (const QLineEdit* line : window().page().findChildren<QLineEdit*>())
                QVERIFY2(!line->text().contains(QStringLiteral(".hrs")), "a dropped file is no text");
        }
    }

    void changedFileIsSaidAndReadAgain_data()
    {
        QTest::addColumn<bool>("replaced");
        QTest::newRow("another file takes its name") << true;
        QTest::newRow("written in place") << false;
    }
    void changedFileIsSaidAndReadAgain()
    {
        QFETCH(const bool, replaced);
        const QString path = inFolder(QStringLiteral("changes.hrs"));
        QFile::remove(path);
        QVERIFY(QFile::copy(file(), path));
        window().openFile(path);
        QTRY_VERIFY(window().session().isOpen() && window().session().answerIsCurrent());
        const Bytes budget = peak() * 3 / 5;
        window().session().commitBudget(budget);
        window().session().setPin("Transformer.layers.1", Pin::save);

        const StepTracePtr other = makeSyntheticStep({.blocks = 6, .activation = 64 * MiB, .weight = 8 * MiB});
        const QString made = inFolder(QStringLiteral("made.hrs"));
        QVERIFY(writeStepTrace(*other, made.toStdString()).ok());
        if (replaced) {
            QCOMPARE(std::rename(qPrintable(made), qPrintable(path)), 0);
        } else {
            QFile from(made);
            QFile to(path);
            QVERIFY(from.open(QIODevice::ReadOnly) && to.open(QIODevice::WriteOnly | QIODevice::Truncate));
            to.write(from.readAll());
        }
        QTRY_COMPARE(window().messages().type(), MessageBar::MessageType::note);
        QVERIFY(window().messages().message().startsWith(QStringLiteral("changes.hrs has changed since")));
        QCOMPARE(window().session().recordedPeak(), peak());
        QVERIFY(!window().page().grab().isNull()); // the whole step is still there
        window().messages().actionButton()->click();
        QTRY_VERIFY(window().session().recordedPeak() < peak());
        QCOMPARE(window().session().budget(), budget);
        QVERIFY(window().session().hasPins());
        QTest::qWait(500);
        QVERIFY(window().messages().type() != MessageBar::MessageType::note); // nothing changed since
    }

    void deletedFileIsSaid()
    {
        const QString path = inFolder(QStringLiteral("leaves.hrs"));
        const QString away = inFolder(QStringLiteral("away.hrs"));
        QVERIFY(QFile::copy(file(), path));
        window().openFile(path);
        QTRY_VERIFY(window().session().isOpen() && window().session().answerIsCurrent());
        QCOMPARE(std::rename(qPrintable(path), qPrintable(away)), 0);
        QTRY_COMPARE(window().messages().type(), MessageBar::MessageType::note);
        QVERIFY2(window().messages().message().startsWith(QStringLiteral("leaves.hrs was deleted, moved or renamed")),
                 qPrintable(window().messages().message()));
        QVERIFY(!window().messages().actionButton()->isVisible()); // there is nothing to read
        QVERIFY(!window().page().grab().isNull());

        window().messages().dismiss();
        QCOMPARE(std::rename(qPrintable(away), qPrintable(path)), 0); // the same file is back
        QTest::qWait(600);
        QCOMPARE(window().messages().type(), MessageBar::MessageType::none);

        QVERIFY(QFile::remove(path));
        QTRY_COMPARE(window().messages().type(), MessageBar::MessageType::note);
        const StepTracePtr other = makeSyntheticStep({.blocks = 6, .activation = 64 * MiB, .weight = 8 * MiB});
        QVERIFY(writeStepTrace(*other, path.toStdString()).ok());
        QTRY_VERIFY(window().messages().message().startsWith(QStringLiteral("leaves.hrs has changed since")));
        window().messages().actionButton()->click();
        QTRY_VERIFY(window().session().recordedPeak() < peak());
    }

    void windowIsNoLargerThanTheScreen()
    {
        window().resize(5000, 4000);
        window().fitScreen();
        const QSize screen = window().screen()->availableSize();
        QVERIFY(window().width() <= std::max(screen.width(), window().minimumSizeHint().width()));
        QVERIFY(window().height() <= std::max(screen.height(), window().minimumSizeHint().height()));
        openStep();
        QVERIFY2(window().minimumSizeHint().width() <= 1280 && window().minimumSizeHint().height() <= 760,
                 qPrintable(QStringLiteral("%1 x %2")
                                .arg(window().minimumSizeHint().width())
                                .arg(window().minimumSizeHint().height())));
    }

    void errorLeavesWhenTheNextActionSucceeds()
    {
        openStep();
        window().openFile(inFolder(QStringLiteral("gone.hrs")));
        QTRY_COMPARE(window().messages().type(), MessageBar::MessageType::error);
        window().session().commitBudget(peak() / 2);
        QTRY_VERIFY(window().session().answerIsCurrent());
        QCOMPARE(window().messages().type(), MessageBar::MessageType::none);

        window().openFile(inFolder(QStringLiteral("gone.hrs")));
        QTRY_COMPARE(window().messages().type(), MessageBar::MessageType::error);
        window().session().select(ModuleId(1)); // nothing that could have failed
        QTest::qWait(50);
        QCOMPARE(window().messages().type(), MessageBar::MessageType::error);
        window().closeStep();
        QCOMPARE(window().messages().type(), MessageBar::MessageType::none);
    }

    void budgetWithoutAPlanHasNoExport()
    {
        openStep();
        window().session().commitBudget(64 * MiB);
        QTRY_VERIFY(window().session().answerIsCurrent());
        QVERIFY(!window().session().feasible());
        QVERIFY(!window().actions().exportPolicy->isEnabled());
        QVERIFY(
            window().actions().exportPolicy->toolTip().contains(QStringLiteral("none fits the budget of 64.00 MiB")));
        window().session().commitBudget(peak());
        QTRY_VERIFY(window().session().answerIsCurrent());
        QVERIFY(window().actions().exportPolicy->isEnabled());
        QVERIFY(window().actions().exportPolicy->toolTip().startsWith(QStringLiteral("Write the plan")));
    }

    void stepOfWhichNoPlanIsPossibleSaysSo()
    {
        StepTrace step = *makeSyntheticStep({.blocks = 3});
        step.info.settings.emplace_back("compiled autograd", "1");
        const QString path = inFolder(QStringLiteral("compiled.hrs"));
        QVERIFY(writeStepTrace(step, path.toStdString()).ok());
        window().openFile(path);
        QTRY_VERIFY(window().session().isOpen() && window().session().answerIsCurrent());
        QCOMPARE(inspectorText("solverLine"), QStringLiteral("No plan is possible of this step"));
        QVERIFY(!window().actions().exportPolicy->isEnabled());
        QVERIFY(window().actions().exportPolicy->toolTip().contains(QStringLiteral("Compiled autograd")));
        QVERIFY(!window().actions().verifyPlan->isEnabled());
        QCOMPARE(window().page().budgetBar()->findChildren<ResultFigure*>().at(0)->number(),
                 QStringLiteral("None possible"));
        QVERIFY(!window().page().budgetBar()->findChildren<ResultFigure*>().at(1)->isVisible());
    }

    void closingShowsTheStartPageWithTheFile()
    {
        openStep();
        window().actions().closeStep->trigger();
        QVERIFY(!window().session().isOpen());
        QVERIFY(window().startPage().isVisible());
        QVERIFY(!window().actions().exportPolicy->isEnabled());
    }

    void settingsAreKept()
    {
        openStep();
        window().actions().themeDark->trigger();
        QVERIFY(window().palette().color(QPalette::Window).lightness() < 128);
        window().resize(1111, 777);
        window().close();
        destroyWindow();
        makeWindow();
        QVERIFY(window().theme().choice() == ThemeChoice::dark);
        QVERIFY(window().actions().themeDark->isChecked());
        QCOMPARE(window().size(), QSize(1111, 777));
        QCOMPARE(settings().recentFiles(), QStringList{file()});
    }
};

QTEST_MAIN(WindowFilesTest)
#include "window_files_test.moc"
