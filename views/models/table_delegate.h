// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <QStyledItemDelegate>

class QAbstractItemModel;
class QTreeView;

namespace headroom {

/// Paints cells of a plain table: rows with some padding, right-aligned numbers in tabular digits, a category with a
/// square of its colour.
class TableDelegate : public QStyledItemDelegate
{
    Q_OBJECT
public:
    using QStyledItemDelegate::QStyledItemDelegate;

    void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override;
    QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override;

protected:
    void initStyleOption(QStyleOptionViewItem* option, const QModelIndex& index) const override;
};

/// A sortable table, or with `tree` a tree, painted by a TableDelegate. The caller owns the view.
QTreeView* makeTableView(QAbstractItemModel* model, bool tree);

/// The header and all rows of a table as tab-separated text, for spreadsheets.
QString tabSeparated(const QAbstractItemModel& table);

} // namespace headroom
