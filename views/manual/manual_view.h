// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QStringList>
#include <QTextBrowser>

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
    int places() const noexcept { return static_cast<int>(places_.size()); }
    int currentPlace() const noexcept { return current_; } ///< -1: none
    void goToPlace(int step); ///< to the next (1) or previous (-1) match, with wrap-around

Q_SIGNALS:
    void linkWanted(const QString& link); ///< "plan.md#apply"

protected:
    void changeEvent(QEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;

private:
    void fill();
    void fit(QTextDocument& document) const;
    int positionOf(const QString& anchor) const; ///< position of a heading in the document
    void findPlaces(const QStringList& words);
    void showPlaces();

    const ManualPage* page_ = nullptr;
    QStringList words_;
    QList<QTextCursor> places_; ///< matches, in order
    int current_ = -1;
};

} // namespace headroom
