// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"
#include "views/models/module_tree_model.h"
#include "views/theme/theme.h"

#include <QCache>
#include <QPixmap>
#include <QStyledItemDelegate>
#include <QTreeView>
#include <QWidget>

#include <vector>

class QLineEdit;
class QTreeView;

namespace headroom {

class ModuleTreeModel;
class WrappedLabel;

/// Paints a row of the module tree: a stripe and a pill where the plan checkpoints, the kept bytes as a number beside a
/// bar (pale: recorded, solid: kept), the recompute time. Colours only repeat what the text says. It caches the
/// pictures of cells, since plans switch a cell between few states.
class ModuleDelegate : public QStyledItemDelegate
{
    Q_OBJECT
public:
    explicit ModuleDelegate(QObject* parent = nullptr);

    void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override;
    QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override;

private:
    /// Everything that the picture of a cell depends on.
    struct Cell
    {
        int column = 0;
        QSize size;
        double density = 1;
        QRgb ground = 0;
        QString text;
        QString pill;
        QString pin;
        PlanMark mark = PlanMark::none;
        bool strong = false;
        qint64 recorded = 0;
        qint64 kept = 0;
        qint64 scale = 0;
        bool recomputed = false;

        bool operator==(const Cell&) const = default;
        friend size_t qHash(const Cell& cell, size_t seed = 0)
        {
            return qHashMulti(seed, cell.column, cell.size.width(), cell.ground, cell.text, cell.pill, cell.pin,
                              cell.kept);
        }
    };

    static Cell cellOf(const QModelIndex& index);
    void paintCell(QPainter& painter, const Cell& cell) const;
    void paintModule(QPainter& painter, const Cell& cell) const;
    void paintKept(QPainter& painter, const Cell& cell) const;
    void paintRecompute(QPainter& painter, const Cell& cell) const;
    int paintPill(QPainter& painter, const QRect& box, const QString& text, bool filled, int room) const;

    mutable const Theme* theme_ = nullptr; ///< theme of the last paint
    mutable QCache<Cell, QPixmap> pictures_; ///< cost in KiB
};

/// The view of a ModuleTreeModel or of the proxy. A stripe at the left edge marks every row that the plan
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

/// The left side of the window: the module tree with a filter above. The owner fills the ModuleTreeModel.
class ModulePanel : public QWidget
{
    Q_OBJECT
public:
    explicit ModulePanel(ModuleTreeModel* model, QWidget* parent = nullptr);

    void select(ModuleId module); ///< selects the module and scrolls there; emits no signal
    void focusFilter();
    /// Shows only modules at work in a range, by ModuleId (RangeSummary::modulesAtWork()), and the modules around;
    /// empty: all. The selected module may have no row then; emits no signal.
    void setRange(const std::vector<bool>& atWork);
    void setComparing(bool comparing); ///< true: columns of measured times replace the plan's column
    void setDistributed(bool distributed); ///< true: shows the column of exposed communication
    QTreeView* tree() const noexcept;
    QLineEdit* filter() const noexcept { return filter_; }

    QSize sizeHint() const override { return {400, 600}; }

Q_SIGNALS:
    void moduleSelected(headroom::ModuleId module);
    void menuWanted(headroom::ModuleId module, const QPoint& globalPosition);

protected:
    void resizeEvent(QResizeEvent* event) override;

private:
    class Rows;

    void applyFilter(const QString& text);
    void showNothing();
    void giveWidths();

    ModuleTreeModel* model_;
    Rows* proxy_;
    QLineEdit* filter_;
    ModuleTreeView* tree_;
    WrappedLabel* nothing_; ///< why the tree has no row
    bool hasRange_ = false;
    bool selecting_ = false;
    bool comparing_ = false;
    bool distributed_ = false;
};

} // namespace headroom
