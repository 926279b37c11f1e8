// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/manual/manual_look.h"

#include "views/manual/manual_pages.h"
#include "views/theme/theme.h"

#include <QImage>
#include <QTextBlock>
#include <QTextCursor>
#include <QTextDocument>
#include <QTextFragment>
#include <QTextFrame>
#include <QTextTable>
#include <QUrl>

#include <algorithm>
#include <array>
#include <vector>

namespace headroom {
namespace {

constexpr int textPixels = 14;
constexpr int codePixels = 12;
constexpr int headingPixels = 12; // of a table's columns
constexpr int lineHeight = 138; // per cent
constexpr int paragraphSpace = 10;
constexpr int indent = 24; // of a list
constexpr int codePadding = 10;

QStringList codeFamilies()
{
    return {QStringLiteral("DejaVu Sans Mono"), QStringLiteral("Liberation Mono"), QStringLiteral("monospace")};
}

bool isCode(const QTextBlock& block)
{
    return block.isValid() && block.blockFormat().hasProperty(QTextFormat::BlockCodeFence);
}

void setHeadingLook(QTextCursor& cursor, int level, const Theme& theme, bool first)
{
    static constexpr std::array pixels{24, 18, 15};
    static constexpr std::array above{0, 28, 20};
    const auto row = static_cast<std::size_t>(std::clamp(level, 1, 3) - 1);
    QTextBlockFormat block;
    block.setTopMargin(first ? 0 : above[row]);
    block.setBottomMargin(level == 1 ? 12 : 8);
    cursor.mergeBlockFormat(block);
    QFont font = theme.bodyStrong;
    font.setPixelSize(pixels[row]);
    QTextCharFormat characters;
    characters.setFont(font);
    cursor.mergeCharFormat(characters);
}

void setCodeLook(QTextCursor& cursor)
{
    QTextBlockFormat format;
    format.setTopMargin(0);
    format.setBottomMargin(0);
    format.setLineHeight(lineHeight, QTextBlockFormat::ProportionalHeight);
    format.setNonBreakableLines(false);
    cursor.mergeBlockFormat(format);
    QTextCharFormat characters;
    characters.setFontFamilies(codeFamilies());
    characters.setProperty(QTextFormat::FontPixelSize, codePixels);
    cursor.mergeCharFormat(characters);
}

/// Takes the height from an empty line that a frame leaves above or below.
void flatten(const QTextBlock& block)
{
    if (!block.isValid() || block.length() > 1)
        return;
    QTextCursor cursor(block);
    QTextBlockFormat format;
    format.setTopMargin(0);
    format.setBottomMargin(0);
    format.setLineHeight(1, QTextBlockFormat::FixedHeight);
    cursor.mergeBlockFormat(format);
}

/// Puts each listing into a frame with a background.
void groundListings(QTextDocument& document, const Theme& theme)
{
    QTextFrameFormat ground;
    ground.setBackground(theme.surface);
    ground.setPadding(codePadding);
    ground.setTopMargin(2);
    ground.setBottomMargin(paragraphSpace + 4);
    for (QTextBlock last = document.lastBlock(); last.isValid(); last = last.previous()) {
        if (!isCode(last))
            continue;
        QTextBlock first = last;
        while (isCode(first.previous()))
            first = first.previous();
        QTextCursor cursor(first);
        cursor.setPosition(last.position() + last.length() - 1, QTextCursor::KeepAnchor);
        QTextFrame* frame = cursor.insertFrame(ground);
        cursor = frame->firstCursorPosition();
        cursor.setPosition(frame->lastPosition(), QTextCursor::KeepAnchor);
        setCodeLook(cursor); // the first line has the format of the paragraph above
        last = document.findBlock(frame->firstPosition() - 1);
        flatten(last);
        flatten(document.findBlock(frame->lastPosition() + 1));
    }
}

bool hasPicture(const QTextBlock& block)
{
    return block.text().contains(QChar::ObjectReplacementCharacter);
}

void setTextLook(QTextCursor& cursor, const QTextBlock& block)
{
    QTextBlockFormat format;
    // A line with a picture is as high as the picture, and needs no space between lines.
    format.setLineHeight(hasPicture(block) ? 100 : lineHeight, QTextBlockFormat::ProportionalHeight);
    const bool inTable = cursor.currentTable() != nullptr;
    format.setTopMargin(0);
    format.setBottomMargin(inTable ? 0 : block.textList() ? 4 : paragraphSpace);
    cursor.mergeBlockFormat(format);
}

/// A piece of a block with a look of its own.
struct Stretch
{
    int begin = 0;
    int end = 0;
    QTextCharFormat format;
};

void setLooks(QTextDocument& document, const std::vector<Stretch>& stretches)
{
    for (const Stretch& stretch : stretches) {
        QTextCursor cursor(&document);
        cursor.setPosition(stretch.begin);
        cursor.setPosition(stretch.end, QTextCursor::KeepAnchor);
        cursor.mergeCharFormat(stretch.format);
    }
}

/// Formats code inside of sentences, and links.
void setFragmentLooks(QTextDocument& document, const QTextBlock& block, const Theme& theme)
{
    std::vector<Stretch> stretches;
    for (auto it = block.begin(); !it.atEnd(); ++it) {
        const QTextFragment fragment = it.fragment();
        const QTextCharFormat before = fragment.charFormat();
        QTextCharFormat format;
        if (before.fontFixedPitch() && !isCode(block)) {
            format.setFontFamilies(codeFamilies());
            format.setProperty(QTextFormat::FontPixelSize, codePixels);
            format.setBackground(theme.hover);
        }
        if (before.fontWeight() > QFont::DemiBold) // the heaviest weight of the fonts
            format.setFontWeight(QFont::DemiBold);
        if (before.isAnchor()) {
            format.setForeground(theme.text);
            format.setFontUnderline(true);
        }
        if (!format.isEmpty())
            stretches.push_back({fragment.position(), fragment.position() + fragment.length(), format});
    }
    setLooks(document, stretches);
}

void setCellLook(QTextTableCell cell, const Theme& theme)
{
    QTextTableCellFormat look = cell.format().toTableCellFormat();
    look.setBottomBorder(1);
    look.setBottomBorderStyle(QTextFrameFormat::BorderStyle_Solid);
    look.setBottomBorderBrush(theme.line);
    look.setTopPadding(5);
    look.setBottomPadding(5);
    look.setLeftPadding(cell.column() == 0 ? 2 : 8);
    look.setRightPadding(8);
    look.setVerticalAlignment(QTextCharFormat::AlignTop);
    cell.setFormat(look);
    // The importer leaves an empty line above the first cell.
    QTextCursor cursor = cell.firstCursorPosition();
    if (cursor.block().length() == 1 && cursor.block() != cell.lastCursorPosition().block())
        cursor.deleteChar();
    if (cell.row() > 0)
        return;
    cursor = cell.firstCursorPosition();
    cursor.setPosition(cell.lastCursorPosition().position(), QTextCursor::KeepAnchor);
    QTextBlockFormat left;
    left.setAlignment(Qt::AlignLeft);
    left.setBottomMargin(0);
    cursor.mergeBlockFormat(left);
    QTextCharFormat heading;
    heading.setFontWeight(QFont::DemiBold);
    heading.setProperty(QTextFormat::FontPixelSize, headingPixels);
    heading.setForeground(theme.secondText);
    cursor.mergeCharFormat(heading);
}

void setTableLook(QTextTable& table, const Theme& theme)
{
    QTextTableFormat format = table.format();
    format.setBorder(0);
    format.setBorderCollapse(true);
    format.setCellPadding(0);
    format.setCellSpacing(0);
    format.setTopMargin(0);
    format.setBottomMargin(paragraphSpace + 4);
    format.setWidth(QTextLength(QTextLength::PercentageLength, 100));
    table.setFormat(format);
    for (int row = 0; row < table.rows(); ++row) {
        for (int column = 0; column < table.columns(); ++column)
            setCellLook(table.cellAt(row, column), theme);
    }
}

/// The scaled picture; QTextDocument would scale without smoothing.
QImage scaled(const QImage& picture, int width, double pixelRatio)
{
    QImage made = picture.scaledToWidth(qRound(width * pixelRatio), Qt::SmoothTransformation);
    made.setDevicePixelRatio(pixelRatio);
    return made;
}

} // namespace

void fitPictures(QTextDocument& document, int column, double pixelRatio)
{
    std::vector<Stretch> stretches;
    for (QTextBlock block = document.begin(); block.isValid(); block = block.next()) {
        for (auto it = block.begin(); !it.atEnd(); ++it) {
            const QTextFragment fragment = it.fragment();
            if (!fragment.charFormat().isImageFormat())
                continue;
            QTextImageFormat look = fragment.charFormat().toImageFormat();
            const QImage picture(manualResource(look.name()));
            const int width = std::min(picture.width(), column);
            if (width == static_cast<int>(look.width()))
                continue;
            look.setWidth(width);
            stretches.push_back({fragment.position(), fragment.position() + fragment.length(), look});
            document.addResource(QTextDocument::ImageResource, QUrl(look.name()), scaled(picture, width, pixelRatio));
        }
    }
    setLooks(document, stretches);
}

void applyManualLook(QTextDocument& document, const Theme& theme)
{
    QFont font = theme.body;
    font.setPixelSize(textPixels);
    document.setDefaultFont(font);
    document.setIndentWidth(indent);
    for (QTextBlock block = document.begin(); block.isValid(); block = block.next()) {
        QTextCursor cursor(block);
        cursor.setPosition(block.position() + block.length() - 1, QTextCursor::KeepAnchor);
        if (const int level = block.blockFormat().headingLevel(); level > 0)
            setHeadingLook(cursor, level, theme, block == document.begin());
        else if (isCode(block))
            setCodeLook(cursor);
        else
            setTextLook(cursor, block);
        setFragmentLooks(document, block, theme);
    }
    groundListings(document, theme);
    for (QTextFrame* frame : document.rootFrame()->childFrames()) {
        if (auto* table = qobject_cast<QTextTable*>(frame))
            setTableLook(*table, theme);
    }
}

} // namespace headroom
