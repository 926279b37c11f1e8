// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/theme/theme.h"
#include "views/widgets/inspector.h"
#include "views/widgets/inspector_parts.h"
#include "views/widgets/labels.h"

#include <QApplication>
#include <QClipboard>
#include <QEnterEvent>
#include <QTest>
#include <QTextDocument>

using namespace headroom;

/// Long names in the inspector, at the width that it has in a window of 1280 pixels.
class InspectorTest : public QObject
{
    Q_OBJECT

    static inline const auto name = QStringLiteral("_fsdp_wrapped_module.model.layers.0._fsdp_wrapped_module.self_attn."
                                                   "_checkpoint_wrapped_module.q_proj");
    std::unique_ptr<Inspector> inspector_;

    WrappedLabel& label(const char* objectName)
    {
        return *inspector_->findChild<WrappedLabel*>(QLatin1String(objectName));
    }

    static double widestLine(const QLabel& label)
    {
        QTextDocument document;
        document.setDocumentMargin(0);
        document.setDefaultFont(label.font());
        document.setHtml(label.text());
        document.setTextWidth(label.width());
        return document.idealWidth();
    }

    static QString copied(WrappedLabel& label)
    {
        QGuiApplication::clipboard()->clear();
        QEnterEvent enter({5, 5}, {5, 5}, {5, 5});
        QCoreApplication::sendEvent(&label, &enter);
        QTest::keyClick(&label, Qt::Key_A, Qt::ControlModifier);
        QTest::keyClick(&label, Qt::Key_C, Qt::ControlModifier);
        return QGuiApplication::clipboard()->text();
    }

private Q_SLOTS:
    void initTestCase() { applyTheme(*qApp, Theme::light()); }

    void init()
    {
        inspector_ = std::make_unique<Inspector>();
        inspector_->resize(290, 700);
        inspector_->show();
    }

    void optionsThatDifferAreNotCalledTheSame()
    {
        CurveTable table;
        table.setPoints(
            {{0, 3e9, 0}, {0.002, 2.99e9, 0.1}, {0.5, 1.5e9, 1}, {0.996, 1.2e7, 2}, {0.9999, 1e6, 3}, {1, 0, 4}}, 2);
        QCOMPARE(table.accessibleDescription(),
                 QStringLiteral("keeps everything, no recompute; discards 0.2 %, +0.10 ms; discards 50 %, +1.00 ms, "
                                "chosen by the plan; discards 99.6 %, +2.00 ms; discards 99.9 %, +3.00 ms; discards "
                                "everything, +4.00 ms"));
    }

    void aLongNameBreaksAfterDotsAndUnderscores()
    {
        ModuleFacts facts;
        facts.reason = QStringLiteral("Frees <b>64.0 MiB</b>. Runs again with <b>%1</b>.").arg(name);
        inspector_->setModule(facts);
        QCoreApplication::processEvents();
        WrappedLabel& reason = label("reason");
        QVERIFY2(widestLine(reason) <= reason.width(), qPrintable(QString::number(widestLine(reason))));
        QVERIFY(reason.height() >= 3 * reason.fontMetrics().height());
        QVERIFY(!reason.QLabel::text().contains(QChar(u'…')));
        QCOMPARE(reason.text(), facts.reason);
        QVERIFY(reason.toolTip().isEmpty());
        QCOMPARE(copied(reason), QStringLiteral("Frees 64.0 MiB. Runs again with %1.").arg(name));
    }

    void tagsStayAsTheyAre()
    {
        ModuleFacts facts;
        facts.reason = QStringLiteral("See <a href=\"https://example.org/a_long_page_of_the_manual\">the page</a>.");
        inspector_->setModule(facts);
        QCOMPARE(label("reason").QLabel::text(), facts.reason);
    }

    void aNameWithoutAPlaceToBreakIsElidedInTheMiddle()
    {
        ModuleFacts facts;
        facts.description = QStringLiteral("Mixture%1DecoderLayer, 64 MiB of weights").arg(QString(60, u'x'));
        inspector_->setModule(facts);
        QCoreApplication::processEvents();
        WrappedLabel& description = label("moduleDescription");
        QVERIFY(widestLine(description) <= description.width());
        QVERIFY(description.QLabel::text().startsWith(QStringLiteral("Mixture")));
        QVERIFY(description.QLabel::text().contains(QStringLiteral("DecoderLayer, 64 MiB")));
        QCOMPARE(description.text(), facts.description);
        QCOMPARE(description.toolTip(), facts.description);
        QCOMPARE(copied(description), facts.description);
        inspector_->resize(640, 700); // there is room for the name now, and two lines for the sentence
        QCoreApplication::processEvents();
        QCOMPARE(description.QLabel::text(), facts.description);
        QVERIFY(description.toolTip().isEmpty());
        QCOMPARE(description.heightForWidth(description.width()),
                 description.QLabel::heightForWidth(description.width()));
        QVERIFY(description.height() >= 2 * description.fontMetrics().height());
    }
};

QTEST_MAIN(InspectorTest)
#include "inspector_test.moc"
