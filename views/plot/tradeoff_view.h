// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan.h"
#include "core/sac/module_info.h"
#include "views/plot/kept_picture.h"
#include "views/plot/plot_chart.h"
#include "views/plot/tradeoff_curve.h"

#include <QAbstractTableModel>
#include <QWidget>

#include <string>
#include <vector>

class QAbstractItemModel;

namespace headroom {

class LegendBar;

/// The chart of the trade-off plot: axes, curves and dots, and a current point. Arrow keys move the current point along
/// the curve, and Enter chooses the point. Parts common to all plans are painted once.
class TradeOffChart : public PlotChart
{
    Q_OBJECT
public:
    explicit TradeOffChart(QWidget* parent);

    /// `empty` is the sentence shown if the picture has no curve.
    void setPicture(const TradeOffPicture& picture, double msPerGiB, const QString& empty);

    TradeOffPlane plane() const; ///< in pixels of the viewport

Q_SIGNALS:
    void pointChosen(double ratio);

protected:
    void resizeEvent(QResizeEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void focusInEvent(QFocusEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;
    void paintEvent(QPaintEvent* event) override;
    void wheelEvent(QWheelEvent* event) override;

private:
    void place();
    void updateAxes(const Theme& theme);
    QRectF planRect() const;
    void paintPlan(QPainter& painter, const Theme& theme) const;
    int cornerAt(QPointF position) const; ///< -1: none
    QString words(const TradeOffPoint& point) const;

    KeptPicture scenery_; ///< axes, grid, and the curves of other modules
    TradeOffPicture picture_;
    double msPerGiB_ = 0;
    QString empty_;
    int current_ = -1;
};

/// The numbers of the trade-off plot as a table: the corners of the selected module's curve, and the plan's choice.
class TradeOffTable : public QAbstractTableModel
{
    Q_OBJECT
public:
    using QAbstractTableModel::QAbstractTableModel;

    void setPicture(const TradeOffPicture& picture);

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

private:
    struct Row
    {
        TradeOffPoint point;
        bool chosen = false;
    };
    std::vector<Row> rows_;
};

/// The trade-off plot: activation memory kept against time to recompute the rest. For the selected module it shows the
/// planner's options, with PyTorch's estimate in grey; until the options are known, PyTorch's estimate, with other
/// modules of its class in grey. Dots are the plan's choices. The dashed tangent is the price of memory at the budget:
/// a plan recomputes where memory is cheaper than that.
class TradeOffView : public QWidget
{
    Q_OBJECT
public:
    explicit TradeOffView(QWidget* parent = nullptr);

    void setModules(ModuleInfoPtr info); ///< null: empty
    void select(const std::string& fqn); ///< empty: none
    void setOptions(const std::string& fqn, std::vector<ModuleOption> options); ///< options of the module `fqn`
    /// Sets the plan's choices and the price of memory, Plan::msPerGiB; NaN or 0: no tangent. `fits`: the plan keeps the
    /// budget; else the choices are those of the plan of least memory.
    void setPlan(PlannedPoint planned, double msPerGiB, bool fits = true);
    void clearPlan();

    const std::string& selected() const noexcept { return fqn_; }

    /// The same numbers as a table: point, kept, recompute, chosen. Owned by the view.
    QAbstractItemModel* table() const;

    QSize sizeHint() const override { return {860, 320}; }
    QSize minimumSizeHint() const override { return {320, 176}; }

Q_SIGNALS:
    /// A point of the selected module was clicked: `ratio` is the discarded share of activation memory.
    void pointChosen(const std::string& fqn, double ratio);

private:
    void showPicture();
    void showHead(const TradeOffPicture& picture);
    TradeOffPicture picture() const;
    QString whyEmpty(const TradeOffPicture& picture) const;

    LegendBar* head_;
    TradeOffChart* chart_;
    TradeOffTable* table_;
    ModuleInfoPtr info_;
    std::string fqn_; ///< the selected module; empty: none
    std::string optionsFqn_; ///< the module of `options_`
    std::vector<ModuleOption> options_;
    PlannedPoint planned_;
    double price_ = 0; ///< ms per GiB; 0: none
    bool fits_ = true;
};

} // namespace headroom
