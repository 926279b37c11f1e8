// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QStringList>
#include <QStyledItemDelegate>

namespace headroom {

/// A hit of a search on three lines: the section, and in the second colour the words around the place, with those that
/// were looked for in full colour.
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
