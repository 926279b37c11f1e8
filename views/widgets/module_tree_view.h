// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QTreeView>

namespace headroom {

/// The tree of a ModuleTreeModel (or of a proxy of it): draws a stripe at the left edge of every row that the plan
/// changed, so that they are seen at any depth of the tree.
class ModuleTreeView : public QTreeView
{
    Q_OBJECT
public:
    explicit ModuleTreeView(QWidget* parent = nullptr);

    void dataChanged(const QModelIndex& topLeft, const QModelIndex& bottomRight, const QList<int>& roles = {}) override;

protected:
    void drawRow(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override;
    void focusInEvent(QFocusEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;

private:
    bool ring_ = false; ///< the keyboard is in use: the current row has a focus ring
};

} // namespace headroom
