// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/module_panel.h"

#include "views/models/module_delegate.h"
#include "views/models/module_tree_model.h"
#include "views/theme/looks.h"
#include "views/widgets/module_tree_view.h"

#include <QHeaderView>
#include <QLineEdit>
#include <QSortFilterProxyModel>
#include <QVBoxLayout>

#include <algorithm>
#include <utility>

namespace headroom {
namespace {

constexpr int keptWidths[]{110, 80, 76, 0}; // with a bar, with a short one, without; hidden
constexpr int recomputeWidth = 92;
constexpr int measuredWidth = 104;
constexpr int ratioWidth = 56;
constexpr int exposedWidth = 72;
constexpr int nameWidth = 160; // names get this width before the kept column gets its bar
constexpr int indentation = 14; // of each level, less in a deep tree
constexpr int leastIndentation = 6;
constexpr int deepestIndentation = 84; // of the deepest level, so that its names have room

/// Does not sort by module, since the model has that order: a proxy that sorts checks the place of each changed row.
class ModuleOrder : public QSortFilterProxyModel
{
public:
    using QSortFilterProxyModel::QSortFilterProxyModel;

    void sort(int column, Qt::SortOrder order) override
    {
        const bool given = column == ModuleTreeModel::moduleColumn && order == Qt::AscendingOrder;
        QSortFilterProxyModel::sort(given ? -1 : column, order);
    }
};

} // namespace

ModulePanel::ModulePanel(ModuleTreeModel* model, QWidget* parent)
    : QWidget(parent)
    , model_(model)
    , proxy_(new ModuleOrder(this))
    , filter_(new QLineEdit(this))
    , tree_(new ModuleTreeView(this))
{
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

void ModulePanel::resizeEvent(QResizeEvent* event)
{
    QWidget::resizeEvent(event);
    giveWidths();
}

void ModulePanel::applyFilter(const QString& text)
{
    proxy_->setFilterFixedString(text);
    if (!text.isEmpty())
        tree_->expandAll();
    if (tree_->currentIndex().isValid())
        tree_->scrollTo(tree_->currentIndex());
}

} // namespace headroom
