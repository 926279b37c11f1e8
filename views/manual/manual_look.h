// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

class QTextDocument;

namespace headroom {

struct Theme;

/// The widest column of text that is comfortable to read, in pixels.
inline constexpr int manualColumn = 760;

/// Gives a page that was made of Markdown the look of the theme: sizes and room of headings, code on a ground of its
/// own, tables with lines.
void applyManualLook(QTextDocument& document, const Theme& theme);

/// Makes pictures as wide as they are, or as the column is, in the pixels of the screen.
void fitPictures(QTextDocument& document, int column, double pixelRatio);

} // namespace headroom
