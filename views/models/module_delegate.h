// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/theme/theme.h"

#include <QStyledItemDelegate>

namespace headroom {

/// Paints a row of the module tree: a stripe and a pill where the plan checkpoints, the kept bytes as a number beside a
/// bar (pale: recorded, solid: kept), the recompute time. Colours only repeat what the text says.
class ModuleDelegate : public QStyledItemDelegate
{
    Q_OBJECT
public:
    explicit ModuleDelegate(QObject* parent = nullptr);

    void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override;
    QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override;

private:
    void paintModule(QPainter& painter, const QStyleOptionViewItem& option, const QModelIndex& index) const;
    void paintKept(QPainter& painter, const QRect& cell, const QModelIndex& index) const;
    void paintRecompute(QPainter& painter, const QRect& cell, const QModelIndex& index) const;
    int paintPill(QPainter& painter, const QRect& cell, const QString& text, bool filled, int room) const;
    const Theme& themeFor(const QWidget* widget) const;

    mutable Theme theme_; ///< cached: making one takes longer than painting a cell
    mutable qint64 themeOf_ = 0; ///< cache key of the palette that theme_ was made for
};

} // namespace headroom
