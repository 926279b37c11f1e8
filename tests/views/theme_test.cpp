// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/text_line.h"
#include "views/theme/styles.h"
#include "views/theme/theme.h"

#include <QApplication>
#include <QCheckBox>
#include <QFontDatabase>
#include <QFontInfo>
#include <QFontMetrics>
#include <QHelpEvent>
#include <QLabel>
#include <QPainter>
#include <QSet>
#include <QStandardItemModel>
#include <QTest>
#include <QTextDocumentFragment>
#include <QToolTip>
#include <QTreeView>

#include <array>
#include <cmath>
#include <set>

using namespace headroom;

namespace {

using Vector = std::array<double, 3>;

double linear(double channel)
{
    return channel <= 0.04045 ? channel / 12.92 : std::pow((channel + 0.055) / 1.055, 2.4);
}

Vector linearRgb(const QColor& color)
{
    return {linear(color.redF()), linear(color.greenF()), linear(color.blueF())};
}

// Relative luminance and contrast as WCAG 2 defines them.
double contrast(const QColor& a, const QColor& b)
{
    const auto luminance = [](const QColor& color) {
        const auto rgb = linearRgb(color);
        return 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2];
    };
    const double high = std::max(luminance(a), luminance(b));
    const double low = std::min(luminance(a), luminance(b));
    return (high + 0.05) / (low + 0.05);
}

// How someone without one kind of cones sees a colour (Machado, Oliveira, Fernandes 2009, severity 1), in CIELAB.
struct Eye
{
    const char* name;
    std::array<Vector, 3> matrix;
};
const Eye eyes[] = {
    {"normal", {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}}},
    {"protanopia",
     {{{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}}}},
    {"deuteranopia",
     {{{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}}}},
    {"tritanopia",
     {{{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}}}},
};

Vector lab(const QColor& color, const Eye& eye)
{
    const auto rgb = linearRgb(color);
    Vector seen{};
    for (std::size_t i = 0; i < 3; ++i)
        seen[i]
            = std::clamp(eye.matrix[i][0] * rgb[0] + eye.matrix[i][1] * rgb[1] + eye.matrix[i][2] * rgb[2], 0.0, 1.0);
    const auto f = [](double t) { return t > 0.008856 ? std::cbrt(t) : 7.787 * t + 16.0 / 116; };
    const double x = f((0.4124 * seen[0] + 0.3576 * seen[1] + 0.1805 * seen[2]) / 0.95047);
    const double y = f(0.2126 * seen[0] + 0.7152 * seen[1] + 0.0722 * seen[2]);
    const double z = f((0.0193 * seen[0] + 0.1192 * seen[1] + 0.9505 * seen[2]) / 1.08883);
    return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

double distance(const QColor& a, const QColor& b, const Eye& eye)
{
    const auto left = lab(a, eye);
    const auto right = lab(b, eye);
    return std::hypot(left[0] - right[0], left[1] - right[1], left[2] - right[2]);
}

} // namespace

