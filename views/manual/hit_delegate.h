// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QStringList>
#include <QStyledItemDelegate>

namespace headroom {

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

} // namespace headroom
