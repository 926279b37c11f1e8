// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/manual/manual_view.h"

#include "views/manual/manual_look.h"
#include "views/manual/manual_pages.h"
#include "views/theme/theme.h"

#include <QAbstractTextDocumentLayout>
#include <QEvent>
#include <QPointer>
#include <QScrollBar>
#include <QTextBlock>
#include <QTextDocument>
#include <QTextFrame>

#include <algorithm>
#include <utility>

namespace headroom {
namespace {

constexpr int leastMargin = 28;
constexpr int topMargin = 24;
constexpr int aboveTarget = 14;

/// Whether a match lies inside of another one.
bool liesIn(const QTextCursor& place, const QTextCursor& other)
{
    return place.selectionStart() >= other.selectionStart() && place.selectionEnd() <= other.selectionEnd();
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
    places_.clear(); // cursors in the old document
    current_ = -1;
    setExtraSelections({});
    auto* made = new QTextDocument(this); // without a view it is not laid out for each change
    made->setMarkdown(page_->markdown, QTextDocument::MarkdownDialectGitHub);
    applyManualLook(*made, Theme::of(*this));
    fit(*made);
    const QPointer<QTextDocument> before = document();
    setDocument(made);
    delete before;
    moveCursor(QTextCursor::Start);
}

/// Lays out the page as one column at the left, not wider than is comfortable to read.
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
    const QRectF place = document()->documentLayout()->blockBoundingRect(cursor.block());
    verticalScrollBar()->setValue(position == 0 ? 0 : static_cast<int>(place.top()) - aboveTarget);
}

void ManualView::highlight(const QStringList& words, const QString& anchor)
{
    findPlaces(words);
    if (places_.empty())
        return showPlaces();
    const int from = positionOf(anchor);
    const auto first
        = std::ranges::find_if(places_, [from](const QTextCursor& place) { return place.selectionStart() >= from; });
    current_ = first == places_.end() ? 0 : static_cast<int>(first - places_.begin());
    showPlaces();
}

void ManualView::findPlaces(const QStringList& words)
{
    words_ = words;
    places_.clear();
    current_ = -1;
    for (const QString& word : words) {
        for (QTextCursor at = document()->find(word); !at.isNull(); at = document()->find(word, at))
            places_.push_back(at);
    }
    std::ranges::sort(
        places_, {}, [](const QTextCursor& place) { return std::pair(place.selectionStart(), -place.selectionEnd()); });
    const auto doubles = std::unique(places_.begin(), places_.end(),
                                     [](const QTextCursor& a, const QTextCursor& b) { return liesIn(b, a); });
    places_.erase(doubles, places_.end());
}

void ManualView::goToPlace(int step)
{
    if (places_.empty())
        return;
    const int count = places();
    current_ = (current_ + step + count) % count;
    showPlaces();
}

void ManualView::showPlaces()
{
    const Theme& theme = Theme::of(*this);
    QList<QTextEdit::ExtraSelection> looks;
    for (int i = 0; i < places(); ++i) {
        QTextEdit::ExtraSelection look;
        look.cursor = places_.at(i);
        const bool isCurrent = i == current_;
        look.format.setBackground(isCurrent ? theme.text : theme.ghost);
        look.format.setForeground(isCurrent ? theme.card : theme.text);
        looks.push_back(look);
    }
    setExtraSelections(looks);
    if (current_ < 0)
        return;
    QTextCursor caret = places_.at(current_);
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
    findPlaces(words_);
    current_ = current;
    showPlaces();
    verticalScrollBar()->setValue(scrolled);
}

void ManualView::resizeEvent(QResizeEvent* event)
{
    QTextBrowser::resizeEvent(event);
    if (page_)
        fit(*document());
}

} // namespace headroom
