// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QChar>
#include <QRectF>
#include <QString>

class QFont;
class QPainter;

namespace headroom {

/// A zero-width space: a line of text may break there.
inline constexpr QChar breakPoint(u'\u200B');

/// A word with fewer characters fits in every column of the window.
inline constexpr qsizetype longWord = 24;

/// Adds break points after the dots and underscores of long words, for display only. Tags of rich text stay as they
/// are.
QString withBreakPoints(const QString& text);

/// The name of a module, or a text that ends with a name, in at most `width` pixels of `font`. Numbers and the end tell
/// modules apart and stay longest: "transformer.h.0.attn.c_attn", "t.h.0.attn.c_attn", "t.h.0.a.c_attn", "…0.a.c_attn".
QString shortenedName(const QFont& font, const QString& text, double width);

/// The name of an op, in `width` pixels: "aten.native_layer_norm.default" without its overload if that is the default
/// one, then without its namespace, then elided.
QString shortenedOpName(const QFont& font, const QString& name, double width);

// The functions below are for lines that are painted repeatedly, such as names, captions and numbers of many rows. They
// shape each line once, since shaping takes longer than painting.

/// Width in pixels, as QFontMetricsF::horizontalAdvance().
double lineWidth(const QFont& font, const QString& text);

/// Paints a line in the painter's font and pen, as QPainter::drawText() does.
void paintLine(QPainter& painter, const QRectF& box, Qt::Alignment alignment, const QString& text);

/// Paints a line as paintLine() does, elided if wider than the box.
void paintElided(QPainter& painter, const QRectF& box, Qt::Alignment alignment, const QString& text,
                 Qt::TextElideMode mode);

/// Paints the name of a module as paintLine() does, shortened if wider than the box.
void paintName(QPainter& painter, const QRectF& box, Qt::Alignment alignment, const QString& name);

} // namespace headroom
