// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"
#include "views/models/module_tree_model.h"

#include <QTreeView>
#include <QWidget>

#include <vector>

class QLineEdit;
class QToolButton;
class QTreeView;

namespace headroom {

class ModuleTreeModel;
class WrappedLabel;

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

/// The left side of the window: the module tree with a filter above. Of a plan with offload, two buttons say what the
/// colours mean and how many modules have each, and filter by them. The owner fills the ModuleTreeModel.
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
    /// Shows the column of the host if plans may offload, and the buttons if these plans are `byModule`.
    void setOffloading(bool offloading, bool byModule = true);
    QToolButton* markButton(PlanMark mark) const; ///< of `checkpointed` or `offloaded`
    QTreeView* tree() const noexcept;
    QLineEdit* filter() const noexcept { return filter_; }

    QSize sizeHint() const override { return {400, 600}; }

Q_SIGNALS:
    void moduleSelected(headroom::ModuleId module);
    void menuWanted(headroom::ModuleId module, const QPoint& globalPosition);

protected:
    bool eventFilter(QObject* watched, QEvent* event) override; ///< the tree's width may change with a scroll bar
    void changeEvent(QEvent* event) override;

private:
    class Rows;

    void applyFilter(const QString& text);
    void showNothing();
    void giveWidths();
    QToolButton* makeMark(PlanMark mark, const QString& tip);
    void showMarks();
    void filterByMark(PlanMark mark);
    template <typename Change>
    void refilter(const Change& change);
    void rememberExpanded(const QModelIndex& parent); ///< adds the expanded modules inside of `parent`

    ModuleTreeModel* model_;
    Rows* proxy_;
    QLineEdit* filter_;
    ModuleTreeView* tree_;
    QWidget* marks_; ///< the buttons
    QToolButton* recomputed_;
    QToolButton* moved_;
    WrappedLabel* nothing_; ///< why the tree has no row
    bool hasRange_ = false;
    bool selecting_ = false;
    std::vector<ModuleId> expanded_; ///< without a filter
    ModuleId selected_; ///< also while filters hide the module
    bool comparing_ = false;
    bool distributed_ = false;
    bool offloading_ = false;
};

} // namespace headroom
