// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/models/module_delegate.h"

#include "views/models/module_tree_model.h"
#include "views/plot/text_line.h"

#include <QPainter>
#include <QPainterPath>
#include <QTreeView>

#include <algorithm>

namespace headroom {
namespace {

constexpr int rowHeight = 25;
constexpr int pillPadding = 7;
constexpr int pillHeight = 16;
constexpr int smallestPill = 24;
constexpr int shortPill = 56; // "100 %": a number is shown whole or not at all
constexpr int nameMargin = 3;
constexpr int longestBar = 54;
constexpr int numberWidth = 36; // "2210", with a gap
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
    const bool strong
        = mark == PlanMark::checkpointed || (!index.parent().isValid() && index.model()->hasChildren(index));
    const QFont& font = strong ? theme_.bodyStrong : theme_.body;
    const QString name = index.data().toString();

    // The name comes first: long pills take what it leaves.
    QRect rest = option.rect.adjusted(nameMargin, 0, -gap, 0);
    int room = rest.width() - qRound(lineWidth(font, name)) - gap;
    const auto pill = [&](const QString& text, bool filled) {
        const int width = text.isEmpty() ? 0 : paintPill(painter, rest, text, filled, room);
        rest.setRight(rest.right() - width - (width > 0 ? gap : 0));
        room -= width + (width > 0 ? gap : 0);
    };
    pill(index.data(ModuleTreeModel::PillRole).toString(), true);
    pill(index.data(ModuleTreeModel::PinRole).toString(), false);

    painter.setFont(font);
    painter.setPen(mark == PlanMark::none ? theme_.text : theme_.accent);
    paintElided(painter, rest, Qt::AlignLeft | Qt::AlignVCenter, name, Qt::ElideMiddle);
}

/// At the right of the cell, a long one not wider than `room`; returns its width, 0 when there is no room for it.
int ModuleDelegate::paintPill(QPainter& painter, const QRect& cell, const QString& text, bool filled, int room) const
{
    const int whole = qRound(lineWidth(theme_.caption, text)) + 2 * pillPadding;
    const bool isShort = whole <= shortPill && whole <= cell.width();
    const int width = isShort ? whole : std::min(whole, room);
    if (width < smallestPill)
        return 0;
    painter.setFont(theme_.caption);
    const QRectF pill(cell.right() - width + 0.5, cell.center().y() - pillHeight / 2.0 + 1, width, pillHeight);
    painter.setPen(filled ? QPen(Qt::NoPen) : QPen(theme_.secondText, 1));
    painter.setBrush(filled ? QBrush(theme_.accentSoft) : QBrush(Qt::NoBrush));
    painter.drawRoundedRect(pill, pillHeight / 2.0, pillHeight / 2.0);
    painter.setPen(filled ? theme_.accent : theme_.secondText);
    // A short one may be wider than what its padding leaves, by what the width was rounded.
    const double padding = width == whole ? pillPadding - 1 : pillPadding;
    paintElided(painter, pill.adjusted(padding, 0, -padding, 0), Qt::AlignCenter, text, Qt::ElideRight);
    return width;
}

void ModuleDelegate::paintKept(QPainter& painter, const QRect& cell, const QModelIndex& index) const
{
    const auto recorded = index.data(ModuleTreeModel::RecordedRole).toLongLong();
    const auto kept = index.data(ModuleTreeModel::KeptRole).toLongLong();
    const auto scale = std::max({index.data(ModuleTreeModel::ScaleRole).toLongLong(), recorded, kept, 1LL});
    const int longest = std::clamp(cell.width() - gap - numberWidth - cellMargin, 0, longestBar);
    const auto bar = [&](qlonglong bytes, const QColor& color) {
        const double length = longest * static_cast<double>(bytes) / static_cast<double>(scale);
        if (bytes > 0)
            painter.fillRect(
                QRectF(cell.left() + gap, cell.center().y() - barHeight / 2.0 + 1, std::max(length, 1.0), barHeight),
                color);
    };
    bar(recorded, theme_.pale(Category::activation));
    bar(kept, theme_.color(Category::activation));
    painter.setFont(theme_.number);
    painter.setPen(kept > 0 ? theme_.text : theme_.secondText);
    paintLine(painter, cell.adjusted(0, 0, -cellMargin, 0), Qt::AlignRight | Qt::AlignVCenter, index.data().toString());
}

void ModuleDelegate::paintRecompute(QPainter& painter, const QRect& cell, const QModelIndex& index) const
{
    const bool recomputed = index.column() == ModuleTreeModel::recomputeColumn
        && index.data(ModuleTreeModel::RecomputeRole).toDouble() > 0;
    painter.setFont(theme_.number);
    painter.setPen(recomputed ? theme_.accent : theme_.secondText);
    paintLine(painter, cell.adjusted(0, 0, -cellMargin, 0), Qt::AlignRight | Qt::AlignVCenter, index.data().toString());
}

} // namespace headroom
