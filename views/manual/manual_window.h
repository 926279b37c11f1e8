// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QStringList>
#include <QStyledItemDelegate>
#include <QTextBrowser>
#include <QWidget>

#include <vector>

class QLabel;
class QLineEdit;
class QListWidget;
class QStackedWidget;
class QToolButton;
class QTreeWidget;
class QTreeWidgetItem;

namespace headroom {

struct ManualPage;

/// Shows a page of the manual. A click on a link emits linkWanted(); searched words are highlighted.
class ManualView : public QTextBrowser
{
    Q_OBJECT
public:
    explicit ManualView(QWidget* parent = nullptr);

    void showPage(const ManualPage& page);
    const ManualPage* page() const noexcept { return page_; }
    void scrollToSection(const QString& anchor); ///< empty or unknown: the beginning of the page

    /// Highlights every match of the words; the first match after the anchor becomes the current match.
    void highlight(const QStringList& words, const QString& anchor);
    int matches() const noexcept { return static_cast<int>(matches_.size()); }
    int currentMatch() const noexcept { return current_; } ///< -1: none
    void goToMatch(int step); ///< to the next (1) or previous (-1) match, with wrap-around

Q_SIGNALS:
    void linkWanted(const QString& link); ///< "plan.md#apply"

protected:
    void changeEvent(QEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;

private:
    void fill();
    void fit(QTextDocument& document) const;
    int positionOf(const QString& anchor) const; ///< position of a heading in the document
    void findMatches(const QStringList& words);
    void showMatches();

    const ManualPage* page_ = nullptr;
    QStringList words_;
    QList<QTextCursor> matches_; ///< matches, in order
    int current_ = -1;
};

/// Paints a search hit on three lines: the section's title, and an excerpt in the second text colour with the searched
/// words in the first.
class HitDelegate : public QStyledItemDelegate
{
    Q_OBJECT
public:
    enum Role { excerptRole = Qt::UserRole + 1, linkRole };

    using QStyledItemDelegate::QStyledItemDelegate;

    void setWords(const QStringList& words) { words_ = words; }

    void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override;
    QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override;

private:
    QStringList words_;
};

/// The window of the manual: contents or search hits at the left, the page at the right.
class ManualWindow : public QWidget
{
    Q_OBJECT
public:
    explicit ManualWindow(QWidget* parent = nullptr);

    /// Shows "plan.md" or "plan.md#apply"; an unknown link shows the first page.
    void showLink(const QString& link);
    QString link() const; ///< link of the shown page and section

    void goBack() { goTo(now_ - 1); }
    void goForward() { goTo(now_ + 1); }

    ManualView* view() const noexcept { return view_; }
    QTreeWidget* contents() const noexcept { return contents_; }
    QListWidget* hits() const noexcept { return hits_; }
    QLineEdit* search() const noexcept { return search_; }

    QSize sizeHint() const override { return {1120, 780}; }

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    /// An entry of the history: a page and the scroll position.
    struct HistoryEntry
    {
        QString link;
        int scrolled = 0;
    };

    QWidget* makeSide();
    QWidget* makeBar();
    void fillContents();
    void addKeys();

    void goTo(int entry); ///< shows an entry of history_
    void showEntry(const HistoryEntry& entry);
    void selectInContents(const QString& link);
    void showHits(const QString& text);
    void openHit(int row);
    void goToMatch(int step);
    void showCount();
    void leave(); ///< clears the search; if there is none, closes the window

    QLineEdit* search_;
    QStackedWidget* side_;
    QTreeWidget* contents_;
    QListWidget* hits_;
    QLabel* nothing_; ///< shown if there are no hits
    HitDelegate* hitDelegate_;
    QToolButton* back_;
    QToolButton* forward_;
    QLabel* count_;
    ManualView* view_;
    std::vector<HistoryEntry> history_;
    int now_ = -1; ///< index of the shown entry in history_
};

} // namespace headroom
