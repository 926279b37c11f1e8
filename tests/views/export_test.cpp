// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Exported files, read back.

#include "core/fit/fit_report.h"
#include "core/predict/predict.h"
#include "tests/core/synthetic_step.h"
#include "tests/views/made_up.h"
#include "views/export/export.h"
#include "views/plot/tradeoff_curve.h"
#include "views/theme/theme.h"

#include <QDir>
#include <QFile>
#include <QImage>
#include <QSvgRenderer>
#include <QTemporaryDir>
#include <QTest>
#include <QXmlStreamReader>

#include <algorithm>
#include <map>

using namespace headroom;

class ExportTest : public QObject
{
    Q_OBJECT

private:
    QTemporaryDir folder_;
    TimelinePtr recorded_ = madeUpTimeline({}, 0);
    TimelinePtr planned_ = madeUpTimeline({}, 0.5);
    Plan plan_ = madeUpPlan({}, 0.5);

    std::filesystem::path path(const char* name) const
    {
        return folder_.filePath(QString::fromLatin1(name)).toStdString();
    }
    QByteArray content(const char* name) const
    {
        QFile file(folder_.filePath(QString::fromLatin1(name)));
        return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
    }
    TimelineExport timeline() const { return {"gpt, batch 4", nullptr, recorded_, planned_, plan_.budget}; }
    static void verify(const Status& status)
    {
        QVERIFY2(status.ok(), status.ok() ? "" : status.error().message.c_str());
    }

private Q_SLOTS:
    void pictureHasTheCategoriesColours()
    {
        ExportOptions options;
        options.width = 900;
        options.height = 420;
        options.scale = 2;
        verify(exportTimeline(timeline(), path("t.png"), options));
        const QImage image(folder_.filePath(QStringLiteral("t.png")));
        QCOMPARE(image.size(), QSize(1800, 840));
        const auto theme = Theme::light();
        std::map<QRgb, int> count;
        for (int y = 0; y < image.height(); y += 3)
            for (int x = 0; x < image.width(); x += 3)
                ++count[image.pixel(x, y)];
        for (const auto category : {Category::parameter, Category::optimizer, Category::activation, Category::gradient})
            QVERIFY2(count[theme.color(category).rgb()] > 500, categoryName(category).data());
        QCOMPARE(image.pixelColor(2, 2), theme.card);
    }

    void darkPictureIsDark()
    {
        ExportOptions options;
        options.dark = true;
        options.scale = 1;
        verify(exportTimeline(timeline(), path("d.png"), options));
        QCOMPARE(QImage(folder_.filePath(QStringLiteral("d.png"))).pixelColor(2, 2), Theme::dark().card);
    }

