// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/manual/manual_window.h"

#include "views/manual/manual_pages.h"
#include "views/theme/theme.h"

#include <QAbstractTextDocumentLayout>
#include <QEvent>
#include <QImage>
#include <QPointer>
#include <QScrollBar>
#include <QTextBlock>
#include <QTextCursor>
#include <QTextDocument>
#include <QTextFragment>
#include <QTextFrame>
#include <QTextTable>
#include <QUrl>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace headroom {
namespace {

/// The widest column of text, in pixels.
inline constexpr int manualColumn = 760;

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

void setHeadingStyle(QTextCursor& cursor, int level, const Theme& theme, bool first)
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

void setCodeStyle(QTextCursor& cursor)
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
        setCodeStyle(cursor); // the first line has the format of the paragraph above
        last = document.findBlock(frame->firstPosition() - 1);
        flatten(last);
        flatten(document.findBlock(frame->lastPosition() + 1));
    }
}

bool hasPicture(const QTextBlock& block)
{
    return block.text().contains(QChar::ObjectReplacementCharacter);
}

void setTextStyle(QTextCursor& cursor, const QTextBlock& block)
{
    QTextBlockFormat format;
    // A line with a picture is as high as the picture, and needs no space between lines.
    format.setLineHeight(hasPicture(block) ? 100 : lineHeight, QTextBlockFormat::ProportionalHeight);
    const bool inTable = cursor.currentTable() != nullptr;
    format.setTopMargin(0);
    format.setBottomMargin(inTable ? 0 : block.textList() ? 4 : paragraphSpace);
    cursor.mergeBlockFormat(format);
}

/// A piece of a block with a separate style.
struct Stretch
{
    int begin = 0;
    int end = 0;
    QTextCharFormat format;
};

void setStyles(QTextDocument& document, const std::vector<Stretch>& stretches)
{
    for (const Stretch& stretch : stretches) {
        QTextCursor cursor(&document);
        cursor.setPosition(stretch.begin);
        cursor.setPosition(stretch.end, QTextCursor::KeepAnchor);
        cursor.mergeCharFormat(stretch.format);
    }
}

/// Formats code inside of sentences, and links.
void setFragmentStyles(QTextDocument& document, const QTextBlock& block, const Theme& theme)
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
    setStyles(document, stretches);
}

void setCellStyle(QTextTableCell cell, const Theme& theme)
{
    QTextTableCellFormat format = cell.format().toTableCellFormat();
    format.setBottomBorder(1);
    format.setBottomBorderStyle(QTextFrameFormat::BorderStyle_Solid);
    format.setBottomBorderBrush(theme.line);
    format.setTopPadding(5);
    format.setBottomPadding(5);
    format.setLeftPadding(cell.column() == 0 ? 2 : 8);
    format.setRightPadding(8);
    format.setVerticalAlignment(QTextCharFormat::AlignTop);
    cell.setFormat(format);
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

void setTableStyle(QTextTable& table, const Theme& theme)
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
            setCellStyle(table.cellAt(row, column), theme);
    }
}

/// The scaled picture; QTextDocument would scale without smoothing.
QImage scaled(const QImage& picture, int width, double pixelRatio)
{
    QImage made = picture.scaledToWidth(qRound(width * pixelRatio), Qt::SmoothTransformation);
    made.setDevicePixelRatio(pixelRatio);
    return made;
}

/// Sets the width of each picture to the smaller of the picture's and the column's width, in device pixels.
void fitPictures(QTextDocument& document, int column, double pixelRatio)
{
    std::vector<Stretch> stretches;
    for (QTextBlock block = document.begin(); block.isValid(); block = block.next()) {
        for (auto it = block.begin(); !it.atEnd(); ++it) {
            const QTextFragment fragment = it.fragment();
            if (!fragment.charFormat().isImageFormat())
                continue;
            QTextImageFormat format = fragment.charFormat().toImageFormat();
            const QImage picture(manualResource(format.name()));
            const int width = std::min(picture.width(), column);
            if (width == static_cast<int>(format.width()))
                continue;
            format.setWidth(width);
            stretches.push_back({fragment.position(), fragment.position() + fragment.length(), format});
            document.addResource(QTextDocument::ImageResource, QUrl(format.name()), scaled(picture, width, pixelRatio));
        }
    }
    setStyles(document, stretches);
}

/// Applies the theme to a page made from Markdown: sizes and margins of headings, a background for code, lines in
/// tables.
void applyManualStyle(QTextDocument& document, const Theme& theme)
{
    QFont font = theme.body;
    font.setPixelSize(textPixels);
    document.setDefaultFont(font);
    document.setIndentWidth(indent);
    for (QTextBlock block = document.begin(); block.isValid(); block = block.next()) {
        QTextCursor cursor(block);
        cursor.setPosition(block.position() + block.length() - 1, QTextCursor::KeepAnchor);
        if (const int level = block.blockFormat().headingLevel(); level > 0)
            setHeadingStyle(cursor, level, theme, block == document.begin());
        else if (isCode(block))
            setCodeStyle(cursor);
        else
            setTextStyle(cursor, block);
        setFragmentStyles(document, block, theme);
    }
    groundListings(document, theme);
    for (QTextFrame* frame : document.rootFrame()->childFrames()) {
        if (auto* table = qobject_cast<QTextTable*>(frame))
            setTableStyle(*table, theme);
    }
}

constexpr int leastMargin = 28;
constexpr int topMargin = 24;
constexpr int aboveTarget = 14;

