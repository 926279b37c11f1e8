// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/text_line.h"

#include <QCache>
#include <QFontMetricsF>
#include <QGlyphRun>
#include <QPaintEngine>
#include <QPainter>
#include <QRegularExpression>
#include <QTextLayout>

#include <algorithm>
#include <utility>

namespace headroom {
namespace {

constexpr int mostLines = 4000;

struct ShapedLine
{
    QList<QGlyphRun> runs;
    double width = 0;
    double height = 0;
};

ShapedLine& shaped(const QFont& font, const QString& text)
{
    using Key = std::pair<QFont, QString>;
    thread_local QCache<Key, ShapedLine> lines(mostLines);
    const Key key(font, text);
    if (ShapedLine* known = lines.object(key))
        return *known;
    QTextLayout layout(text, font);
    layout.beginLayout();
    const QTextLine line = layout.createLine();
    layout.endLayout();
    // The height without rounding up, as drawText() centres a line.
    auto* made = new ShapedLine{layout.glyphRuns(), line.horizontalAdvance(), QFontMetricsF(font).height()};
    lines.insert(key, made);
    return *made;
}

/// "_fsdp_wrapped_module" becomes "_f". Numbers stay, since numbers tell modules apart: "3", "layer2" as "l2".
QString initialOf(const QString& part)
{
    static const QRegularExpression form(QStringLiteral("^(_*\\p{L}).*?([^\\p{L}\\d]?\\d+)?$"));
    const QRegularExpressionMatch match = form.match(part);
    return match.hasMatch() ? match.captured(1) + match.captured(2) : part;
}

} // namespace

QString withBreakPoints(const QString& text)
{
    static const QRegularExpression words(QStringLiteral("<[^>]*>|[^\\s<>]{%1,}").arg(longWord));
    // An underscore at the beginning of a component stays with the component: "layers.0.|_fsdp_|wrapped_|module".
    static const QRegularExpression places(QStringLiteral(R"((\.|(?<=[^._])_+)(?=[^.]))"));
    QString made = text;
    qsizetype added = 0;
    for (auto word = words.globalMatch(text); word.hasNext();) {
        const QRegularExpressionMatch match = word.next();
        if (match.capturedView().startsWith(u'<'))
            continue; // a tag
        const QString broken = match.captured().replace(places, QStringLiteral("\\1") + breakPoint);
        made.replace(match.capturedStart() + added, match.capturedLength(), broken);
        added += broken.size() - match.capturedLength();
    }
    return made;
}

QString shortenedName(const QFont& font, const QString& text, double width)
{
    const QFontMetricsF metrics(font);
    const auto fits = [&](const QString& shown) { return metrics.horizontalAdvance(shown) <= width; };
    if (fits(text))
        return text;
    const qsizetype begin = text.lastIndexOf(u' ') + 1;
    const QString before = text.left(begin);
    QStringList parts = text.mid(begin).split(u'.');
    const auto shown = [&](qsizetype first) -> QString {
        return before + (first > 0 ? QStringLiteral("…") : QString()) + parts.mid(first).join(u'.');
    };
    for (qsizetype i = 0; i + 1 < parts.size(); ++i) {
        parts[i] = initialOf(parts[i]);
        if (fits(shown(0)))
            return shown(0);
    }
    for (qsizetype first = 1; first < parts.size(); ++first) {
        if (fits(shown(first)))
            return shown(first);
    }
    // What is left is one word, in little room: its end tells it from "c_attn", "c_proj" and "ln_1", "ln_2" beside it.
    return metrics.elidedText(before + parts.last(), parts.size() > 1 ? Qt::ElideLeft : Qt::ElideMiddle, width);
}

QString shortenedOpName(const QFont& font, const QString& name, double width)
{
    const QFontMetricsF metrics(font);
    const QString usual = QStringLiteral(".default");
    QString shown = name;
    if (metrics.horizontalAdvance(shown) > width && shown.endsWith(usual))
        shown.chop(usual.size());
    if (metrics.horizontalAdvance(shown) > width)
        shown.remove(0, shown.indexOf(u'.') + 1);
    return metrics.elidedText(shown, Qt::ElideMiddle, width);
}

double lineWidth(const QFont& font, const QString& text)
{
    return shaped(font, text).width;
}

void paintLine(QPainter& painter, const QRectF& box, Qt::Alignment alignment, const QString& text)
{
    const ShapedLine& line = shaped(painter.font(), text);
    const bool clipped = line.width > box.width() || line.height > box.height();
    if (clipped || painter.paintEngine()->type() != QPaintEngine::Raster) { // an SVG or PDF file holds the words
        painter.drawText(box, static_cast<int>(alignment), text);
        return;
    }
    const double free = box.width() - line.width;
    const double x = alignment & Qt::AlignRight ? free : alignment & Qt::AlignHCenter ? free / 2 : 0;
    const double below = box.height() - line.height;
    const double y = alignment & Qt::AlignBottom ? below : alignment & Qt::AlignVCenter ? below / 2 : 0;
    for (const QGlyphRun& run : line.runs)
        painter.drawGlyphRun(box.topLeft() + QPointF(x, y), run);
}

void paintElided(QPainter& painter, const QRectF& box, Qt::Alignment alignment, const QString& text,
                 Qt::TextElideMode mode)
{
    const bool fits = lineWidth(painter.font(), text) <= box.width();
    paintLine(painter, box, alignment, fits ? text : QFontMetricsF(painter.font()).elidedText(text, mode, box.width()));
}

void paintName(QPainter& painter, const QRectF& box, Qt::Alignment alignment, const QString& name)
{
    const bool fits = lineWidth(painter.font(), name) <= box.width();
    paintLine(painter, box, alignment, fits ? name : shortenedName(painter.font(), name, box.width()));
}

} // namespace headroom