    void svgIsVectorsAndText()
    {
        verify(exportTimeline(timeline(), path("t.svg")));
        const auto bytes = content("t.svg");
        QXmlStreamReader xml(bytes);
        QStringList texts;
        int images = 0;
        int paths = 0;
        while (!xml.atEnd()) {
            if (xml.readNext() != QXmlStreamReader::StartElement)
                continue;
            images += xml.name() == QStringLiteral("image");
            paths += xml.name() == QStringLiteral("polygon") || xml.name() == QStringLiteral("path");
            if (xml.name() == QStringLiteral("text")) {
                const auto attributes = xml.attributes();
                QVERIFY(attributes.value(QStringLiteral("font-family")).endsWith(QStringLiteral(", sans-serif")));
                const double width = attributes.value(QStringLiteral("textLength")).toDouble();
                texts << xml.readElementText();
                QVERIFY2(width > 2 * static_cast<double>(texts.last().size()), qPrintable(texts.last()));
            }
        }
        QVERIFY2(!xml.hasError(), qPrintable(xml.errorString()));
        QCOMPARE(images, 0);
        QVERIFY(paths >= 6);
        for (const auto* expected : {"gpt, batch 4", "Allocated memory, GiB", "Activations", "Forward", "Backward",
                                     "Recorded peak", "72.6 GiB", "Planned peak", "Budget"})
            QVERIFY2(texts.contains(QString::fromLatin1(expected)), expected);
        QVERIFY(bytes.size() < 400'000);
        QSvgRenderer renderer(bytes);
        QVERIFY(renderer.isValid());
        QCOMPARE(renderer.viewBox(), QRect(0, 0, 1200, 520));
    }

    void pdfIsOnePageOfTheRightSize()
    {
        verify(exportTimeline(timeline(), path("t.pdf")));
        const auto bytes = content("t.pdf");
        QVERIFY(bytes.startsWith("%PDF-"));
        QVERIFY(bytes.trimmed().endsWith("%%EOF"));
        QCOMPARE(bytes.count("/Type /Page\n"), 1);
        QVERIFY(bytes.contains("/MediaBox [0 0 900.000000 390.000000]") || bytes.contains("/MediaBox [0 0 900 390]"));
        QVERIFY(!bytes.contains("/Subtype /Image"));
    }

    void csvHoldsEveryChangeToTheByte()
    {
        const auto trace = makeSyntheticStep();
        auto predicted = predict(*trace, {});
        QVERIFY(predicted.ok());
        const auto step = std::make_shared<const Timeline>(*std::move(predicted));
        TimelineExport data;
        data.trace = trace;
        data.recorded = step;
        verify(exportTimeline(data, path("t.csv")));
        const auto lines = content("t.csv").trimmed().split('\n');
        QCOMPARE(lines.first(),
                 QByteArray("step,ms,phase,module,op,recomputed,total,parameter,buffer,gradient,activation,temporary,"
                            "optimizer,input,other,non_pytorch,"
                            "unsharded_parameter,unsharded_gradient,communication"));
        QCOMPARE(static_cast<std::size_t>(lines.size()), step->changes.size() + 2);
        Bytes highest = 0;
        bool named = false;
        for (int i = 1; i < lines.size(); ++i) {
            const auto cells = lines[i].split(',');
            QCOMPARE(cells.size(), 19);
            Bytes sum = 0;
            for (int cell = 7; cell < 19; ++cell)
                sum += cells[cell].toLongLong();
            QCOMPARE(sum, cells[6].toLongLong());
            highest = std::max(highest, sum);
            named = named || (cells[3].contains("feed_forward") && cells[4].startsWith("aten."));
        }
        QCOMPARE(highest, step->peak);
        QVERIFY(named);
    }

    void tradeOffAndFrontierInEveryFormat()
    {
        const auto info = madeUpModules({});
        const auto frontier = madeUpFrontier({});
        for (const auto* suffix : {"svg", "pdf", "png", "csv"}) {
            const QByteArray curve = QByteArray("c.") + suffix;
            const QByteArray front = QByteArray("f.") + suffix;
            verify(
                exportTradeOff({"gpt", info, "GPT.layers.42", madeUpPoints(info, plan_), plan_.msPerGiB}, path(curve)));
            verify(exportFrontier({"gpt", frontier, 714.6, plan_.budget}, path(front)));
            QVERIFY(content(curve).size() > 100);
            QVERIFY(content(front).size() > 100);
        }
        QVERIFY(QSvgRenderer(content("c.svg")).isValid());
        QVERIFY(content("c.svg").contains("Trade-off of GPT.layers.42"));
        QVERIFY(content("c.svg").contains("4.4 ms per GiB"));
        QVERIFY(content("f.svg").contains("Peak memory, GiB"));
        const auto rows = content("f.csv").trimmed().split('\n');
        QCOMPARE(rows.size(), static_cast<qsizetype>(frontier.size()) + 1);
        QCOMPARE(rows[0], QByteArray("peak_bytes,recompute_ms,gap,share_of_step"));
        QCOMPARE(rows[1].split(',').first().toLongLong(), frontier.front().peak);
        const auto corners = content("c.csv").trimmed().split('\n');
        QCOMPARE(corners[0], QByteArray("module,discarded,kept_bytes,recompute_ms,chosen"));
        QCOMPARE(std::count_if(corners.begin(), corners.end(), [](const auto& row) { return row.endsWith(",1"); }), 1);
    }

    void wholeModelHasEveryCurve()
    {
        verify(exportTradeOff({"gpt", madeUpModules({}), ""}, path("all.csv")));
        const auto rows = content("all.csv").trimmed().split('\n');
        QCOMPARE(rows.size(), 96 * 5 + 1);
    }

    void wholeModelNamesItsCurves()
    {
        auto modules = std::make_shared<ModuleInfo>(*madeUpModules({}));
        const ModuleStats first = *findModule(*modules, "GPT.layers.0");
        for (ModuleStats& module : modules->stats)
            if (sameClass(module.fqn, first.fqn) && module.fqn != "GPT.layers.1") {
                const std::string name = module.fqn;
                module = first;
                module.fqn = name;
            }
        verify(exportTradeOff({"gpt", modules, ""}, path("all.svg")));
        const auto bytes = content("all.svg");
        QVERIFY(bytes.contains(">GPT.layers.0 and 94 alike</text>"));
        QVERIFY(bytes.contains(">GPT.layers.1</text>"));
    }

    /// A phase that is too short for a name has none: no text stands in the corner.
    void phasesWithoutSpaceHaveNoName()
    {
        auto shown = std::make_shared<Timeline>(*recorded_);
        shown->phases.push_back({Phase::zeroGrad, shown->durationMs, shown->durationMs});
        TimelineExport data = timeline();
        data.recorded = shown;
        data.planned = nullptr;
        ExportOptions options;
        options.width = 500;
        verify(exportTimeline(data, path("narrow.svg"), options));
        const auto bytes = content("narrow.svg");
        QVERIFY(bytes.contains(">Forward</text>"));
        QVERIFY(!bytes.contains("x=\"0\" y=\"4\""));
        QVERIFY(!bytes.contains(">Zero grad</text>"));
    }

    void refusesWhatItCannotWrite()
    {
        const auto suffix = exportTimeline(timeline(), path("t.docx"));
        QVERIFY(!suffix.ok());
        QCOMPARE(suffix.error().kind, ErrorKind::badInput);
        QVERIFY(QString::fromStdString(suffix.error().message).contains(QStringLiteral(".svg, .pdf, .png or .csv")));
        const auto place = exportTimeline(timeline(), "/no/such/folder/t.svg");
        QVERIFY(!place.ok());
        QCOMPARE(place.error().kind, ErrorKind::badInput);
        const auto module = exportTradeOff({"gpt", madeUpModules({}), "GPT.no"}, path("m.svg"));
        QVERIFY(!module.ok());
        QVERIFY(!QFile::exists(folder_.filePath(QStringLiteral("m.svg"))));
    }

    void replacesAFileOnlyWhenTheNewOneIsComplete()
    {
        verify(exportFrontier({"gpt", madeUpFrontier({}), 0, 0}, path("once.svg")));
        const auto before = content("once.svg");
        verify(exportFrontier({"other", madeUpFrontier({}), 0, 0}, path("once.svg")));
        QVERIFY(content("once.svg") != before);
        QCOMPARE(QDir(folder_.path()).entryList({QStringLiteral("*once*")}, QDir::Files | QDir::Hidden).size(), 1);
    }

    void whatFitsIsAPictureAndATable()
    {
        const FitExport fit{"transformer", madeUpFit(), false};
        verify(exportFit(fit, path("fit.svg"), {.width = 900, .height = 420}));
        const QString svg = QString::fromUtf8(content("fit.svg"));
        for (const char* text : {">transformer<", ">Samples a second over batch<", ">RTX 4090<", ">RTX 3090<",
                                 ">largest: 38<", ">fastest: 24<", ">largest and fastest: 20<", ">with a plan<",
                                 ">out of memory<", ">failed<", ">samples/s<", ">32<"})
            QVERIFY2(svg.contains(QLatin1String(text)), text);
        verify(exportFit(fit, path("fit.csv")));
        QCOMPARE(content("fit.csv").toStdString(), toCsv(fit.result));
        verify(exportFit({"transformer", madeUpFit(), true}, path("fit.pdf")));
        QVERIFY(content("fit.pdf").startsWith("%PDF"));
        QVERIFY(!exportFit(fit, path("fit.txt")).ok());
    }
};

QTEST_MAIN(ExportTest)
#include "export_test.moc"