/// Whether a match lies inside another match.
bool liesIn(const QTextCursor& match, const QTextCursor& other)
{
    return match.selectionStart() >= other.selectionStart() && match.selectionEnd() <= other.selectionEnd();
}

} // namespace

ManualView::ManualView(QWidget* parent)
    : QTextBrowser(parent)
{
    setObjectName(QStringLiteral("manualView"));
    setAccessibleName(tr("Page of the manual"));
    setFrameShape(QFrame::NoFrame);
    setOpenLinks(false);
    setTextInteractionFlags(Qt::TextBrowserInteraction | Qt::TextSelectableByKeyboard);
    connect(this, &QTextBrowser::anchorClicked, this, [this](const QUrl& url) {
        const QString link = url.toString();
        Q_EMIT linkWanted(link.startsWith(QLatin1Char('#')) && page_ ? page_->file + link : link);
    });
}

void ManualView::showPage(const ManualPage& page)
{
    page_ = &page;
    fill();
}

void ManualView::fill()
{
    matches_.clear(); // cursors in the old document
    current_ = -1;
    setExtraSelections({});
    auto* made = new QTextDocument(this); // without a view, no layout for each change
    made->setMarkdown(page_->markdown, QTextDocument::MarkdownDialectGitHub);
    applyManualStyle(*made, Theme::of(*this));
    fit(*made);
    const QPointer<QTextDocument> before = document();
    setDocument(made);
    delete before;
    moveCursor(QTextCursor::Start);
}

/// Lays out the page as a column at the left, not wider than is comfortable to read.
void ManualView::fit(QTextDocument& document) const
{
    const int width = viewport()->width();
    QTextFrame* root = document.rootFrame();
    QTextFrameFormat format = root->frameFormat();
    format.setTopMargin(topMargin);
    format.setBottomMargin(topMargin);
    format.setLeftMargin(leastMargin);
    format.setRightMargin(std::max(leastMargin, width - manualColumn - leastMargin));
    root->setFrameFormat(format);
    fitPictures(document, std::min(manualColumn, width - 2 * leastMargin), devicePixelRatioF());
}

int ManualView::positionOf(const QString& anchor) const
{
    if (!page_ || anchor.isEmpty())
        return 0;
    std::size_t number = 0; // headings come in the order of the sections
    for (QTextBlock block = document()->begin(); block.isValid(); block = block.next()) {
        if (block.blockFormat().headingLevel() > 0 && page_->sections[number++].anchor == anchor)
            return block.position();
    }
    return 0;
}

void ManualView::scrollToSection(const QString& anchor)
{
    const int position = positionOf(anchor);
    QTextCursor cursor(document());
    cursor.setPosition(position);
    setTextCursor(cursor);
    const QRectF block = document()->documentLayout()->blockBoundingRect(cursor.block());
    verticalScrollBar()->setValue(position == 0 ? 0 : static_cast<int>(block.top()) - aboveTarget);
}

void ManualView::highlight(const QStringList& words, const QString& anchor)
{
    findMatches(words);
    if (matches_.empty())
        return showMatches();
    const int from = positionOf(anchor);
    const auto first
        = std::ranges::find_if(matches_, [from](const QTextCursor& match) { return match.selectionStart() >= from; });
    current_ = first == matches_.end() ? 0 : static_cast<int>(first - matches_.begin());
    showMatches();
}

void ManualView::findMatches(const QStringList& words)
{
    words_ = words;
    matches_.clear();
    current_ = -1;
    for (const QString& word : words) {
        for (QTextCursor at = document()->find(word); !at.isNull(); at = document()->find(word, at))
            matches_.push_back(at);
    }
    std::ranges::sort(matches_, {}, [](const QTextCursor& match) {
        return std::pair(match.selectionStart(), -match.selectionEnd());
    });
    const auto doubles = std::unique(matches_.begin(), matches_.end(),
                                     [](const QTextCursor& a, const QTextCursor& b) { return liesIn(b, a); });
    matches_.erase(doubles, matches_.end());
}

void ManualView::goToMatch(int step)
{
    if (matches_.empty())
        return;
    const int count = matches();
    current_ = (current_ + step + count) % count;
    showMatches();
}

void ManualView::showMatches()
{
    const Theme& theme = Theme::of(*this);
    QList<QTextEdit::ExtraSelection> selections;
    for (int i = 0; i < matches(); ++i) {
        QTextEdit::ExtraSelection selection;
        selection.cursor = matches_.at(i);
        const bool isCurrent = i == current_;
        selection.format.setBackground(isCurrent ? theme.text : theme.ghost);
        selection.format.setForeground(isCurrent ? theme.card : theme.text);
        selections.push_back(selection);
    }
    setExtraSelections(selections);
    if (current_ < 0)
        return;
    QTextCursor caret = matches_.at(current_);
    caret.setPosition(caret.selectionStart());
    setTextCursor(caret);
    ensureCursorVisible();
}

void ManualView::changeEvent(QEvent* event)
{
    QTextBrowser::changeEvent(event);
    if (event->type() != QEvent::PaletteChange || !page_)
        return;
    const int scrolled = verticalScrollBar()->value();
    const int current = current_;
    fill();
    findMatches(words_);
    current_ = current;
    showMatches();
    verticalScrollBar()->setValue(scrolled);
}

void ManualView::resizeEvent(QResizeEvent* event)
{
    QTextBrowser::resizeEvent(event);
    if (page_)
        fit(*document());
}

} // namespace headroom