class ThemeTest : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void looks_data()
    {
        QTest::addColumn<bool>("dark");
        QTest::newRow("light") << false;
        QTest::newRow("dark") << true;
    }

    void categoriesCanBeToldApart_data() { looks_data(); }
    void categoriesCanBeToldApart()
    {
        QFETCH(bool, dark);
        const auto theme = Theme::make(dark);
        for (const auto& eye : eyes) {
            for (std::size_t i = 0; i < categoryCount; ++i) {
                for (std::size_t j = i + 1; j < categoryCount; ++j) {
                    const double apart = distance(theme.categories[i], theme.categories[j], eye);
                    const auto what = QStringLiteral("%1: %2 and %3 are %4 apart")
                                          .arg(QLatin1String(eye.name), categoryTitle(static_cast<Category>(i)),
                                               categoryTitle(static_cast<Category>(j)))
                                          .arg(apart);
                    QVERIFY2(apart >= 15, qPrintable(what));
                }
            }
        }
    }

    void textCanBeRead_data() { looks_data(); }
    void textCanBeRead()
    {
        QFETCH(bool, dark);
        const auto theme = Theme::make(dark);
        for (const auto& ground : {theme.card, theme.surface, theme.hover, theme.selected}) {
            QVERIFY(contrast(theme.text, ground) >= 7);
            QVERIFY2(contrast(theme.secondText, ground) >= 4.5, qPrintable(ground.name()));
        }
        QVERIFY(contrast(theme.accent, theme.card) >= 4.5);
        QVERIFY(contrast(theme.accent, theme.accentSoft) >= 4.5);
        QVERIFY(contrast(theme.danger, theme.card) >= 4.5);
        QVERIFY(contrast(theme.danger, theme.dangerSoft) >= 4.5);
        QVERIFY(contrast(theme.host, theme.card) >= 4.5);
        QVERIFY(contrast(theme.host, theme.hostSoft) >= 4.5);
    }

    void curvesAndBandsCanBeSeen_data() { looks_data(); }
    void curvesAndBandsCanBeSeen() // as WCAG 2 asks of graphics
    {
        QFETCH(bool, dark);
        const auto theme = Theme::make(dark);
        const auto check = [&](const QColor& color, const QString& what) {
            const double found = contrast(color, theme.card);
            QVERIFY2(found >= 3, qPrintable(QStringLiteral("%1, %2: %3").arg(what, color.name()).arg(found)));
        };
        for (std::size_t i = 0; i < categoryCount; ++i)
            check(theme.categories[i], categoryTitle(static_cast<Category>(i)));
        for (const QColor& band : theme.categories) // names on the bands, also of the one under the pointer
            for (const QColor& ground : {band, band.lighter(112)})
                QVERIFY2(contrast(inkOn(ground), ground) >= 4, qPrintable(ground.name()));
        for (int percent = 0; percent <= 100; ++percent)
            check(theme.rampColor(percent / 100.0), QStringLiteral("%1 % of the ramp").arg(percent));
        check(theme.quiet, QStringLiteral("quiet"));
        check(theme.hatch, QStringLiteral("hatch"));
        QVERIFY2(contrast(theme.hatch, theme.hover) >= 3, "the recorded step in the overview");
        check(theme.accent, QStringLiteral("accent"));
        check(theme.host, QStringLiteral("host"));
        check(theme.danger, QStringLiteral("danger"));
    }

    /// Colours of one plot: cards of what fits, kinds of collectives.
    void coloursOfTheRampCanBeToldApart_data() { looks_data(); }
    void coloursOfTheRampCanBeToldApart()
    {
        QFETCH(bool, dark);
        const auto theme = Theme::make(dark);
        for (const auto& eye : eyes) {
            for (std::size_t i = 0; i < theme.ramp.size(); ++i) {
                for (std::size_t j = i + 1; j < theme.ramp.size(); ++j) {
                    const double apart = distance(theme.ramp[i], theme.ramp[j], eye);
                    QVERIFY2(apart >= 9,
                             qPrintable(QStringLiteral("%1: %2 and %3 are %4 apart")
                                            .arg(QLatin1String(eye.name))
                                            .arg(i)
                                            .arg(j)
                                            .arg(apart)));
                }
            }
        }
    }

    void paleBarsHaveAnEdge_data() { looks_data(); }
    void paleBarsHaveAnEdge()
    {
        QFETCH(bool, dark);
        const auto& theme = Theme::make(dark);
        QImage picture(30, 10, QImage::Format_RGB32);
        picture.fill(theme.card);
        QPainter painter(&picture);
        theme.paintPale(painter, {2, 2, 20, 6}, Category::activation);
        theme.paintPale(painter, {25, 2, 1, 6}, Category::activation);
        painter.end();
        const QColor edge = theme.color(Category::activation);
        for (const QPoint at : {QPoint(2, 2), QPoint(21, 7), QPoint(2, 5), QPoint(25, 4)})
            QCOMPARE(picture.pixelColor(at), edge);
        QVERIFY(contrast(picture.pixelColor(10, 5), edge) >= 1.5); // told apart from a bar of kept bytes
    }

    void checkBoxesCanBeSeen_data() { looks_data(); }
    void checkBoxesCanBeSeen()
    {
        QFETCH(bool, dark);
        const auto theme = Theme::make(dark);
        applyTheme(*qApp, theme);
        QCheckBox box(QStringLiteral("Keep"));
        box.resize(box.sizeHint());
        const auto strongest = [&](bool checked) { // of the pixels of the box, beside the ground
            box.setChecked(checked);
            const QImage picture = box.grab().toImage();
            const QColor ground = picture.pixelColor(picture.width() - 1, 0);
            double most = 0;
            int seen = 0;
            for (int y = 0; y < picture.height(); ++y) {
                for (int x = 0; x < 14; ++x) {
                    const double found = contrast(picture.pixelColor(x, y), ground);
                    most = std::max(most, found);
                    seen += found >= 3 ? 1 : 0; // as WCAG 2 asks of controls
                }
            }
            return std::pair(most, seen);
        };
        const auto empty = strongest(false);
        const auto checked = strongest(true);
        QVERIFY2(empty.first >= 3 && empty.second >= 24, qPrintable(QString::number(empty.first)));
        QVERIFY(checked.second >= empty.second + 20);
    }

    void fontsComeWithTheProgram()
    {
        loadFonts();
        const auto theme = Theme::light();
        QCOMPARE(QFontInfo(theme.body).family(), QStringLiteral("Inter"));
        QCOMPARE(QFontInfo(theme.number).family(), QStringLiteral("Roboto"));
        QVERIFY(QFontInfo(theme.title).weight() >= QFont::DemiBold);
        // Digits of one width, so that live numbers do not jitter.
        for (const auto& font : {theme.number, theme.numberStrong, theme.numberLarge}) {
            const QFontMetricsF metrics(font);
            for (char digit = '1'; digit <= '9'; ++digit)
                QCOMPARE(metrics.horizontalAdvance(QLatin1Char(digit)), metrics.horizontalAdvance(QLatin1Char('0')));
        }
    }

    void widgetsKnowTheirLook()
    {
        QLabel label;
        label.show();
        applyTheme(*qApp, Theme::dark());
        QVERIFY(Theme::of(label).isDark);
        applyTheme(*qApp, Theme::light());
        QVERIFY(!Theme::of(label).isDark);
        QCOMPARE(label.palette().color(QPalette::WindowText), Theme::light().text);
    }

    void everyCategoryHasATitleAndAPlaceInTheStack()
    {
        std::set<Category> seen;
        for (const auto category : stackOrder) {
            QVERIFY(!categoryTitle(category).isEmpty());
            seen.insert(category);
        }
        QCOMPARE(seen.size(), categoryCount);
        QCOMPARE(stackOrder.front(), Category::nonPyTorch);
        QCOMPARE(stackOrder.back(), Category::temporary);
    }

    void desktopLookStartsWithThePlatformsPalette()
    {
        const DesktopColours look;
        QCOMPARE(look.isDark(), QGuiApplication::palette().color(QPalette::Window).lightness() < 128);
    }

    void shortenedNamesStillDiffer_data()
    {
        QTest::addColumn<QStringList>("names");
        QTest::addColumn<QString>("narrowest"); // a text as wide as the least width in which they can differ
        const auto row = [](const char* title, const char* narrowest, const QStringList& names) {
            QTest::newRow(title) << names << QString::fromLatin1(narrowest);
        };
        row("layers", "t.h.11.a.c_attn",
            {QStringLiteral("transformer.h.0.attn.c_attn"), QStringLiteral("transformer.h.1.attn.c_attn"),
             QStringLiteral("transformer.h.11.attn.c_attn"), QStringLiteral("transformer.h.0.attn.c_proj"),
             QStringLiteral("transformer.h.0.mlp.c_proj")});
        row("encoder, decoder", "m.e.l.00.s.encoder_attn",
            {QStringLiteral("model.encoder.layers.0.self_attn.q_proj"),
             QStringLiteral("model.decoder.layers.0.self_attn.q_proj"),
             QStringLiteral("model.decoder.layers.0.encoder_attn.q_proj")});
        row("stages", "l.2.b.2m",
            {QStringLiteral("layers.1.blocks.2"), QStringLiteral("layers.2.blocks.2"),
             QStringLiteral("layers.2.blocks.1")});
        row("numbered stages", "l2.0.conv1",
            {QStringLiteral("layer1.0.conv1"), QStringLiteral("layer2.0.conv1"), QStringLiteral("layer2.1.conv1")});
        row("lines of a script", "m:12.m:150.m:90.linear:40",
            {QStringLiteral("main:12.model:150.model:90.linear:40"),
             QStringLiteral("main:12.model:151.model:90.linear:40")});
        row("wrapped", "_f.l.3._c.attention",
            {QStringLiteral("_fsdp_wrapped_module.layers.3._checkpoint_wrapped_module.mlp"),
             QStringLiteral("_fsdp_wrapped_module.layers.3._checkpoint_wrapped_module.attention")});
    }
    void shortenedNamesStillDiffer()
    {
        QFETCH(const QStringList, names);
        QFETCH(const QString, narrowest);
        const QFont font = Theme::light().body;
        const QFontMetricsF metrics(font);
        for (double width = 400; width > metrics.horizontalAdvance(narrowest); width -= 7) {
            QSet<QString> shown;
            for (const QString& name : names) {
                const QString text = shortenedName(font, name, width);
                QVERIFY(metrics.horizontalAdvance(text) <= width);
                QVERIFY2(text.endsWith(name.section(u'.', -1)), qPrintable(text));
                shown << text;
            }
            QVERIFY2(shown.size() == names.size(), qPrintable(QStringList(shown.values()).join(u' ')));
        }
        for (double width = 120; width > 30; width -= 7) {
            for (const QString& name : names) {
                const QString text = shortenedName(font, name, width);
                QVERIFY2(metrics.horizontalAdvance(text) <= width || text == QStringLiteral("…") || text.isEmpty(),
                         qPrintable(text));
            }
        }
    }

    void shortenedOpNamesKeepTheOp()
    {
        const QFont font = Theme::light().body;
        const auto room = [&](const char* text) { return lineWidth(font, QString::fromLatin1(text)) + 1; };
        const QString norm = QStringLiteral("aten.native_layer_norm.default");
        QCOMPARE(shortenedOpName(font, norm, 1000), norm);
        QCOMPARE(shortenedOpName(font, norm, room("aten.native_layer_norm")), QStringLiteral("aten.native_layer_norm"));
        QCOMPARE(shortenedOpName(font, norm, room("native_layer_norm")), QStringLiteral("native_layer_norm"));
        const QString add = QStringLiteral("aten.add_.Tensor");
        QCOMPARE(shortenedOpName(font, add, room("add_.Tensor")), QStringLiteral("add_.Tensor"));
        for (double width = 200; width > 30; width -= 7)
            QVERIFY(lineWidth(font, shortenedOpName(font, norm, width)) <= width);
    }

    void shortenedNamesKeepTheWordsBefore()
    {
        const QFont font = Theme::light().title;
        const QString whole = QStringLiteral("Trade-off of transformer.h.0.attn.c_attn");
        QCOMPARE(shortenedName(font, whole, 1000), whole);
        QCOMPARE(shortenedName(font, whole, lineWidth(font, whole) - 1),
                 QStringLiteral("Trade-off of t.h.0.attn.c_attn"));
    }

    void namesInToolTipsAreText_data()
    {
        QTest::addColumn<QString>("name");
        QTest::newRow("tags") << QStringLiteral("Net.<b>layer</b><script>");
        QTest::newRow("a picture") << QStringLiteral("<img src=\"file:///dev/zero\">");
        QTest::newRow("a lambda") << QStringLiteral("<lambda> at a & b");
        QTest::newRow("lines") << QStringLiteral("Net.<i>layer</i>\n2 GiB");
    }

    void namesInToolTipsAreText()
    {
        QFETCH(QString, name);
        const auto shown = [] {
            const QString text = QToolTip::text();
            return Qt::mightBeRichText(text) ? QTextDocumentFragment::fromHtml(text).toPlainText() : text;
        };
        WrappedToolTips wraps(nullptr);
        QWidget widget;
        widget.setToolTip(name);
        QStandardItemModel model;
        auto* const item = new QStandardItem(QStringLiteral("name"));
        item->setToolTip(name);
        model.appendRow(item);
        QTreeView tree;
        tree.setModel(&model);
        tree.show();
        widget.show();
        QVERIFY(QTest::qWaitForWindowExposed(&tree));
        for (QWidget* at : {&widget, tree.viewport()}) {
            QToolTip::hideText();
            QTRY_VERIFY(!QToolTip::isVisible());
            QHelpEvent help(QEvent::ToolTip, {5, 5}, at->mapToGlobal(QPoint(5, 5)));
            QApplication::sendEvent(at, &help);
            QTRY_COMPARE(shown().replace(QChar::Nbsp, u' '), name);
        }
        QToolTip::hideText();
    }

    void longToolTipsAreLaidOutInLines()
    {
        const QString tip = QStringLiteral("a word ").repeated(100) + QStringLiteral("\nanother paragraph");
        const QStringList lines = WrappedToolTips::wrapped(tip).split(u'\n');
        for (const QString& line : lines)
            QVERIFY(line.size() <= WrappedToolTips::tipColumns);
        QCOMPARE(lines.join(u' ').simplified(), QString(tip).replace(u'\n', u' ').simplified());
        QCOMPARE(lines.last(), QStringLiteral("another paragraph"));

        WrappedToolTips wraps(nullptr);
        QWidget widget;
        widget.setToolTip(tip);
        widget.show();
        QVERIFY(QTest::qWaitForWindowExposed(&widget));
        QHelpEvent help(QEvent::ToolTip, {5, 5}, widget.mapToGlobal(QPoint(5, 5)));
        QApplication::sendEvent(&widget, &help);
        QTRY_COMPARE(QToolTip::text(), WrappedToolTips::wrapped(tip));
        QToolTip::hideText();
    }
};

QTEST_MAIN(ThemeTest)
#include "theme_test.moc"
