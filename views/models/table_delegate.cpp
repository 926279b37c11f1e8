// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/models/table_delegate.h"

#include "views/theme/theme.h"

namespace headroom {
namespace {

constexpr int rowHeight = 23;

} // namespace

QSize TableDelegate::sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const
{
    return {QStyledItemDelegate::sizeHint(option, index).width(), rowHeight};
}

void TableDelegate::initStyleOption(QStyleOptionViewItem* option, const QModelIndex& index) const
{
    QStyledItemDelegate::initStyleOption(option, index);
    static const QFont number = Theme::light().number; // fonts are those of both themes
    if (option->displayAlignment.testFlag(Qt::AlignRight))
        option->font = number;
}

} // namespace headroom
