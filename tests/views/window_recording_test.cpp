// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/record_dialog.h"
#include "app/recording/recording.h"
#include "app/recording/recording_bar.h"
#include "app/window/record_controller.h"
#include "core/trace/step_file.h"
#include "tests/core/synthetic_step.h"
#include "tests/views/window_fixture.h"
#include "views/widgets/message_bar.h"

#include <QApplication>
#include <QComboBox>
#include <QDir>
#include <QLabel>
#include <QLineEdit>
#include <QMessageBox>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QTest>
#include <QTimer>
#include <QToolButton>

using namespace headroom;

/// Models and training scripts in the window: the dialog, the bar while it records, and what comes of it.
class WindowRecordingTest : public WindowFixture
{
    Q_OBJECT

private Q_SLOTS:
    void cleanup()
    {
        destroyWindow();
        QDir(inFolder(QStringLiteral("recordings"))).removeRecursively();
    }

    void demoCanBeCancelled()
    {
        demo("slow");
        QTRY_COMPARE(bar().message(), QStringLiteral("Recording Demo: forward, 25 %"));
        QVERIFY(bar().isVisible());
        QVERIFY(!bar().outputButton()->isVisible());
        QTest::mouseClick(bar().actionButton(), Qt::LeftButton);
        QTRY_COMPARE(window().messages().type(), MessageBar::MessageType::done);
        QVERIFY(!bar().isVisible());
        QVERIFY(!controller().recording().running());
        QVERIFY(!QFile::exists(inFolder(QStringLiteral("recordings/demo.hrs"))));
        QVERIFY(!window().session().isOpen());
    }

    void demoIsOpenedWhenItIsDone()
    {
        demo("copy:" + file().toUtf8());
        QTRY_VERIFY(window().session().isOpen());
        QCOMPARE(window().session().step()->path, inFolder(QStringLiteral("recordings/demo.hrs")));
        QVERIFY(!bar().isVisible());
    }

    void failureIsOneSentenceAndTheWindowGoesOn_data()
    {
        QTest::addColumn<QString>("words");
        QTest::newRow("refuse") << QStringLiteral("demo:refuse: unknown model; known are demo:mlp, demo:transformer.");
        QTest::newRow("crash") << QStringLiteral("crashed in the stage “forward” with a segmentation fault");
        QTest::newRow("killed") << QStringLiteral("ran out of memory");
    }
    void failureIsOneSentenceAndTheWindowGoesOn()
    {
        QFETCH(const QString, words);
        openStep();
        const OpenStepPtr before = window().session().step();
        demo(QTest::currentDataTag());
        QTRY_VERIFY(bar().failed());
        QVERIFY2(bar().message().contains(words), qPrintable(bar().message()));
        QCOMPARE(bar().message().count(QLatin1Char('\n')), 0);
        QVERIFY(!bar().actionButton()->isVisible()); // a demo has no options
        QCOMPARE(window().session().step(), before);
        window().session().commitBudget(peak() / 2); // goes on
        QTRY_VERIFY(window().session().answerIsCurrent());
        QTest::keyClick(&bar(), Qt::Key_Escape);
        QVERIFY(!bar().isVisible());
    }

    void secondRecordingIsRefusedWhileOneRuns()
    {
        demo("slow");
        QTRY_VERIFY(controller().recording().running());
        demo("refuse");
        QCOMPARE(window().messages().type(), MessageBar::MessageType::error);
        QVERIFY(controller().recording().running());
    }

    void modelIsAskedForAndRecorded()
    {
        const QString model = inFolder(QStringLiteral("model.pt2"));
        QVERIFY(QFile::exists(model) || QFile::copy(file(), model)); // the fake recorder copies it
        window().openFile(model);
        QVERIFY(controller().dialog());
        QVERIFY(!controller().recording().running());
        field<QLineEdit>("batch")->setText(QStringLiteral("16"));
        QTest::keyClick(field<QLineEdit>("batch"), Qt::Key_Return);
        QTRY_VERIFY(window().session().isOpen());
        QCOMPARE(window().session().step()->path, inFolder(QStringLiteral("recordings/model.hrs")));
        QTRY_VERIFY(!controller().dialog());

        window().openFile(model); // what was chosen is there again
        QCOMPARE(field<QLineEdit>("batch")->text(), QStringLiteral("16"));
        controller().dialog()->reject();
    }

