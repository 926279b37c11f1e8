// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/live_tree.h"
#include "views/theme/theme.h"

#include <QRectF>
#include <QWidget>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

class QPainter;

namespace headroom {

/// A node of a LiveTree in an icicle: a row for each level, from the root at the top, and a width in proportion to the
/// bytes.
struct IcicleBox
{
    std::uint32_t node = 0; ///< index in LiveTree::nodes
    QRectF area;
};

inline constexpr double icicleRow = 22; ///< height of a row, in pixels

/// Lays out a node, the nodes around it as full rows, and its descendants of at least half a pixel.
std::vector<IcicleBox> icicleBoxes(const LiveTree& tree, std::uint32_t top, const QRectF& area);

/// Paints boxes with names and bytes where there is room. A box has the colour of its main category. `selected` and
/// `hovered`: nodes, or LiveTree::none.
void paintIcicle(QPainter& painter, const LiveTree& tree, const std::vector<IcicleBox>& boxes, const Theme& theme,
                 std::uint32_t selected = LiveTree::none, std::uint32_t hovered = LiveTree::none);

/// The memory that is alive at an instant, as an icicle. A click selects a node; a double-click or Return shows the
/// node over the whole width; Escape shows all. The arrow keys go to the parent, the first child and the neighbours.
class IcicleView : public QWidget
{
    Q_OBJECT
public:
    explicit IcicleView(QWidget* parent = nullptr);

    void setTree(LiveTreePtr tree); ///< null: empty
    const LiveTreePtr& tree() const noexcept { return tree_; }
    /// Selects the largest node of a module; an invalid module selects nothing. Emits no signal.
    void selectModule(ModuleId module);
    std::uint32_t selected() const noexcept { return selected_; } ///< LiveTree::none: no node
    std::uint32_t top() const noexcept { return top_; } ///< the node over the whole width
    std::optional<QRectF> areaOf(std::uint32_t node) const; ///< nullopt: not shown

    QSize sizeHint() const override;
    QSize minimumSizeHint() const override;

Q_SIGNALS:
    void nodeSelected(quint32 node);
    void menuWanted(quint32 node, const QPoint& position); ///< `position` on the screen

protected:
    void paintEvent(QPaintEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void changeEvent(QEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseDoubleClickEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void leaveEvent(QEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void contextMenuEvent(QContextMenuEvent* event) override;
    bool event(QEvent* event) override;

private:
    void layOut();
    void show(std::uint32_t node);
    void select(std::uint32_t node);
    std::uint32_t nodeAt(QPointF position) const;
    std::uint32_t neighbour(int step) const;

    LiveTreePtr tree_;
    std::vector<IcicleBox> boxes_;
    std::uint32_t top_ = 0;
    std::uint32_t selected_ = LiveTree::none;
    std::uint32_t hovered_ = LiveTree::none;
};

/// Returns what a node holds, as text: "linear, 1.20 GiB (12.3 %), 14 blocks".
QString icicleText(const LiveTree& tree, std::uint32_t node);

} // namespace headroom
