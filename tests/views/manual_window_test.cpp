// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// The manual's window: pages, links, search, history, keys, both themes.

#include "tests/views/tab_order.h"
#include "views/manual/manual_pages.h"
#include "views/manual/manual_window.h"
#include "views/theme/theme.h"

#include <QApplication>
#include <QFile>
#include <QImage>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QScrollBar>
#include <QTest>
#include <QTextBlock>
#include <QToolButton>
#include <QTreeWidget>

#include <memory>

using namespace headroom;

namespace {

/// Links and pictures of a page as they are in the document that is shown.
QStringList targets(const QTextDocument& document, bool pictures)
{
    QStringList found;
    for (QTextBlock block = document.begin(); block.isValid(); block = block.next()) {
        for (auto it = block.begin(); !it.atEnd(); ++it) {
            const QTextCharFormat format = it.fragment().charFormat();
            const QString target = pictures ? format.toImageFormat().name() : format.anchorHref();
            if (!target.isEmpty() && format.isImageFormat() == pictures)
                found.push_back(target);
        }
    }
    return found;
}

} // namespace

class ManualWindowTest : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void init()
    {
        applyTheme(*qApp, Theme::make(false));
        window_ = std::make_unique<ManualWindow>();
        window_->resize(1280, 800);
        window_->showLink({});
        window_->show();
        QVERIFY(QTest::qWaitForWindowActive(window_.get()));
    }
    void cleanup() { window_.reset(); }

    void beginsWithTheFirstPageOfItsContents()
    {
        QCOMPARE(window_->link(), QStringLiteral("tour.md"));
        QVERIFY(view().toPlainText().startsWith(QStringLiteral("A tour in pictures")));
        QCOMPARE(static_cast<std::size_t>(window_->contents()->topLevelItemCount()), pages().pages().size());
        QCOMPARE(window_->contents()->currentItem()->text(0), QStringLiteral("A tour in pictures"));
        window_->showLink(QStringLiteral("no-such-page.md"));
        QCOMPARE(window_->link(), QStringLiteral("tour.md"));
    }

    void everyLinkAndPictureOfEveryPageIsInTheProgram()
    {
        QVERIFY(pages().pages().size() > 10);
        int links = 0;
        int pictures = 0;
        for (const ManualPage& page : pages().pages()) {
            QVERIFY2(page.sections.size() > 1, qPrintable(page.file));
            window_->showLink(page.file);
            for (const QString& target : targets(*view().document(), false)) {
                const QString link = target.startsWith(QLatin1Char('#')) ? QString(page.file + target) : target;
                QVERIFY2(pages().findSection(link), qPrintable(page.file + QStringLiteral(": ") + link));
                ++links;
            }
            for (const QString& picture : targets(*view().document(), true)) {
                QVERIFY2(!QImage(manualResource(picture)).isNull(), qPrintable(picture));
                ++pictures;
            }
        }
        QVERIFY(links > 40);
        QVERIFY(pictures > 3);
    }

    void aLinkOpensItsHeadingAndBackReturnsToTheLine()
    {
        window_->showLink(QStringLiteral("commands.md"));
        view().verticalScrollBar()->setValue(900);
        Q_EMIT view().anchorClicked(QUrl(QStringLiteral("numbers.md#two-formulations")));
        QCOMPARE(window_->link(), QStringLiteral("numbers.md#two-formulations"));
        QCOMPARE(view().textCursor().block().text(), QStringLiteral("Two formulations"));
        QVERIFY(view().verticalScrollBar()->value() > 0);
        QCOMPARE(window_->contents()->currentItem()->text(0), QStringLiteral("Two formulations"));
        QTest::keyClick(&view(), Qt::Key_Left, Qt::AltModifier);
        QCOMPARE(window_->link(), QStringLiteral("commands.md"));
        QCOMPARE(view().verticalScrollBar()->value(), 900);
        QTest::keyClick(&view(), Qt::Key_Right, Qt::AltModifier);
        QCOMPARE(window_->link(), QStringLiteral("numbers.md#two-formulations"));
        QTest::keyClick(&view(), Qt::Key_Right, Qt::AltModifier); // there is nothing
        QCOMPARE(window_->link(), QStringLiteral("numbers.md#two-formulations"));
        Q_EMIT view().anchorClicked(QUrl(QStringLiteral("#price")));
        QCOMPARE(window_->link(), QStringLiteral("numbers.md#price"));
    }

    void tabGoesForwardAsBackward()
    {
        window_->showLink(QStringLiteral("commands.md"));
        window_->search()->setFocus();
        const QString fault = tabOrderFault(*window_);
        QVERIFY2(fault.isEmpty(), qPrintable(fault));
    }

    void contentsAreReadWithTheKeyboard()
    {
        window_->contents()->setFocus();
        QTest::keyClick(window_->contents(), Qt::Key_Down); // the first section of the tour
        QCOMPARE(window_->link(), QStringLiteral("tour.md#record-one-step"));
        QTest::keyClick(window_->contents(), Qt::Key_End);
        QCOMPARE(window_->contents()->currentItem()->text(0), QStringLiteral("Contributing"));
        QVERIFY(window_->link().startsWith(QStringLiteral("contributing.md")));
        QTest::keyClick(window_->contents(), Qt::Key_Return);
        QVERIFY(view().hasFocus());
    }

    void searchFindsAllWordsAndHighlightsThem()
    {
        type("fsdp world size");
        QVERIFY(window_->hits()->isVisible());
        QVERIFY(window_->hits()->count() > 0);
        QTest::keyClick(window_->search(), Qt::Key_Down);
        QVERIFY(window_->hits()->hasFocus());
        const QString link = window_->link();
        const ManualSection* section = pages().findSection(link);
        QVERIFY(section);
        for (const char* word : {"fsdp", "world", "size"})
            QVERIFY2(section->title.contains(QLatin1String(word), Qt::CaseInsensitive)
                         || section->words.contains(QLatin1String(word), Qt::CaseInsensitive),
                     word);
        QVERIFY(view().matches() > 0);
        QCOMPARE(view().extraSelections().size(), view().matches());
        QVERIFY(count().contains(QStringLiteral(" of ")));
        QTest::keyClick(window_->hits(), Qt::Key_Return);
        QVERIFY(view().hasFocus());
    }

    void placesOfAPageAreGoneThroughAroundItsEnd()
    {
        window_->showLink(QStringLiteral("plan.md"));
        type("policy");
        QTest::keyClick(window_->search(), Qt::Key_Return);
        const int matches = view().matches();
        QVERIFY(matches > 2);
        const int first = view().currentMatch();
        QTest::keyClick(&view(), Qt::Key_F3);
        QCOMPARE(view().currentMatch(), (first + 1) % matches);
        for (int i = 1; i < matches; ++i)
            QTest::keyClick(&view(), Qt::Key_F3);
        QCOMPARE(view().currentMatch(), first);
        QTest::keyClick(&view(), Qt::Key_F3, Qt::ShiftModifier);
        QCOMPARE(view().currentMatch(), (first + matches - 1) % matches);
        QVERIFY(view().viewport()->rect().contains(view().cursorRect()));
    }

    void titlesComeFirstAndWhatIsNotThereIsSaid()
    {
        const std::vector<ManualHit> hits = pages().search(QStringLiteral("exit codes"));
        QVERIFY(!hits.empty());
        QCOMPARE(hits.front().link(), QStringLiteral("commands.md#exit-codes"));
        QVERIFY(pages().search(QStringLiteral("  ")).empty());
        type("xyzzy");
        QVERIFY(!window_->hits()->isVisible());
        QVERIFY(!window_->contents()->isVisible());
        QTest::keyClick(window_->search(), Qt::Key_Return);
        QCOMPARE(window_->link(), QStringLiteral("tour.md"));
    }

    void escapeLeavesTheSearchThenTheWindow()
    {
        type("reserved");
        QTest::keyClick(window_->search(), Qt::Key_Return);
        QVERIFY(view().matches() > 0);
        QTest::keyClick(&view(), Qt::Key_Escape);
        QVERIFY(window_->contents()->isVisible());
        QCOMPARE(view().matches(), 0);
        QVERIFY(count().isEmpty());
        QTest::keyClick(window_.get(), Qt::Key_Escape);
        QVERIFY(!window_->isVisible());
    }

    void theKeyboardReachesEverything()
    {
        QTest::keyClick(window_.get(), Qt::Key_F, Qt::ControlModifier);
        QVERIFY(window_->search()->hasFocus());
        QTest::keyClick(window_->search(), Qt::Key_Tab);
        QVERIFY(window_->contents()->hasFocus());
        QTest::keyClick(window_->contents(), Qt::Key_Tab);
        QVERIFY(view().hasFocus());
        for (const QWidget* widget :
             std::initializer_list<QWidget*>{window_->search(), window_->contents(), &view(), window_->hits()})
            QVERIFY(!widget->accessibleName().isEmpty());
    }

    void anotherThemeKeepsThePlace()
    {
        window_->showLink(QStringLiteral("limits.md"));
        type("checkpoint");
        QTest::keyClick(window_->search(), Qt::Key_Return);
        const QString link = window_->link();
        const int matches = view().matches();
        const int current = view().currentMatch();
        const int scrolled = view().verticalScrollBar()->value();
        applyTheme(*qApp, Theme::make(true));
        QCOMPARE(window_->link(), link);
        QCOMPARE(view().matches(), matches);
        QCOMPARE(view().currentMatch(), current);
        QCOMPARE(view().verticalScrollBar()->value(), scrolled);
        const QImage dark = view().grab().toImage();
        QCOMPARE(dark.pixelColor(5, dark.height() - 5), Theme::make(true).card);
    }

    void picturesFitTheColumn()
    {
        window_->resize(700, 600);
        window_->showLink(QStringLiteral("tour.md#drag-the-budget"));
        QCOMPARE(view().horizontalScrollBar()->maximum(), 0);
    }

private:
    static const ManualPages& pages() { return ManualPages::all(); }
    ManualView& view() { return *window_->view(); }
    QString count() { return window_->findChild<QLabel*>(QStringLiteral("manualCount"))->text(); }
    void type(const char* words)
    {
        window_->search()->clear();
        window_->search()->setFocus();
        QTest::keyClicks(window_->search(), QString::fromLatin1(words));
    }

    std::unique_ptr<ManualWindow> window_;
};

QTEST_MAIN(ManualWindowTest)
#include "manual_window_test.moc"
