// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/module_panel.h"

#include "views/models/table_delegate.h"
#include "views/theme/styles.h"
#include "views/theme/theme.h"
#include "views/widgets/labels.h"

#include <QAccessible>
#include <QFocusEvent>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLineEdit>
#include <QPaintEvent>
#include <QPainter>
#include <QSortFilterProxyModel>
#include <QToolButton>
#include <QVBoxLayout>

#include <algorithm>
#include <utility>

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
        painter->fillRect(stripe,
                          mark == PlanMark::offloaded || mark == PlanMark::insideOffloaded ? theme.host : theme.accent);
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
constexpr int hostWidth = 76;
constexpr int nameWidth = 160; // names get this width before the kept column gets a bar
constexpr int leastNameWidth = 80; // with less left, the table scrolls
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
        refilter();
        return true;
    }

    void setMark(PlanMark mark) ///< none: rows with any mark
    {
        mark_ = mark;
        refilter();
    }
    PlanMark mark() const noexcept { return mark_; }

protected:
    bool filterAcceptsRow(int row, const QModelIndex& parent) const override
    {
        if (atWork_.empty() && mark_ == PlanMark::none)
            return QSortFilterProxyModel::filterAcceptsRow(row, parent);
        const QModelIndex index = sourceModel()->index(row, 0, parent);
        if (mark_ != PlanMark::none && !static_cast<const ModuleTreeModel*>(sourceModel())->has(index, mark_))
            return false;
        if (atWork_.empty())
            return hasName(row, parent);
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

    void refilter()
    {
        // A row in the range, or with the mark, does not bring in the rows below.
        setAutoAcceptChildRows(atWork_.empty() && mark_ == PlanMark::none);
        invalidateFilter();
    }

    std::vector<bool> atWork_; ///< by ModuleId; empty: no range
    PlanMark mark_ = PlanMark::none;
};

ModulePanel::ModulePanel(ModuleTreeModel* model, QWidget* parent)
    : QWidget(parent)
    , model_(model)
    , proxy_(new Rows(this))
    , filter_(new QLineEdit(this))
    , tree_(new ModuleTreeView(this))
    , marks_(new QWidget(this))
    , recomputed_(makeMark(PlanMark::checkpointed, tr("Show only modules that run again in backward")))
    , moved_(makeMark(PlanMark::offloaded, tr("Show only modules with tensors that go to the host")))
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
    QHeaderView* header = tree_->header();
    header->setStretchLastSection(false);
    header->setSectionsMovable(false);
    header->setSortIndicatorShown(false);
    tree_->viewport()->installEventFilter(this);
    for (const auto& [column, width] :
         {std::pair(ModuleTreeModel::moduleColumn, nameWidth), std::pair(ModuleTreeModel::keptColumn, keptWidths[0]),
          std::pair(ModuleTreeModel::recomputeColumn, recomputeWidth),
          std::pair(ModuleTreeModel::measuredColumn, measuredWidth),
          std::pair(ModuleTreeModel::ratioColumn, ratioWidth), std::pair(ModuleTreeModel::exposedColumn, exposedWidth),
          std::pair(ModuleTreeModel::hostColumn, hostWidth)}) {
        header->setSectionResizeMode(column, QHeaderView::Fixed);
        header->resizeSection(column, width);
    }
    setComparing(false);

    auto* column = makeLayout<QVBoxLayout>(this, {8, 8, 8, 8}, 6);
    column->addWidget(filter_);
    auto* marks = makeLayout<QHBoxLayout>(marks_, {0, 0, 0, 0}, 4);
    marks->addWidget(recomputed_);
    marks->addWidget(moved_);
    marks->addStretch(1);
    column->addWidget(marks_);
    column->addWidget(tree_, 1);
    connect(model_, &ModuleTreeModel::planChanged, this, &ModulePanel::showMarks);
    setOffloading(false);

    const auto indent = [this] {
        tree_->setIndentation(
            std::clamp(deepestIndentation / std::max(model_->depth(), 1), leastIndentation, indentation));
    };
    indent();
    connect(model_, &QAbstractItemModel::modelReset, this, indent);
    connect(model_, &QAbstractItemModel::modelReset, this, [this] {
        expanded_.clear(); // of the step before
        showNothing();
    });
    connect(tree_->selectionModel(), &QItemSelectionModel::currentChanged, this, [this](const QModelIndex& current) {
        if (selecting_)
            return;
        selected_ = model_->moduleAt(proxy_->mapToSource(current));
        Q_EMIT moduleSelected(selected_);
    });
    connect(tree_, &QTreeView::customContextMenuRequested, this, [this](const QPoint& position) {
        const QModelIndex index = tree_->indexAt(position);
        if (index.isValid())
            Q_EMIT menuWanted(model_->moduleAt(proxy_->mapToSource(index)), tree_->viewport()->mapToGlobal(position));
    });
}

void ModulePanel::select(ModuleId module)
{
    selected_ = module;
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
    tree_->setColumnHidden(ModuleTreeModel::hostColumn, comparing || !offloading_);
    giveWidths();
}

void ModulePanel::setDistributed(bool distributed)
{
    distributed_ = distributed;
    setComparing(comparing_);
}

void ModulePanel::setOffloading(bool offloading, bool byModule)
{
    offloading_ = offloading;
    marks_->setVisible(offloading && byModule);
    if (!offloading || !byModule)
        filterByMark(PlanMark::none);
    setComparing(comparing_);
}

QToolButton* ModulePanel::markButton(PlanMark mark) const
{
    return mark == PlanMark::offloaded ? moved_ : recomputed_;
}