    void missingModelIsSaid()
    {
        window().openFile(inFolder(QStringLiteral("gone.pt2")));
        QVERIFY(!controller().dialog());
        QVERIFY(window().messages().message().contains(QStringLiteral("gone.pt2: No such file")));
    }

    void emptyModelIsSaid()
    {
        const QString model = inFolder(QStringLiteral("empty.pt2"));
        QVERIFY(QFile(model).open(QIODevice::WriteOnly));
        window().openFile(model);
        QVERIFY(!controller().dialog());
        QCOMPARE(window().messages().message(),
                 model
                     + QStringLiteral(" is empty, and no model: save the model again with torch.export.save or "
                                      "torch.jit.save."));
    }

    void weightsAreRefusedWithAdvice()
    {
        window().openFile(QStringLiteral("weights.safetensors"));
        QCOMPARE(window().messages().type(), MessageBar::MessageType::error);
        QVERIFY(window().messages().message().contains(QStringLiteral("torch.export.save")));
    }

    void scriptIsRecordedAndItsOutputShown()
    {
        startScript("copies.py");
        QTRY_VERIFY(window().session().isOpen());
        QCOMPARE(window().session().step()->path, inFolder(QStringLiteral("recordings/copies.hrs")));
        QCOMPARE(settings().recordChoices(SourceKind::script).value(QStringLiteral("interpreter")).toString(),
                 python());
    }

    void waitingScriptShowsItsOutputAndIsCancelled()
    {
        startScript("waits.py");
        QTRY_VERIFY(bar().log()->toPlainText().contains(QStringLiteral("waiting")));
        QVERIFY(!bar().log()->isVisible());
        QTest::mouseClick(bar().outputButton(), Qt::LeftButton);
        QVERIFY(bar().log()->isVisible());
        QVERIFY(bar().times().startsWith(QStringLiteral("0 s")) || bar().times().startsWith(QStringLiteral("1 s")));
        QTest::keyClick(bar().actionButton(), Qt::Key_Space);
        QTRY_VERIFY(!bar().isVisible());
        QVERIFY(!controller().recording().running());
    }

    void outputFitsOnASmallScreen()
    {
        openStep();
        bar().begin(QStringLiteral("train.py"), true);
        bar().outputButton()->setChecked(true);
        window().resize(1280, 800);
        QTRY_COMPARE(window().size(), QSize(1280, 800));
        QVERIFY2(window().minimumSizeHint().height() <= 760,
                 qPrintable(QString::number(window().minimumSizeHint().height())));
        QVERIFY(bar().log()->height() >= 3 * bar().log()->fontMetrics().height());
        bar().finish();
    }

    void failedScriptOffersItsOptionsAgain()
    {
        startScript("fails.py");
        QTRY_VERIFY(bar().failed());
        QCOMPARE(bar().message(), QStringLiteral("fails.py: ValueError: no data in ./data."));
        QVERIFY(bar().log()->toPlainText().contains(QStringLiteral("Traceback")));
        QTest::mouseClick(bar().actionButton(), Qt::LeftButton);
        QVERIFY(controller().dialog());
        QCOMPARE(field<QComboBox>("interpreter")->currentText(), python());
        controller().dialog()->reject();
    }

    void failedImportIsSaidWithItsTraceback()
    {
        startScript("imports.py");
        QTRY_VERIFY(bar().failed());
        QCOMPARE(bar().message(), QStringLiteral("imports.py raised ModuleNotFoundError: No module named 'datasets'."));
        QVERIFY(bar().log()->isVisible());
        QVERIFY(bar().log()->toPlainText().contains(QStringLiteral("File \"imports.py\", line 1")));
    }

    void missingPackageIsSaidWithTheCommandThatInstallsIt()
    {
        startScript("missing.py");
        QTRY_VERIFY(bar().failed());
        QVERIFY2(bar().message().contains(QStringLiteral("has no package torch-headroom: install the package with `")),
                 qPrintable(bar().message()));
    }

    void errorOfARecordingLeavesWhenAStepOpens()
    {
        startScript("fails.py");
        QTRY_VERIFY(bar().failed());
        openStep();
        QVERIFY(!bar().isVisible());
    }

