// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <QWidget>

class QLineEdit;
class QSortFilterProxyModel;
class QTreeView;

namespace headroom {

class ModuleTreeModel;
class ModuleTreeView;

/// The left side of the window: the module tree with a filter above it. The owner fills the ModuleTreeModel.
class ModulePanel : public QWidget
{
    Q_OBJECT
public:
    explicit ModulePanel(ModuleTreeModel* model, QWidget* parent = nullptr);

    void select(ModuleId module); ///< selects the module and scrolls to it; emits no signal
    void focusFilter();
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
    void applyFilter(const QString& text);
    void giveWidths();

    ModuleTreeModel* model_;
    QSortFilterProxyModel* proxy_;
    QLineEdit* filter_;
    ModuleTreeView* tree_;
    bool selecting_ = false;
    bool comparing_ = false;
    bool distributed_ = false;
};

} // namespace headroom
