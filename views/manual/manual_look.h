// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

class QTextDocument;

namespace headroom {

struct Theme;

/// The widest column of text, in pixels.
inline constexpr int manualColumn = 760;

/// Applies the theme to a page made from Markdown: sizes and margins of headings, a background for code, lines in
/// tables.
void applyManualLook(QTextDocument& document, const Theme& theme);

/// Sets the width of each picture to its own width, or to the column's if that is less, in device pixels.
void fitPictures(QTextDocument& document, int column, double pixelRatio);

} // namespace headroom
