// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/interpreters.h"
#include "app/recording/record_dialog.h"
#include "app/recording/recording_bar.h"
#include "tests/views/tab_order.h"

#include <QCheckBox>
#include <QClipboard>
#include <QComboBox>
#include <QDir>
#include <QGuiApplication>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>

using namespace headroom;

/// The dialog that asks how something is recorded, and the values behind it.
class RecordDialogTest : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void init()
    {
        folder_ = std::make_unique<QTemporaryDir>();
        request_ = {};
    }
    void cleanup() { dialog_.reset(); }

    void kindsOfFiles_data()
    {
        QTest::addColumn<QString>("name");
        QTest::addColumn<int>("kind");
        const auto row = [](const char* name, SourceKind kind) {
            QTest::newRow(name) << QString::fromLatin1(name) << static_cast<int>(kind);
        };
        row("a/step.hrs", SourceKind::step);
        row("a/model.pt2", SourceKind::exported);
        row("a/MODEL.PT", SourceKind::torchScript);
        row("a/train.py", SourceKind::script);
        row("a/model.pth", SourceKind::weights);
        row("a/model.safetensors", SourceKind::weights);
        row("a/train.ipynb", SourceKind::notebook);
        row("a/anything", SourceKind::step);
    }
    void kindsOfFiles()
    {
        QFETCH(const QString, name);
        QFETCH(const int, kind);
        QCOMPARE(static_cast<int>(sourceKind(name)), kind);
        const bool refused
            = kind == static_cast<int>(SourceKind::weights) || kind == static_cast<int>(SourceKind::notebook);
        QCOMPARE(!whyNotOpened(sourceKind(name), name).isEmpty(), refused);
    }

    void shellLinesGoBothWays()
    {
        bool complete = false;
        const QStringList words{QStringLiteral("--data"), QStringLiteral("my data/it's"), QString(),
                                QStringLiteral("~/a\"b"), QStringLiteral("$HOME"),        QStringLiteral("x=1")};
        QCOMPARE(shellWords(shellLine(words), complete), words);
        QVERIFY(complete);
        QCOMPARE(shellWords(QStringLiteral("a\\ b \"c \\\" d\" ''"), complete),
                 (QStringList{QStringLiteral("a b"), QStringLiteral("c \" d"), QString()}));
        QVERIFY(complete);
        shellWords(QStringLiteral("--name 'open"), complete);
        QVERIFY(!complete);
    }

    void modelCommandFollowsTheFields()
    {
        openModel();
        QCOMPARE(command(),
                 QStringLiteral("torch-headroom record %1 --gpu h100-80gb --optimizer adam --loss sum -o out.hrs")
                     .arg(request_.model));
        choose("gpu", "t4-16gb");
        type("batch", "32");
        type("sequence", "128");
        choose("precision", "autocast");
        choose("optimizer", "sgd");
        type("momentum", "0.9");
        choose("loss", "mean");
        choose("lifetimes", "graph");
        dialog_->findChild<QCheckBox*>()->setChecked(true);
        type("settings", "n_layers=2 name='a b'");
        QCOMPARE(
            command(),
            QStringLiteral(
                "torch-headroom record %1 --gpu t4-16gb --batch 32 --seq 128 --autocast --optimizer sgd --momentum "
                "0.9 --loss mean --lifetimes graph --hold-output --set n_layers=2 --set 'name=a b' -o "
                "out.hrs")
                .arg(request_.model));
        QVERIFY(recordButton()->isEnabled());
        QTest::mouseClick(dialog_->findChild<QPushButton*>(QStringLiteral("copyCommand")), Qt::LeftButton);
        QCOMPARE(QGuiApplication::clipboard()->text(), command());
    }

    void wrongFieldsAreSaidWhileTyping_data()
    {
        QTest::addColumn<QString>("field");
        QTest::addColumn<QString>("wrong");
        QTest::addColumn<QString>("right");
        QTest::addColumn<QString>("words");
        QTest::newRow("batch") << "batch"
                               << "0"
                               << "8"
                               << "A whole number from 1";
        QTest::newRow("batch text") << "batch"
                                    << "many"
                                    << ""
                                    << "A whole number from 1";
        QTest::newRow("sequence") << "sequence"
                                  << "-3"
                                  << "77"
                                  << "A whole number from 1";
        QTest::newRow("settings") << "settings"
                                  << "n_layers"
                                  << "n_layers=3"
                                  << "KEY=VALUE";
        QTest::newRow("quote") << "settings"
                               << "a='b"
                               << "a='b'"
                               << "quote is not closed";
    }
    void wrongFieldsAreSaidWhileTyping()
    {
        QFETCH(const QString, field);
        QFETCH(const QString, wrong);
        QFETCH(const QString, right);
        QFETCH(const QString, words);
        openModel();
        auto* edit = dialog_->findChild<QLineEdit*>(field);
        edit->setText(wrong);
        QVERIFY(!recordButton()->isEnabled());
        QVERIFY2(edit->accessibleDescription().contains(words), qPrintable(edit->accessibleDescription()));
        edit->setText(right);
        QVERIFY(recordButton()->isEnabled());
        QCOMPARE(edit->accessibleDescription(), QString());
    }

    void momentumIsOnlyAskedOfSgd()
    {
        openModel();
        auto* momentum = dialog_->findChild<QLineEdit*>(QStringLiteral("momentum"));
        QVERIFY(!momentum->isEnabled());
        choose("optimizer", "sgd");
        QVERIFY(momentum->isEnabled());
        momentum->setText(QStringLiteral("2"));
        QVERIFY(!recordButton()->isEnabled());
        choose("optimizer", "adam");
        QVERIFY(recordButton()->isEnabled());
        QVERIFY(!command().contains(QStringLiteral("--momentum")));
    }

    void everyFieldHasANameAndIsReachedByTab()
    {
        openModel();
        QSet<QWidget*> missing;
        for (QWidget* widget : dialog_->findChildren<QWidget*>()) {
            const bool field = qobject_cast<QLineEdit*>(widget) || qobject_cast<QComboBox*>(widget);
            if (!field || !widget->isVisible() || !widget->isEnabled()
                || widget->objectName().startsWith(QLatin1String("qt_")))
                continue;
            QVERIFY2(!widget->accessibleName().isEmpty(), qPrintable(widget->objectName()));
            missing << widget;
        }
        QVERIFY(missing.size() >= 8);
        for (int i = 0; i < 40 && !missing.isEmpty(); ++i) {
            missing.remove(dialog_->focusWidget());
            QTest::keyClick(dialog_->focusWidget() ? dialog_->focusWidget() : dialog_.get(), Qt::Key_Tab);
        }
        QVERIFY2(missing.isEmpty(), qPrintable(missing.isEmpty() ? QString() : (*missing.begin())->objectName()));
    }

    void enterRecordsAndEscapeDoesNot()
    {
        openModel();
        QSignalSpy accepted(dialog_.get(), &QDialog::accepted);
        QSignalSpy rejected(dialog_.get(), &QDialog::rejected);
        auto* batch = dialog_->findChild<QLineEdit*>(QStringLiteral("batch"));
        batch->setFocus();
        QTest::keyClicks(batch, QStringLiteral("0"));
        QTest::keyClick(batch, Qt::Key_Return); // is wrong
        QCOMPARE(accepted.count(), 0);
        QTest::keyClick(batch, Qt::Key_Backspace);
        QTest::keyClicks(batch, QStringLiteral("16"));
        QTest::keyClick(batch, Qt::Key_Return);
        QCOMPARE(accepted.count(), 1);
        QCOMPARE(dialog_->request().batch, QStringLiteral("16"));
        dialog_->show();
        QTest::keyClick(dialog_.get(), Qt::Key_Escape);
        QCOMPARE(rejected.count(), 1);
    }

    void scriptCommandFollowsTheFields()
    {
        openScript();
        type("arguments", "--epochs 3 --data 'my data'");
        type("steps", "4");
        choose("gpu", "a100-40gb");
        QCOMPARE(command(),
                 QStringLiteral(
                     "cd %1 && %2 -m torch_headroom.record --gpu a100-40gb --steps 4 -o out.hrs %3 --epochs 3 --data "
                     "'my data'")
                     .arg(folder_->path(), python(), request_.model));
        type("processes", "8");
        type("nodes", "2");
        type("rank", "15");
        QVERIFY(recordButton()->isEnabled());
        QVERIFY2(command().contains(QStringLiteral("--steps 4 --nproc-per-node 8 --nnodes 2 --rank 15 -o out.hrs")),
                 qPrintable(command()));
        type("rank", "16"); // of 16
        QVERIFY(!recordButton()->isEnabled());
        type("rank", "");
        type("processes", "");
        QVERIFY(!recordButton()->isEnabled()); // two nodes of how many
        type("nodes", "");
        QVERIFY(recordButton()->isEnabled() && !command().contains(QStringLiteral("nproc")));
        type("arguments", "--data 'open");
        QVERIFY(!recordButton()->isEnabled());
        type("arguments", "");
        type("workingFolder", "/nowhere");
        QVERIFY(!recordButton()->isEnabled());
        type("workingFolder", folder_->path());
        QVERIFY(recordButton()->isEnabled());
        dialog_->findChild<QComboBox*>(QStringLiteral("interpreter"))->setEditText(QStringLiteral("/nowhere/python"));
        QVERIFY(!recordButton()->isEnabled());
    }

    void pythonWithoutThePackageIsToldHowToGetIt()
    {
        QFile marker(folder_->filePath(QStringLiteral("no-package")));
        QVERIFY(marker.open(QIODevice::WriteOnly));
        openScript();
        auto* install = dialog_->findChild<QLabel*>(QStringLiteral("installCommand"));
        QTRY_VERIFY(install->isVisible());
        QVERIFY2(install->text().startsWith(python() + QStringLiteral(" -m pip install ")),
                 qPrintable(install->text()));
        QVERIFY(!recordButton()->isEnabled());
        marker.remove(); // it is installed now
        for (QPushButton* button : dialog_->findChildren<QPushButton*>()) {
            if (button->text() == QStringLiteral("Look again"))
                QTest::mouseClick(button, Qt::LeftButton);
        }
        QTRY_VERIFY(recordButton()->isEnabled());
        QVERIFY(!install->isVisible());
        QVERIFY(dialog_->findChild<QComboBox*>(QStringLiteral("interpreter"))
                    ->accessibleDescription()
                    .contains(QStringLiteral("Python 3.11.7 with torch 2.11.0")));
    }

    void interpretersAreFoundBesideTheScript()
    {
        QVERIFY(QDir(folder_->path()).mkpath(QStringLiteral(".venv/bin")));
        const QString beside = folder_->filePath(QStringLiteral(".venv/bin/python3"));
        QVERIFY(QFile::copy(python(), beside));
        const auto found = findInterpreters(folder_->filePath(QStringLiteral("train.py")), python());
        const auto place = [&](const QString& path) {
            return std::find_if(found.begin(), found.end(), [&](const Interpreter& i) { return i.path == path; });
        };
        QVERIFY(place(beside) != found.end());
        QVERIFY(place(python()) != found.end());
        QVERIFY(place(beside) < place(python()));
    }

    void choicesAreTakenAgain()
    {
        RecordRequest before;
        before.optimizer = QStringLiteral("sgd");
        before.batch = QStringLiteral("4");
        before.holdOutput = true;
        RecordRequest after;
        takeChoices(after, kindChoices(before));
        QCOMPARE(after.optimizer, before.optimizer);
        QVERIFY(after.holdOutput);
        QCOMPARE(after.batch, QString()); // of another file
        takeChoices(after, fileChoices(before));
        QCOMPARE(after.batch, before.batch);
    }

    void tabGoesForwardAsBackward_data()
    {
        QTest::addColumn<bool>("script");
        QTest::newRow("model") << false;
        QTest::newRow("script") << true;
    }
    void tabGoesForwardAsBackward()
    {
        QFETCH(const bool, script);
        if (script)
            openScript();
        else
            openModel();
        dialog_->findChild<QComboBox*>(script ? QStringLiteral("interpreter") : QStringLiteral("gpu"))->setFocus();
        const QString fault = tabOrderFault(*dialog_);
        QVERIFY2(fault.isEmpty(), qPrintable(fault));
        QPoint before;
        for (const QWidget* widget : focusRound(*dialog_, Qt::Key_Tab)) { // as one reads
            const QPoint place = widget->mapTo(dialog_.get(), QPoint());
            const bool isBeside = std::abs(place.y() - before.y()) < 8 && place.x() > before.x();
            QVERIFY2(isBeside || place.y() > before.y(), qPrintable(widget->objectName()));
            before = place;
        }
    }

    void timeLeftIsSaidOnlyWhenItMeansSomething()
    {
        TimeLeft left;
        QVERIFY(!left.secondsLeft(0));
        left.report(0, 0);
        left.report(0.5, 0.4); // fast, but it has just begun
        QVERIFY(!left.secondsLeft(0.5));
        left.report(10, 0.5);
        QCOMPARE(left.secondsLeft(10).value(), 10.0);
        QCOMPARE(left.secondsLeft(14).value(), 6.0);
        QVERIFY(!left.secondsLeft(21)); // it takes longer than said
        left.report(25, 0.1); // the next pass
        QVERIFY(!left.secondsLeft(25));
        QCOMPARE(timeLeftText(4), QStringLiteral("a few seconds left"));
        QCOMPARE(timeLeftText(34), QStringLiteral("about 40 s left"));
        QCOMPARE(timeLeftText(58), QStringLiteral("about a minute left"));
        QCOMPARE(timeLeftText(200), QStringLiteral("about 3 min left"));
        QCOMPARE(elapsedText(200), QStringLiteral("3 min 20 s"));
    }