    void recordingsOfOneNameAreKept()
    {
        demo("copy:" + file().toUtf8());
        QTRY_VERIFY(window().session().isOpen());
        const QString first = inFolder(QStringLiteral("recordings/demo.hrs"));
        QCOMPARE(window().session().step()->path, first);
        const QByteArray before = contentOf(first);
        demo("copy:" + otherStep().toUtf8());
        const QString second = inFolder(QStringLiteral("recordings/demo-2.hrs"));
        QTRY_COMPARE(window().session().step()->path, second);
        QCOMPARE(contentOf(first), before);
        QCOMPARE(contentOf(second), contentOf(otherStep()));
        demo("copy:" + otherStep().toUtf8()); // the same bytes need no third file
        QTRY_VERIFY(!controller().recording().running());
        QVERIFY(!QFile::exists(inFolder(QStringLiteral("recordings/demo-3.hrs"))));
        QCOMPARE(settings().recentFiles(), QStringList({second, first}));
    }

    void stepThatIsKeptOpenStaysOnTheDiskAndTheRecordingIsOffered()
    {
        demo("copy:" + file().toUtf8());
        QTRY_VERIFY(window().session().isOpen());
        QTRY_VERIFY(window().session().answerIsCurrent());
        const QString first = window().session().step()->path;
        const QByteArray before = contentOf(first);
        window().session().commitBudget(peak() / 2);
        window().askBeforeClosing(true);
        QTimer::singleShot(0, this, [] { cancelModal(); });
        demo("copy:" + otherStep().toUtf8());
        QTRY_COMPARE(window().messages().type(), MessageBar::MessageType::note);
        QCOMPARE(window().session().step()->path, first);
        QCOMPARE(contentOf(first), before);
        QCOMPARE(window().messages().message(), QStringLiteral("demo-2.hrs is recorded; the step before stays open."));
        window().askBeforeClosing(false);
        window().messages().actionButton()->click();
        QTRY_COMPARE(window().session().step()->path, inFolder(QStringLiteral("recordings/demo-2.hrs")));
    }

    void exceptionAfterTheStepIsSaidBesideTheStep()
    {
        startScript("raises.py");
        QTRY_VERIFY(window().session().isOpen());
        QCOMPARE(window().messages().type(), MessageBar::MessageType::error);
        QVERIFY2(window().messages().message().contains(QStringLiteral("RuntimeError: after the step")),
                 qPrintable(window().messages().message()));
        QVERIFY(!bar().isVisible());
        window().messages().actionButton()->click();
        QVERIFY(bar().log()->isVisible());
        QVERIFY(bar().log()->toPlainText().contains(QStringLiteral("Traceback")));
    }

    void aStepFileStartsNoProgramWithoutConsent()
    {
        // Leaves a file beside itself when it is started, whatever for.
        const QString foreign = inFolder(QStringLiteral("foreign_python"));
        QFile program(foreign);
        QVERIFY(program.open(QIODevice::WriteOnly));
        program.write("#!/bin/sh\ntouch \"$0.started\"\n");
        program.close();
        QVERIFY(program.setPermissions(program.permissions() | QFile::ExeOwner));
        const StepTrace step = stepOf(inFolder(QStringLiteral("train.py")), foreign);
        const auto started = [&] { return QFile::exists(foreign + QStringLiteral(".started")); };
        const auto box = [&] { return window().findChild<QMessageBox*>(QStringLiteral("interpreterConsent")); };
        const auto press = [&](QMessageBox::ButtonRole role) {
            for (QAbstractButton* button : box()->buttons())
                if (box()->buttonRole(button) == role)
                    button->click();
        };

        controller().askAgain(step, "h100-80gb");
        QVERIFY(box());
        QVERIFY2(box()->text().contains(foreign), qPrintable(box()->text()));
        QVERIFY(!controller().dialog());
        press(QMessageBox::RejectRole);
        QVERIFY(controller().dialog());
        QVERIFY(field<QComboBox>("interpreter")->currentText() != foreign);
        QTest::qWait(300);
        QVERIFY(!started());
        controller().dialog()->reject();
        QTRY_VERIFY(!box());

        controller().askAgain(step, "h100-80gb");
        QVERIFY(box());
        press(QMessageBox::AcceptRole);
        QVERIFY(controller().dialog());
        QCOMPARE(field<QComboBox>("interpreter")->currentText(), foreign);
        QTRY_VERIFY(started());
        controller().dialog()->reject();
        QTRY_VERIFY(!box());

        controller().askAgain(step, "h100-80gb"); // the consent is remembered
        QVERIFY(!box());
        QVERIFY(controller().dialog());
        controller().dialog()->reject();
    }

