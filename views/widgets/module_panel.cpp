// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/module_panel.h"

#include "views/models/module_tree_model.h"
#include "views/plot/text_line.h"
#include "views/theme/looks.h"
#include "views/theme/theme.h"
#include "views/widgets/labels.h"

#include <QAccessible>
#include <QFocusEvent>
#include <QHeaderView>
#include <QLineEdit>
#include <QPaintEvent>
#include <QPainter>
#include <QSortFilterProxyModel>
#include <QVBoxLayout>
#include <QtMath>

#include <algorithm>
#include <utility>

namespace headroom {
namespace {

constexpr int rowHeight = 25;
constexpr int pillPadding = 7;
constexpr int pillHeight = 16;
constexpr int smallestPill = 24;
constexpr int shortPill = 56; // width of "100 %": a number is shown whole or not at all
constexpr int nameMargin = 3;
constexpr int longestBar = 54;
constexpr int numberWidth = 36; // width of "2210" with a gap
constexpr int barHeight = 6;
constexpr int gap = 6;
constexpr int cellMargin = 14; // as in the header, which has room for an arrow
constexpr int cacheKibibytes = 32 * 1024; // enough for a screen full of rows, each in several states

} // namespace

ModuleDelegate::ModuleDelegate(QObject* parent)
    : QStyledItemDelegate(parent)
    , pictures_(cacheKibibytes)
{
}

QSize ModuleDelegate::sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const
{
    return {QStyledItemDelegate::sizeHint(option, index).width(), rowHeight};
}

ModuleDelegate::Cell ModuleDelegate::cellOf(const QModelIndex& index)
{
    Cell cell;
    cell.column = index.column();
    cell.text = index.data().toString();
    switch (cell.column) {
    case ModuleTreeModel::moduleColumn:
        cell.mark = index.data(ModuleTreeModel::MarkRole).value<PlanMark>();
        cell.strong
            = cell.mark == PlanMark::checkpointed || (!index.parent().isValid() && index.model()->hasChildren(index));
        cell.pill = index.data(ModuleTreeModel::PillRole).toString();
        cell.pin = index.data(ModuleTreeModel::PinRole).toString();
        break;
    case ModuleTreeModel::keptColumn:
        cell.recorded = index.data(ModuleTreeModel::RecordedRole).toLongLong();
        cell.kept = index.data(ModuleTreeModel::KeptRole).toLongLong();
        cell.scale = index.data(ModuleTreeModel::ScaleRole).toLongLong();
        break;
    case ModuleTreeModel::recomputeColumn:
        cell.recomputed = index.data(ModuleTreeModel::RecomputeRole).toDouble() > 0;
        break;
    default:
        break;
    }
    return cell;
}

void ModuleDelegate::paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const
{
    theme_ = option.widget ? &Theme::of(*option.widget) : &Theme::make(false);
    const QColor& ground = option.state.testFlag(QStyle::State_Selected) ? theme_->selected
        : option.state.testFlag(QStyle::State_MouseOver)                 ? theme_->hover
                                                                         : theme_->card;
    Cell cell = cellOf(index);
    cell.size = option.rect.size();
    cell.density = painter->device()->devicePixelRatioF();
    cell.ground = ground.rgb();
    const QPixmap* known = pictures_.object(cell);
    if (known) {
        painter->drawPixmap(option.rect.topLeft(), *known);
        return;
    }
    const QSize pixels(qCeil(cell.size.width() * cell.density), qCeil(cell.size.height() * cell.density));
    QPixmap picture(pixels);
    picture.setDevicePixelRatio(cell.density);
    picture.fill(ground);
    QPainter into(&picture);
    paintCell(into, cell);
    into.end();
    painter->drawPixmap(option.rect.topLeft(), picture);
    pictures_.insert(cell, new QPixmap(picture), pixels.width() * pixels.height() * 4 / 1024);
}

void ModuleDelegate::paintCell(QPainter& painter, const Cell& cell) const
{
    painter.setRenderHint(QPainter::Antialiasing);
    switch (cell.column) {
    case ModuleTreeModel::moduleColumn:
        return paintModule(painter, cell);
    case ModuleTreeModel::keptColumn:
        return paintKept(painter, cell);
    default:
        return paintRecompute(painter, cell);
    }
}

void ModuleDelegate::paintModule(QPainter& painter, const Cell& cell) const
{
    const QFont& font = cell.strong ? theme_->bodyStrong : theme_->body;

    // The name has priority: long pills get the rest of the width.
    QRect rest = QRect(QPoint(0, 0), cell.size).adjusted(nameMargin, 0, -gap, 0);
    int room = rest.width() - qRound(lineWidth(font, cell.text)) - gap;
    const auto pill = [&](const QString& text, bool filled) {
        const int width = text.isEmpty() ? 0 : paintPill(painter, rest, text, filled, room);
        rest.setRight(rest.right() - width - (width > 0 ? gap : 0));
        room -= width + (width > 0 ? gap : 0);
    };
    pill(cell.pill, true);
    pill(cell.pin, false);

    painter.setFont(font);
    painter.setPen(cell.mark == PlanMark::none ? theme_->text : theme_->accent);
    paintName(painter, rest, Qt::AlignLeft | Qt::AlignVCenter, cell.text);
}

/// Paints a pill at the right of the cell; a long pill takes at most `room`. Returns the width; 0: no room.
int ModuleDelegate::paintPill(QPainter& painter, const QRect& box, const QString& text, bool filled, int room) const
{
    const int whole = qRound(lineWidth(theme_->caption, text)) + 2 * pillPadding;
    const bool isShort = whole <= shortPill && whole <= box.width();
    const int width = isShort ? whole : std::min(whole, room);
    if (width < smallestPill)
        return 0;
    painter.setFont(theme_->caption);
    const QRectF pill(box.right() - width + 0.5, box.center().y() - pillHeight / 2.0 + 1, width, pillHeight);
    painter.setPen(filled ? QPen(Qt::NoPen) : QPen(theme_->secondText, 1));
    painter.setBrush(filled ? QBrush(theme_->accentSoft) : QBrush(Qt::NoBrush));
    painter.drawRoundedRect(pill, pillHeight / 2.0, pillHeight / 2.0);
    painter.setPen(filled ? theme_->accent : theme_->secondText);
    // The width is rounded, so that a whole text may need a pixel of the padding.
    const double padding = width == whole ? pillPadding - 1 : pillPadding;
    paintElided(painter, pill.adjusted(padding, 0, -padding, 0), Qt::AlignCenter, text, Qt::ElideRight);
    return width;
}

void ModuleDelegate::paintKept(QPainter& painter, const Cell& cell) const
{
    const QRect box(QPoint(0, 0), cell.size);
    const auto scale = std::max({cell.scale, cell.recorded, cell.kept, qint64(1)});
    const int longest = std::clamp(box.width() - gap - numberWidth - cellMargin, 0, longestBar);
    const auto bar = [&](qint64 bytes, const QColor& color) {
        const double length = longest * static_cast<double>(bytes) / static_cast<double>(scale);
        if (bytes > 0)
            painter.fillRect(QRectF(gap, box.center().y() - barHeight / 2.0 + 1, std::max(length, 1.0), barHeight),
                             color);
    };
    bar(cell.recorded, theme_->pale(Category::activation));
    bar(cell.kept, theme_->color(Category::activation));
    painter.setFont(theme_->number);
    painter.setPen(cell.kept > 0 ? theme_->text : theme_->secondText);
    paintLine(painter, box.adjusted(0, 0, -cellMargin, 0), Qt::AlignRight | Qt::AlignVCenter, cell.text);
}

void ModuleDelegate::paintRecompute(QPainter& painter, const Cell& cell) const
{
    const QRect box(QPoint(0, 0), cell.size);
    painter.setFont(theme_->number);
    painter.setPen(cell.recomputed ? theme_->accent : theme_->secondText);
    paintLine(painter, box.adjusted(0, 0, -cellMargin, 0), Qt::AlignRight | Qt::AlignVCenter, cell.text);
}

namespace {

constexpr int stripeWidth = 2;
constexpr int stripeGap = 3; // above and below

} // namespace

ModuleTreeView::ModuleTreeView(QWidget* parent)
    : QTreeView(parent)
{
    viewport()->setAttribute(Qt::WA_OpaquePaintEvent);
}

// The background is painted here, so that window, card and tree do not paint backgrounds over each other.
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

// A new plan changes many runs of siblings. QTreeView searches for each run among the visible rows; a repaint of
// the viewport costs less. No row changes in height.
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

namespace {

constexpr int keptWidths[]{110, 80, 76, 0}; // with a bar, with a short bar, without; hidden
constexpr int recomputeWidth = 92;
constexpr int measuredWidth = 104;
constexpr int ratioWidth = 56;
constexpr int exposedWidth = 72;
constexpr int nameWidth = 160; // names get this width before the kept column gets a bar
constexpr int indentation = 14; // of each level, less in a deep tree
constexpr int leastIndentation = 6;
constexpr int deepestIndentation = 84; // of the deepest level, so that names have room

} // namespace

/// The rows of the tree: by name, and by what works in a range. Does not sort by module, since the model has that
/// order: a proxy that sorts checks the place of each changed row.
class ModulePanel::Rows : public QSortFilterProxyModel
{
public:
    using QSortFilterProxyModel::QSortFilterProxyModel;

