// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/models/module_delegate.h"

#include "views/models/module_tree_model.h"

#include <QPainter>
#include <QPainterPath>
#include <QTreeView>

#include <algorithm>

namespace headroom {
namespace {

constexpr int rowHeight = 25;
constexpr int pillPadding = 7;
constexpr int pillHeight = 16;
constexpr int barWidth = 50;
constexpr int barHeight = 6;
constexpr int gap = 6;
constexpr int cellMargin = 14; // as the header, which keeps room for its arrow

PlanMark markOf(const QModelIndex& index)
{
    return index.data(ModuleTreeModel::MarkRole).value<PlanMark>();
}

} // namespace

ModuleDelegate::ModuleDelegate(QObject* parent)
    : QStyledItemDelegate(parent)
{
}

const Theme& ModuleDelegate::themeFor(const QWidget* widget) const
{
    const qint64 key = widget ? widget->palette().cacheKey() : -1;
    if (key != themeOf_) {
        theme_ = widget ? Theme::of(*widget) : Theme::light();
        themeOf_ = key;
    }
    return theme_;
}

QSize ModuleDelegate::sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const
{
    return {QStyledItemDelegate::sizeHint(option, index).width(), rowHeight};
}

void ModuleDelegate::paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const
{
    themeFor(option.widget);
    painter->save();
    painter->setRenderHint(QPainter::Antialiasing);
    if (option.state.testFlag(QStyle::State_Selected))
        painter->fillRect(option.rect, theme_.selected);
    else if (option.state.testFlag(QStyle::State_MouseOver))
        painter->fillRect(option.rect, theme_.hover);
    switch (index.column()) {
    case ModuleTreeModel::moduleColumn:
        paintModule(*painter, option, index);
        break;
    case ModuleTreeModel::keptColumn:
        paintKept(*painter, option.rect, index);
        break;
    default:
        paintRecompute(*painter, option.rect, index);
    }
    painter->restore();
}

void ModuleDelegate::paintModule(QPainter& painter, const QStyleOptionViewItem& option, const QModelIndex& index) const
{
    const PlanMark mark = markOf(index);
    const bool marked = mark != PlanMark::none;
    int right = option.rect.right() - gap;
    const QString pill = index.data(ModuleTreeModel::PillRole).toString();
    if (!pill.isEmpty())
        right -= paintPill(painter, option.rect.adjusted(0, 0, -gap, 0), pill, true) + gap;
    const QString pin = index.data(ModuleTreeModel::PinRole).toString();
    if (!pin.isEmpty())
        right
            -= paintPill(painter, QRect(option.rect.topLeft(), QPoint(right, option.rect.bottom())), pin, false) + gap;

    const bool topLevel = !index.parent().isValid();
    painter.setFont(mark == PlanMark::checkpointed || (topLevel && index.model()->hasChildren(index))
                        ? theme_.bodyStrong
                        : theme_.body);
    painter.setPen(marked ? theme_.accent : theme_.text);
    const QRect place(option.rect.left() + 3, option.rect.top(), right - option.rect.left() - 3, option.rect.height());
    const QString name = painter.fontMetrics().elidedText(index.data().toString(), Qt::ElideMiddle, place.width());
    painter.drawText(place, Qt::AlignLeft | Qt::AlignVCenter, name);
}

/// At the right of the cell; returns its width.
int ModuleDelegate::paintPill(QPainter& painter, const QRect& cell, const QString& text, bool filled) const
{
    painter.setFont(theme_.caption);
    const int width = painter.fontMetrics().horizontalAdvance(text) + 2 * pillPadding;
    const QRectF pill(cell.right() - width + 0.5, cell.center().y() - pillHeight / 2.0 + 1, width, pillHeight);
    painter.setPen(filled ? QPen(Qt::NoPen) : QPen(theme_.secondText, 1));
    painter.setBrush(filled ? QBrush(theme_.accentSoft) : QBrush(Qt::NoBrush));
    painter.drawRoundedRect(pill, pillHeight / 2.0, pillHeight / 2.0);
    painter.setPen(filled ? theme_.accent : theme_.secondText);
    painter.drawText(pill, Qt::AlignCenter, text);
    return width;
}

void ModuleDelegate::paintKept(QPainter& painter, const QRect& cell, const QModelIndex& index) const
{
    const auto recorded = index.data(ModuleTreeModel::RecordedRole).toLongLong();
    const auto kept = index.data(ModuleTreeModel::KeptRole).toLongLong();
    const auto scale = std::max({index.data(ModuleTreeModel::ScaleRole).toLongLong(), recorded, kept, 1LL});
    const auto bar = [&](qlonglong bytes, const QColor& color) {
        const double length = barWidth * static_cast<double>(bytes) / static_cast<double>(scale);
        if (bytes > 0)
            painter.fillRect(
                QRectF(cell.left() + gap, cell.center().y() - barHeight / 2.0 + 1, std::max(length, 1.0), barHeight),
                color);
    };
    bar(recorded, theme_.pale(Category::activation));
    bar(kept, theme_.color(Category::activation));
    painter.setFont(theme_.number);
    painter.setPen(kept > 0 ? theme_.text : theme_.secondText);
    painter.drawText(cell.adjusted(0, 0, -cellMargin, 0), Qt::AlignRight | Qt::AlignVCenter, index.data().toString());
}

void ModuleDelegate::paintRecompute(QPainter& painter, const QRect& cell, const QModelIndex& index) const
{
    const bool recomputed = index.data(ModuleTreeModel::RecomputeRole).toDouble() > 0;
    painter.setFont(theme_.number);
    painter.setPen(recomputed ? theme_.accent : theme_.secondText);
    painter.drawText(cell.adjusted(0, 0, -cellMargin, 0), Qt::AlignRight | Qt::AlignVCenter, index.data().toString());
}

} // namespace headroom