    void aPythonBesideAStepsScriptNeedsConsentToo()
    {
        const QString environment = inFolder(QStringLiteral("downloaded/.venv/bin"));
        QVERIFY(QDir().mkpath(environment));
        QVERIFY(QFile::copy(python(), environment + QStringLiteral("/python3")));
        StepTrace step = stepOf(inFolder(QStringLiteral("downloaded/train.py")), {});
        step.info.settings.resize(1); // the program alone
        controller().askAgain(step, "h100-80gb");
        auto* box = window().findChild<QMessageBox*>(QStringLiteral("interpreterConsent"));
        const bool first = !qEnvironmentVariableIsSet("VIRTUAL_ENV") && !qEnvironmentVariableIsSet("CONDA_PREFIX");
        QCOMPARE(box != nullptr, first); // an active environment comes first
        if (box)
            box->close();
        if (controller().dialog())
            controller().dialog()->reject();
    }

    void longLogsKeepTheirEnd()
    {
        RecordingBar longBar;
        longBar.begin(QStringLiteral("train.py"), true);
        QStringList lines;
        for (int i = 0; i < 3 * RecordingBar::lineLimit; ++i)
            lines << QString::number(i);
        longBar.addLines(lines);
        longBar.showFailure(QStringLiteral("It failed."), true);
        QCOMPARE(longBar.log()->document()->blockCount(), RecordingBar::lineLimit);
        QVERIFY(longBar.log()->toPlainText().endsWith(QString::number(3 * RecordingBar::lineLimit - 1)));
    }

private:
    static QByteArray contentOf(const QString& path)
    {
        QFile file(path);
        return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
    }

    QString otherStep()
    {
        const QString path = inFolder(QStringLiteral("other.hrs"));
        if (!QFile::exists(path) && !writeStepTrace(*makeSyntheticStep({.blocks = 3}), path.toStdString()))
            qFatal("no other step");
        return path;
    }

    /// Answers the next modal question with Cancel.
    static void cancelModal()
    {
        auto* box = qobject_cast<QMessageBox*>(QApplication::activeModalWidget());
        if (box)
            box->button(QMessageBox::Cancel)->click();
        else
            QTimer::singleShot(10, [] { cancelModal(); });
    }

    static QString python() { return QStringLiteral(HEADROOM_SOURCE_DIR "/tests/views/fake_python.sh"); }
    RecordController& controller() { return window().recordController(); }
    RecordingBar& bar() { return window().recordingBar(); }

    /// A step whose file names this Python and this script, and the folder that it ran in.
    StepTrace stepOf(const QString& script, const QString& interpreter)
    {
        QFile content(script);
        if (!content.open(QIODevice::WriteOnly))
            qFatal("the script cannot be written");
        StepTrace step = *makeSyntheticStep();
        step.info.arguments = {script.toStdString()};
        step.info.settings = {{"program", "train.py"},
                              {"interpreter", interpreter.toStdString()},
                              {"folder", inFolder({}).toStdString()}};
        return step;
    }

    template <class Widget>
    Widget* field(const char* name)
    {
        return controller().dialog()->findChild<Widget*>(QString::fromLatin1(name));
    }

    void demo(const QByteArray& what)
    {
        controller().recordDemo({QStringLiteral("Demo"), {}, {QString::fromUtf8(what)}, QStringLiteral("demo")});
    }

    void startScript(const char* name)
    {
        const QString script = inFolder(QString::fromLatin1(name));
        QFile content(script);
        QVERIFY(content.open(QIODevice::WriteOnly));
        content.close();
        window().openFile(script);
        QVERIFY(controller().dialog());
        field<QComboBox>("interpreter")->setEditText(python());
        auto* record = field<QPushButton>("recordButton");
        QTRY_VERIFY(record->isEnabled());
        QTest::mouseClick(record, Qt::LeftButton);
    }
};

QTEST_MAIN(WindowRecordingTest)
#include "window_recording_test.moc"
