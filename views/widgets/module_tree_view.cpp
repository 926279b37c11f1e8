// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/module_tree_view.h"

#include "views/models/module_tree_model.h"
#include "views/theme/theme.h"

#include <QAccessible>
#include <QFocusEvent>
#include <QPaintEvent>
#include <QPainter>

namespace headroom {
namespace {

constexpr int stripeWidth = 2;
constexpr int stripeGap = 3; // above and below

} // namespace

ModuleTreeView::ModuleTreeView(QWidget* parent)
    : QTreeView(parent)
{
    viewport()->setAttribute(Qt::WA_OpaquePaintEvent);
}

// The background is painted here, so that window, card and tree do not paint theirs one over the other.
void ModuleTreeView::paintEvent(QPaintEvent* event)
{
    QPainter(viewport()).fillRect(event->rect(), Theme::of(*this).card);
    QTreeView::paintEvent(event);
}

void ModuleTreeView::drawRow(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const
{
    QTreeView::drawRow(painter, option, index);
    const auto mark = index.data(ModuleTreeModel::MarkRole).value<PlanMark>();
    const bool current = index.row() == currentIndex().row() && index.parent() == currentIndex().parent();
    const bool focused = current && ring_ && hasFocus();
    if (mark == PlanMark::none && !focused)
        return;
    const Theme& theme = Theme::of(*this);
    const QRect stripe(0, option.rect.top() + stripeGap, stripeWidth, option.rect.height() - 2 * stripeGap);
    if (mark != PlanMark::none)
        painter->fillRect(stripe, theme.accent);
    if (focused) {
        painter->setPen(theme.text);
        painter->setBrush(Qt::NoBrush);
        painter->drawRect(QRectF(option.rect).adjusted(0.5, 0.5, -0.5, -0.5));
    }
}

// A new plan changes many runs of siblings. QTreeView searches for each of them among the visible rows; one repaint of
// the viewport costs less. No row changes its height.
void ModuleTreeView::dataChanged(const QModelIndex& topLeft, const QModelIndex& bottomRight, const QList<int>& roles)
{
    if (QAccessible::isActive()) // screen readers need to know what has changed
        QTreeView::dataChanged(topLeft, bottomRight, roles);
    else
        viewport()->update();
}

void ModuleTreeView::focusInEvent(QFocusEvent* event)
{
    const Qt::FocusReason reason = event->reason();
    ring_ = reason == Qt::TabFocusReason || reason == Qt::BacktabFocusReason || reason == Qt::ShortcutFocusReason;
    QTreeView::focusInEvent(event);
}

void ModuleTreeView::keyPressEvent(QKeyEvent* event)
{
    ring_ = true;
    QTreeView::keyPressEvent(event);
}

void ModuleTreeView::mousePressEvent(QMouseEvent* event)
{
    ring_ = false;
    QTreeView::mousePressEvent(event);
}

} // namespace headroom
