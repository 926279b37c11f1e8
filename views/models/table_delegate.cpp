// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/models/table_delegate.h"

#include "views/models/live_blocks_model.h"
#include "views/models/ops_model.h"
#include "views/plot/text_line.h"
#include "views/theme/theme.h"

#include <QAbstractItemModel>
#include <QHeaderView>
#include <QPainter>
#include <QStringList>
#include <QStyle>
#include <QTreeView>

namespace headroom {
namespace {

constexpr int cellHeight = 23;
constexpr int swatch = 8;
constexpr int headingGap = 10; // additional margin of a right-aligned heading
constexpr int headingIndent = 3; // additional margin of a left-aligned heading

/// What the style leaves free beside the text of a cell, in pixels.
int textMargins(const QStyleOptionViewItem& option)
{
    const QStyle* style = option.widget ? option.widget->style() : nullptr;
    return style ? 2 * (style->pixelMetric(QStyle::PM_FocusFrameHMargin, nullptr, option.widget) + 1) : 0;
}

} // namespace

void TableDelegate::paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const
{
    const QVariant category = index.data(LiveBlocksModel::CategoryRole);
    if (!category.isValid()) {
        if (option.state.testFlag(QStyle::State_Selected)) // the whole cell: the text is indented
            painter->fillRect(option.rect, option.palette.highlight());
        QStyledItemDelegate::paint(painter, option, index);
        return;
    }
    QStyleOptionViewItem text = option;
    text.rect.setLeft(option.rect.left() + swatch + 4);
    QStyledItemDelegate::paint(painter, text, index);
    const QRectF square(option.rect.left(), option.rect.center().y() - swatch / 2 + 1, swatch, swatch);
    if (option.state.testFlag(QStyle::State_Selected))
        painter->fillRect(QRect(option.rect.topLeft(), QSize(swatch + 4, option.rect.height())),
                          option.palette.highlight());
    painter->fillRect(square, Theme::of(*option.widget).color(static_cast<Category>(category.toInt())));
}

QSize TableDelegate::sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const
{
    return {QStyledItemDelegate::sizeHint(option, index).width() + headingGap, cellHeight};
}

void TableDelegate::initStyleOption(QStyleOptionViewItem* option, const QModelIndex& index) const
{
    QStyledItemDelegate::initStyleOption(option, index);
    static const QFont number = Theme::light().number; // both themes have the same fonts
    const bool right = option->displayAlignment.testFlag(Qt::AlignRight);
    if (right)
        option->font = number;
    // A text has the margins of the heading.
    if (!index.data(LiveBlocksModel::CategoryRole).isValid())
        option->rect.adjust(right ? 0 : headingIndent, 0, right ? -headingGap : 0, 0);
    static_assert(int(OpsModel::ModuleNameRole) == int(LiveBlocksModel::ModuleNameRole));
    const int room = option->rect.width() - textMargins(*option);
    if (option->rect.width() > 0 && index.data(OpsModel::ModuleNameRole).toBool())
        option->text = shortenedName(option->font, option->text, room);
    else if (option->rect.width() > 0 && index.data(OpsModel::OpNameRole).toBool())
        option->text = shortenedOpName(option->font, option->text, room);
    if (index.data(OpsModel::ChangedRole).toBool() && option->widget)
        option->palette.setColor(QPalette::Text, Theme::of(*option->widget).accent);
}

QTreeView* makeTableView(QAbstractItemModel* model, bool tree)
{
    auto* view = new QTreeView;
    view->setModel(model);
    view->setItemDelegate(new TableDelegate(view));
    view->setRootIsDecorated(tree);
    view->setUniformRowHeights(true);
    view->setSortingEnabled(true);
    view->setAllColumnsShowFocus(true);
    view->setAlternatingRowColors(false);
    view->setTextElideMode(Qt::ElideMiddle);
    view->header()->setStretchLastSection(false);
    return view;
}

QString tabSeparated(const QAbstractItemModel& table)
{
    // A named result type: a deduced type would be a QStringBuilder that refers to a destroyed temporary.
    const auto line = [&](auto cell) -> QString {
        QStringList cells;
        for (int column = 0; column < table.columnCount(); ++column)
            cells << cell(column);
        return cells.join(QLatin1Char('\t')) + QLatin1Char('\n');
    };
    QString text = line([&](int column) { return table.headerData(column, Qt::Horizontal).toString(); });
    for (int row = 0; row < table.rowCount(); ++row)
        text += line([&](int column) { return table.index(row, column).data().toString(); });
    return text;
}

} // namespace headroom