    void sort(int column, Qt::SortOrder order) override
    {
        const bool given = column == ModuleTreeModel::moduleColumn && order == Qt::AscendingOrder;
        QSortFilterProxyModel::sort(given ? -1 : column, order);
    }

    bool setRange(const std::vector<bool>& atWork) ///< returns whether the rows changed
    {
        if (atWork == atWork_)
            return false;
        atWork_ = atWork;
        setAutoAcceptChildRows(atWork_.empty()); // a row in the range does not bring in the rows below
        invalidateFilter();
        return true;
    }

protected:
    bool filterAcceptsRow(int row, const QModelIndex& parent) const override
    {
        if (atWork_.empty())
            return QSortFilterProxyModel::filterAcceptsRow(row, parent);
        const QModelIndex index = sourceModel()->index(row, 0, parent);
        const auto module = index.data(ModuleTreeModel::ModuleRole).toUInt();
        return module < atWork_.size() && atWork_[module] && hasName(row, parent);
    }

private:
    /// Whether the filter accepts the name of the row or of a row above.
    bool hasName(int row, const QModelIndex& parent) const
    {
        return QSortFilterProxyModel::filterAcceptsRow(row, parent)
            || (parent.isValid() && hasName(parent.row(), parent.parent()));
    }

    std::vector<bool> atWork_; ///< by ModuleId; empty: no range
};

ModulePanel::ModulePanel(ModuleTreeModel* model, QWidget* parent)
    : QWidget(parent)
    , model_(model)
    , proxy_(new Rows(this))
    , filter_(new QLineEdit(this))
    , tree_(new ModuleTreeView(this))
    , nothing_(new WrappedLabel(tree_->viewport()))
{
    nothing_->setObjectName(QStringLiteral("noModules"));
    nothing_->setProperty("second", true);
    nothing_->hide();
    proxy_->setSourceModel(model);
    proxy_->setRecursiveFilteringEnabled(true);
    proxy_->setAutoAcceptChildRows(true);
    proxy_->setFilterRole(ModuleTreeModel::FqnRole);
    proxy_->setFilterCaseSensitivity(Qt::CaseInsensitive);
    proxy_->setSortRole(ModuleTreeModel::SortRole);

    filter_->setPlaceholderText(tr("Filter modules"));
    filter_->setAccessibleName(filter_->placeholderText());
    filter_->setClearButtonEnabled(true);
    connect(filter_, &QLineEdit::textChanged, this, &ModulePanel::applyFilter);

    tree_->setModel(proxy_);
    tree_->setItemDelegate(new ModuleDelegate(tree_));
    tree_->setAccessibleName(tr("Modules"));
    tree_->setUniformRowHeights(true);
    tree_->setExpandsOnDoubleClick(true);
    tree_->setSortingEnabled(true);
    tree_->sortByColumn(ModuleTreeModel::moduleColumn, Qt::AscendingOrder);
    tree_->setContextMenuPolicy(Qt::CustomContextMenu);
    tree_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    QHeaderView* header = tree_->header();
    header->setStretchLastSection(false);
    header->setSectionsMovable(false);
    header->setSortIndicatorShown(false);
    header->setSectionResizeMode(ModuleTreeModel::moduleColumn, QHeaderView::Stretch);
    for (const auto& [column, width] : {std::pair(ModuleTreeModel::keptColumn, keptWidths[0]),
                                        std::pair(ModuleTreeModel::recomputeColumn, recomputeWidth),
                                        std::pair(ModuleTreeModel::measuredColumn, measuredWidth),
                                        std::pair(ModuleTreeModel::ratioColumn, ratioWidth),
                                        std::pair(ModuleTreeModel::exposedColumn, exposedWidth)}) {
        header->setSectionResizeMode(column, QHeaderView::Fixed);
        header->resizeSection(column, width);
    }
    setComparing(false);

    auto* column = makeLayout<QVBoxLayout>(this, {8, 8, 8, 8}, 6);
    column->addWidget(filter_);
    column->addWidget(tree_, 1);

    const auto indent = [this] {
        tree_->setIndentation(
            std::clamp(deepestIndentation / std::max(model_->depth(), 1), leastIndentation, indentation));
    };
    indent();
    connect(model_, &QAbstractItemModel::modelReset, this, indent);
    connect(model_, &QAbstractItemModel::modelReset, this, &ModulePanel::showNothing);
    connect(tree_->selectionModel(), &QItemSelectionModel::currentChanged, this, [this](const QModelIndex& current) {
        if (!selecting_)
            Q_EMIT moduleSelected(model_->moduleAt(proxy_->mapToSource(current)));
    });
    connect(tree_, &QTreeView::customContextMenuRequested, this, [this](const QPoint& position) {
        const QModelIndex index = tree_->indexAt(position);
        if (index.isValid())
            Q_EMIT menuWanted(model_->moduleAt(proxy_->mapToSource(index)), tree_->viewport()->mapToGlobal(position));
    });
}

void ModulePanel::select(ModuleId module)
{
    const QModelIndex index = proxy_->mapFromSource(model_->indexOf(module));
    if (index == tree_->currentIndex().siblingAtColumn(0))
        return;
    selecting_ = true;
    tree_->setCurrentIndex(index);
    if (index.isValid())
        tree_->scrollTo(index);
    else
        tree_->clearSelection();
    selecting_ = false;
}

QTreeView* ModulePanel::tree() const noexcept
{
    return tree_;
}

void ModulePanel::setComparing(bool comparing)
{
    comparing_ = comparing;
    tree_->setColumnHidden(ModuleTreeModel::recomputeColumn, comparing);
    tree_->setColumnHidden(ModuleTreeModel::measuredColumn, !comparing);
    tree_->setColumnHidden(ModuleTreeModel::ratioColumn, !comparing);
    tree_->setColumnHidden(ModuleTreeModel::exposedColumn, comparing || !distributed_);
    giveWidths();
}

void ModulePanel::setDistributed(bool distributed)
{
    distributed_ = distributed;
    setComparing(comparing_);
}

/// Gives the kept column the width that names and times leave.
void ModulePanel::giveWidths()
{
    const int times = comparing_ ? measuredWidth + ratioWidth : recomputeWidth + (distributed_ ? exposedWidth : 0);
    const int left = tree_->viewport()->width() - times - nameWidth;
    const int last = keptWidths[comparing_ ? 3 : 2];
    const int* const widest
        = std::ranges::find_if(keptWidths, [&](int width) { return width <= std::max(left, last); });
    tree_->setColumnHidden(ModuleTreeModel::keptColumn, *widest == 0);
    if (*widest > 0)
        tree_->header()->resizeSection(ModuleTreeModel::keptColumn, *widest);
}

void ModulePanel::focusFilter()
{
    filter_->setFocus(Qt::ShortcutFocusReason);
    filter_->selectAll();
}

void ModulePanel::setRange(const std::vector<bool>& atWork)
{
    const ModuleId current = model_->moduleAt(proxy_->mapToSource(tree_->currentIndex()));
    selecting_ = true;
    const bool changed = proxy_->setRange(atWork);
    selecting_ = false;
    hasRange_ = !atWork.empty();
    if (changed)
        select(current);
    showNothing();
}

/// Says why no module is shown.
void ModulePanel::showNothing()
{
    nothing_->setVisible(proxy_->rowCount() == 0 && model_->rowCount() > 0);
    if (nothing_->isHidden())
        return;
    nothing_->setText(!filter_->text().isEmpty() ? tr("No module has “%1” in its name.").arg(filter_->text())
                          : hasRange_            ? tr("No module inside of the model works in the range.")
                                                 : QString());
    constexpr int margin = 6;
    const int width = tree_->viewport()->width() - 2 * margin;
    nothing_->setGeometry(margin, margin, width, nothing_->heightForWidth(width));
}

void ModulePanel::resizeEvent(QResizeEvent* event)
{
    QWidget::resizeEvent(event);
    giveWidths();
    showNothing();
}

void ModulePanel::applyFilter(const QString& text)
{
    proxy_->setFilterFixedString(text);
    if (!text.isEmpty())
        tree_->expandAll();
    if (tree_->currentIndex().isValid())
        tree_->scrollTo(tree_->currentIndex());
    showNothing();
}

} // namespace headroom
