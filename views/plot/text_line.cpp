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
    // The height without rounding it up, as drawText() centres a line.
    auto* made = new ShapedLine{layout.glyphRuns(), line.horizontalAdvance(), QFontMetricsF(font).height()};
    lines.insert(key, made);
    return *made;
}

} // namespace

QString withBreakPoints(const QString& text)
{
    static const QRegularExpression words(QStringLiteral("<[^>]*>|[^\\s<>]{%1,}").arg(longWord));
    // An underscore at the beginning of a component stays with it: "layers.0.|_fsdp_|wrapped_|module".
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

double lineWidth(const QFont& font, const QString& text)
{
    return shaped(font, text).width;
}

void paintLine(QPainter& painter, const QRectF& box, Qt::Alignment alignment, const QString& text)
{
    const ShapedLine& line = shaped(painter.font(), text);
    const bool clipped = line.width > box.width() || line.height > box.height();
    if (clipped || painter.paintEngine()->type() != QPaintEngine::Raster) { // an SVG or PDF file holds its words
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

} // namespace headroom