QToolButton* ModulePanel::makeMark(PlanMark mark, const QString& tip)
{
    QToolButton* button = makeSegment({}, marks_);
    button->setToolTip(tip);
    button->setProperty("small", true);
    button->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
    button->setIconSize({13, 9}); // a square, and a gap before the text
    connect(button, &QToolButton::clicked, this,
            [this, mark](bool checked) { filterByMark(checked ? mark : PlanMark::none); });
    return button;
}

/// Shows the colours of the marks and the number of modules with each.
void ModulePanel::showMarks()
{
    if (!offloading_)
        return;
    const Theme& theme = Theme::of(*this);
    const auto show = [&](QToolButton* button, const QString& text, const QColor& color, PlanMark mark) {
        QPixmap square(button->iconSize() * devicePixelRatioF());
        square.fill(Qt::transparent);
        QPainter(&square).fillRect(0, 0, square.height(), square.height(), color);
        button->setIcon(square);
        button->setText(text.arg(model_->count(mark)));
    };
    show(recomputed_, tr("Recomputed: %1"), theme.accent, PlanMark::checkpointed);
    show(moved_, tr("To the host: %1"), theme.host, PlanMark::offloaded);
    if (proxy_->mark() != PlanMark::none)
        filterByMark(proxy_->mark()); // the rows with the mark are others now
}

void ModulePanel::filterByMark(PlanMark mark)
{
    recomputed_->setChecked(mark == PlanMark::checkpointed);
    moved_->setChecked(mark == PlanMark::offloaded);
    if (mark == PlanMark::none && proxy_->mark() == PlanMark::none)
        return;
    refilter([&] { proxy_->setMark(mark); });
    select(selected_);
    showNothing();
}

void ModulePanel::changeEvent(QEvent* event)
{
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange)
        showMarks();
}

/// Gives the kept column the width that names and times leave, and the names the rest.
void ModulePanel::giveWidths()
{
    const int times = comparing_ ? measuredWidth + ratioWidth
                                 : recomputeWidth + (distributed_ ? exposedWidth : 0) + (offloading_ ? hostWidth : 0);
    const int left = tree_->viewport()->width() - times - nameWidth;
    const int last = keptWidths[comparing_ ? 3 : 2];
    const int* const widest
        = std::ranges::find_if(keptWidths, [&](int width) { return width <= std::max(left, last); });
    tree_->setColumnHidden(ModuleTreeModel::keptColumn, *widest == 0);
    if (*widest > 0)
        tree_->header()->resizeSection(ModuleTreeModel::keptColumn, *widest);
    tree_->header()->resizeSection(ModuleTreeModel::moduleColumn, std::max(left + nameWidth - *widest, leastNameWidth));
}

void ModulePanel::focusFilter()
{
    filter_->setFocus(Qt::ShortcutFocusReason);
    filter_->selectAll();
}

void ModulePanel::setRange(const std::vector<bool>& atWork)
{
    selecting_ = true;
    const bool changed = proxy_->setRange(atWork);
    selecting_ = false;
    hasRange_ = !atWork.empty();
    if (changed)
        select(selected_);
    showNothing();
}

/// Says why no module is shown.
void ModulePanel::showNothing()
{
    nothing_->setVisible(proxy_->rowCount() == 0 && model_->rowCount() > 0);
    if (nothing_->isHidden())
        return;
    nothing_->setText(!filter_->text().isEmpty() ? tr("No module's name contains “%1”.").arg(filter_->text())
                          : hasRange_            ? tr("No module inside of the model works in the range.")
                          : proxy_->mark() == PlanMark::offloaded ? tr("The plan sends no tensor to the host.")
                          : proxy_->mark() != PlanMark::none      ? tr("The plan recomputes no module.")
                                                                  : QString());
    constexpr int margin = 6;
    const int width = tree_->viewport()->width() - 2 * margin;
    nothing_->setGeometry(margin, margin, width, nothing_->heightForWidth(width));
}

bool ModulePanel::eventFilter(QObject* watched, QEvent* event)
{
    if (watched == tree_->viewport() && event->type() == QEvent::Resize) {
        giveWidths();
        showNothing();
    }
    return QWidget::eventFilter(watched, event);
}

/// Changes the filters by `change`. Filtered rows are all expanded; without a filter, the tree is expanded as before.
template <typename Change>
void ModulePanel::refilter(const Change& change)
{
    const auto filters
        = [this] { return proxy_->mark() != PlanMark::none || !proxy_->filterRegularExpression().pattern().isEmpty(); };
    const bool filtered = filters();
    if (!filtered) {
        expanded_.clear();
        rememberExpanded({});
    }
    selecting_ = true;
    change();
    if (filters()) {
        tree_->expandAll();
    } else if (filtered) {
        tree_->collapseAll();
        for (const ModuleId module : expanded_)
            tree_->expand(proxy_->mapFromSource(model_->indexOf(module)));
    }
    selecting_ = false;
}

void ModulePanel::rememberExpanded(const QModelIndex& parent)
{
    for (int row = 0; row < proxy_->rowCount(parent); ++row) {
        const QModelIndex index = proxy_->index(row, 0, parent);
        if (!tree_->isExpanded(index))
            continue;
        expanded_.push_back(model_->moduleAt(proxy_->mapToSource(index)));
        rememberExpanded(index);
    }
}

void ModulePanel::applyFilter(const QString& text)
{
    refilter([&] { proxy_->setFilterFixedString(text); });
    select(selected_);
    if (tree_->currentIndex().isValid())
        tree_->scrollTo(tree_->currentIndex());
    showNothing();
}

} // namespace headroom
