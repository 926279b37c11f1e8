// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/models/module_tree_model.h"
#include "views/theme/theme.h"

#include <QCache>
#include <QPixmap>
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

/// Paints a row of the module tree: a stripe and a pill where the plan checkpoints, the kept bytes as a number beside a
/// bar (pale: recorded, solid: kept), the recompute time. Colours only repeat what the text says. It caches the
/// pictures of cells, since plans switch a cell between few states.
class ModuleDelegate : public QStyledItemDelegate
{
    Q_OBJECT
public:
    explicit ModuleDelegate(QObject* parent = nullptr);

    void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override;
    QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override;

private:
    /// Everything that the picture of a cell depends on.
    struct Cell
    {
        int column = 0;
        QSize size;
        double density = 1;
        QRgb ground = 0;
        QString text;
        QString pill;
        QString pin;
        PlanMark mark = PlanMark::none;
        bool strong = false;
        qint64 recorded = 0;
        qint64 kept = 0;
        qint64 scale = 0;
        enum class Tint { none, recomputed, moved } tint = Tint::none; ///< of a number

        bool operator==(const Cell&) const = default;
        friend size_t qHash(const Cell& cell, size_t seed = 0)
        {
            return qHashMulti(seed, cell.column, cell.size.width(), cell.ground, cell.text, cell.pill, cell.pin,
                              cell.kept);
        }
    };

    static Cell cellOf(const QModelIndex& index);
    void paintCell(QPainter& painter, const Cell& cell) const;
    void paintModule(QPainter& painter, const Cell& cell) const;
    void paintKept(QPainter& painter, const Cell& cell) const;
    void paintNumber(QPainter& painter, const Cell& cell) const;
    /// The style of a pill: for a pin, for what the plan recomputes, for what the plan moves to the host.
    enum class Pill { pin, recomputed, moved };
    int paintPill(QPainter& painter, const QRect& box, const QString& text, Pill style, int room) const;

    mutable const Theme* theme_ = nullptr; ///< theme of the last paint
    mutable QCache<Cell, QPixmap> pictures_; ///< cost in KiB
};

} // namespace headroom
