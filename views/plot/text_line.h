// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QRectF>
#include <QString>

class QFont;
class QPainter;

namespace headroom {

// Lines of text that are painted again and again: names, captions, and numbers that many rows have. Each is shaped
// once, which takes longer than to paint it.

/// As QFontMetricsF::horizontalAdvance().
double lineWidth(const QFont& font, const QString& text);

/// Paints one line in the painter's font and pen, as QPainter::drawText() does.
void paintLine(QPainter& painter, const QRectF& box, Qt::Alignment alignment, const QString& text);

/// The same; what does not fit in the box is elided.
void paintElided(QPainter& painter, const QRectF& box, Qt::Alignment alignment, const QString& text,
                 Qt::TextElideMode mode);

} // namespace headroom
