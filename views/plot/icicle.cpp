// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/icicle.h"

#include "views/plot/number_text.h"
#include "views/plot/text_line.h"
#include "views/theme/styles.h"

#include <QContextMenuEvent>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>

#include <algorithm>
#include <utility>

namespace headroom {

namespace {

constexpr double leastWidth = 0.5; ///< of a box, in pixels
constexpr double leastTextWidth = 28;
constexpr double textMargin = 5;

std::uint32_t levelsBelow(const LiveTree& tree, std::uint32_t top)
{
    std::uint32_t deepest = 0;
    std::vector<std::uint32_t> depths(tree.nodes.size(), 0); // below `top`; 0 for nodes elsewhere
    for (std::uint32_t node = top + 1; node < tree.nodes.size(); ++node) { // parents come first
        const std::uint32_t parent = tree.nodes[node].parent;
        if (parent == top || depths[parent] > 0)
            depths[node] = depths[parent] + 1;
        deepest = std::max(deepest, depths[node]);
    }
    return deepest;
}

} // namespace

std::vector<IcicleBox> icicleBoxes(const LiveTree& tree, std::uint32_t top, const QRectF& area)
{
    std::vector<IcicleBox> boxes;
    if (tree.nodes.empty() || tree.nodes[top].bytes == 0)
        return boxes;
    std::vector<std::uint32_t> around;
    for (std::uint32_t node = top; node != LiveTree::none; node = tree.nodes[node].parent)
        around.push_back(node);
    double y = area.top();
    for (auto node = around.rbegin(); node != around.rend(); ++node, y += icicleRow)
        boxes.push_back({*node, QRectF(area.left(), y, area.width(), icicleRow)});
    for (std::size_t at = boxes.size() - 1; at < boxes.size(); ++at) { // grows
        const auto [parent, box] = boxes[at];
        const LiveTree::Node& node = tree.nodes[parent];
        double x = box.left();
        for (std::uint32_t child = node.firstChild; child < node.firstChild + node.children; ++child) {
            const double width
                = box.width() * static_cast<double>(tree.nodes[child].bytes) / static_cast<double>(node.bytes);
            if (width < leastWidth) // the children after it are smaller
                break;
            boxes.push_back({child, QRectF(x, box.bottom(), width, icicleRow)});
            x += width;
        }
    }
    return boxes;
}

void paintIcicle(QPainter& painter, const LiveTree& tree, const std::vector<IcicleBox>& boxes, const Theme& theme,
                 std::uint32_t selected, std::uint32_t hovered)
{
    painter.setFont(theme.caption);
    for (const IcicleBox& box : boxes) {
        const LiveTree::Node& node = tree.nodes[box.node];
        const bool isMixed = node.level == LiveTree::Level::all || node.level == LiveTree::Level::module;
        QColor colour = isMixed ? theme.surface : theme.color(node.category);
        if (box.node == hovered)
            colour = isMixed ? theme.hover : colour.lighter(112);
        const QRectF inner = box.area.adjusted(0, 0, box.area.width() > 3 ? -1 : 0, -1);
        painter.fillRect(inner, colour);
        if (box.node == selected) {
            painter.setPen(QPen(theme.text, 2));
            painter.drawRect(inner.adjusted(1, 1, -1, -1));
        }
        if (inner.width() < leastTextWidth)
            continue;
        const QString bytes = bytesText(node.bytes, 2);
        const double room = inner.width() - 2 * textMargin;
        const double bytesWidth = lineWidth(theme.caption, bytes) + 2 * textMargin;
        const bool hasBytes = room > 3 * bytesWidth;
        const QRectF text = inner.adjusted(textMargin, 0, -textMargin, 0);
        painter.setPen(isMixed ? theme.text : inkOn(colour));
        paintLine(
            painter, text, Qt::AlignLeft | Qt::AlignVCenter,
            QFontMetricsF(theme.caption)
                .elidedText(QString::fromStdString(node.name), Qt::ElideRight, hasBytes ? room - bytesWidth : room));
        if (hasBytes)
            paintLine(painter, text, Qt::AlignRight | Qt::AlignVCenter, bytes);
    }
}

QString icicleText(const LiveTree& tree, std::uint32_t node)
{
    const LiveTree::Node& shown = tree.nodes[node];
    const double share = static_cast<double>(shown.bytes) / static_cast<double>(std::max<Bytes>(1, tree.root().bytes));
    return IcicleView::tr("%1, %2 (%3 %), %n block(s)", nullptr, static_cast<int>(shown.blocks))
        .arg(QString::fromStdString(shown.name), bytesText(shown.bytes, 2), QString::number(share * 100, 'f', 1));
}

IcicleView::IcicleView(QWidget* parent)
    : QWidget(parent)
{
    setMouseTracking(true);
    setFocusPolicy(Qt::StrongFocus);
    setAccessibleName(tr("What is alive, by module or category, line and block"));
}

void IcicleView::setTree(LiveTreePtr tree)
{
    tree_ = std::move(tree);
    top_ = 0;
    selected_ = hovered_ = LiveTree::none;
    layOut();
}

void IcicleView::selectModule(ModuleId module)
{
    selected_ = LiveTree::none;
    if (tree_ && module.valid()) {
        const auto found = std::ranges::find_if(tree_->nodes, [&](const LiveTree::Node& node) {
            return node.level == LiveTree::Level::module && node.id == module.value;
        });
        if (found != tree_->nodes.end())
            selected_ = static_cast<std::uint32_t>(found - tree_->nodes.begin());
    }
    update();
}

std::optional<QRectF> IcicleView::areaOf(std::uint32_t node) const
{
    const auto found = std::ranges::find(boxes_, node, &IcicleBox::node);
    return found == boxes_.end() ? std::nullopt : std::optional(found->area);
}

QSize IcicleView::sizeHint() const
{
    return {480, minimumSizeHint().height()};
}

QSize IcicleView::minimumSizeHint() const
{
    std::uint32_t rows = tree_ && !tree_->nodes.empty() ? levelsBelow(*tree_, top_) + 1 : 1;
    for (std::uint32_t node = top_; tree_ && node != 0; node = tree_->nodes[node].parent)
        ++rows;
    return {160, static_cast<int>(rows * icicleRow)};
}

void IcicleView::layOut()
{
    boxes_ = tree_ ? icicleBoxes(*tree_, top_, rect()) : std::vector<IcicleBox>();
    updateGeometry();
    update();
}

void IcicleView::show(std::uint32_t node)
{
    top_ = node;
    layOut();
}

void IcicleView::select(std::uint32_t node)
{
    if (node == LiveTree::none || node == selected_)
        return;
    selected_ = node;
    update();
    Q_EMIT nodeSelected(node);
}

std::uint32_t IcicleView::nodeAt(QPointF position) const
{
    const auto found = std::ranges::find_if(boxes_, [&](const IcicleBox& box) { return box.area.contains(position); });
    return found == boxes_.end() ? LiveTree::none : found->node;
}

/// The selected node's neighbour among the children of the parent; the node itself at the end.
std::uint32_t IcicleView::neighbour(int step) const
{
    const std::uint32_t parent = tree_->nodes[selected_].parent;
    if (parent == LiveTree::none)
        return selected_;
    const LiveTree::Node& node = tree_->nodes[parent];
    const std::uint32_t next = selected_ + static_cast<std::uint32_t>(step); // wraps below 0
    return next >= node.firstChild && next < node.firstChild + node.children ? next : selected_;
}

void IcicleView::paintEvent(QPaintEvent*)
{
    QPainter painter(this);
    const Theme& theme = Theme::of(*this);
    painter.fillRect(rect(), theme.card);
    if (tree_)
        paintIcicle(painter, *tree_, boxes_, theme, selected_, hovered_);
}

void IcicleView::resizeEvent(QResizeEvent*)
{
    layOut();
}

void IcicleView::changeEvent(QEvent* event)
{
    if (event->type() == QEvent::PaletteChange)
        update();
    QWidget::changeEvent(event);
}

void IcicleView::mousePressEvent(QMouseEvent* event)
{
    if (event->button() == Qt::LeftButton)
        select(nodeAt(event->position()));
}

void IcicleView::mouseDoubleClickEvent(QMouseEvent* event)
{
    if (const std::uint32_t node = nodeAt(event->position()); node != LiveTree::none)
        show(node);
}

void IcicleView::mouseMoveEvent(QMouseEvent* event)
{
    if (std::exchange(hovered_, nodeAt(event->position())) != hovered_)
        update();
}

void IcicleView::leaveEvent(QEvent*)
{
    hovered_ = LiveTree::none;
    update();
}

void IcicleView::keyPressEvent(QKeyEvent* event)
{
    if (!tree_ || tree_->nodes.empty())
        return QWidget::keyPressEvent(event);
    if (selected_ == LiveTree::none && event->key() != Qt::Key_Escape)
        return select(top_);
    const LiveTree::Node* const node = selected_ == LiveTree::none ? nullptr : &tree_->nodes[selected_];
    switch (event->key()) {
    case Qt::Key_Up:
        return select(node->parent);
    case Qt::Key_Down:
        return select(node->children > 0 ? node->firstChild : selected_);
    case Qt::Key_Left:
        return select(neighbour(-1));
    case Qt::Key_Right:
        return select(neighbour(1));
    case Qt::Key_Return:
    case Qt::Key_Enter:
        return show(selected_);
    case Qt::Key_Escape:
        if (top_ != 0)
            return show(0);
        break;
    default:
        break;
    }
    QWidget::keyPressEvent(event);
}

void IcicleView::contextMenuEvent(QContextMenuEvent* event)
{
    const bool atMouse = event->reason() == QContextMenuEvent::Mouse;
    if (atMouse && nodeAt(event->pos()) == LiveTree::none)
        return;
    if (atMouse)
        select(nodeAt(event->pos()));
    const std::optional<QRectF> area = areaOf(selected_);
    if (!area)
        return;
    Q_EMIT menuWanted(selected_, atMouse ? event->globalPos() : mapToGlobal(area->center().toPoint()));
}

bool IcicleView::event(QEvent* event)
{
    if (event->type() != QEvent::ToolTip)
        return QWidget::event(event);
    const auto* const help = static_cast<QHelpEvent*>(event);
    const std::uint32_t node = nodeAt(help->pos());
    if (node == LiveTree::none)
        QToolTip::hideText();
    else
        WrappedToolTips::show(help->globalPos(), icicleText(*tree_, node), this);
    return true;
}

} // namespace headroom