private:
    static QString python() { return QStringLiteral(HEADROOM_SOURCE_DIR "/tests/views/fake_python.sh"); }

    void openModel()
    {
        request_.kind = SourceKind::exported;
        request_.model = folder_->filePath(QStringLiteral("model.pt2"));
        openDialog();
    }
    void openScript()
    {
        request_.kind = SourceKind::script;
        request_.model = folder_->filePath(QStringLiteral("train.py"));
        request_.workingFolder = folder_->path();
        request_.interpreter = python();
        openDialog();
        dialog_->findChild<QComboBox*>(QStringLiteral("interpreter"))->setEditText(python());
    }
    void openDialog()
    {
        dialog_ = std::make_unique<RecordDialog>(request_, QStringLiteral("/bin/torch-headroom-record"),
                                                 QStringLiteral("out.hrs"));
        dialog_->show();
        QVERIFY(QTest::qWaitForWindowExposed(dialog_.get()));
    }
    void type(const char* name, const QString& text)
    {
        dialog_->findChild<QLineEdit*>(QString::fromLatin1(name))->setText(text);
    }
    void type(const char* name, const char* text) { type(name, QString::fromLatin1(text)); }
    void choose(const char* name, const char* data)
    {
        auto* box = dialog_->findChild<QComboBox*>(QString::fromLatin1(name));
        const int index = box->findData(QString::fromLatin1(data));
        QVERIFY2(index >= 0, data);
        box->setCurrentIndex(index);
    }
    QString command() const
    {
        QString shown = dialog_->findChild<QLabel*>(QStringLiteral("recordCommand"))->text();
        return shown.replace(QStringLiteral(" \\\n    "), QStringLiteral(" "));
    }
    QPushButton* recordButton() const { return dialog_->findChild<QPushButton*>(QStringLiteral("recordButton")); }

    std::unique_ptr<QTemporaryDir> folder_;
    RecordRequest request_;
    std::unique_ptr<RecordDialog> dialog_;
};

QTEST_MAIN(RecordDialogTest)
#include "record_dialog_test.moc"
