// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QTreeView>

namespace headroom {

/// The view of a ModuleTreeModel or of its proxy. It draws a stripe at the left edge of every row that the plan
/// changed, so that such rows are visible at any depth of the tree.
class ModuleTreeView : public QTreeView
{
    Q_OBJECT
public:
    explicit ModuleTreeView(QWidget* parent = nullptr);

    void dataChanged(const QModelIndex& topLeft, const QModelIndex& bottomRight, const QList<int>& roles = {}) override;

protected:
    void paintEvent(QPaintEvent* event) override;
    void drawRow(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override;
    void focusInEvent(QFocusEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;

private:
    bool ring_ = false; ///< the current row has a focus ring, since the keyboard is in use
};

} // namespace headroom
