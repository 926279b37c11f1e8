// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/plot/collective_rows.h"
#include "views/plot/legend.h"

#include <QWidget>

namespace headroom {

/// Shows the collectives of a distributed step below its timeline, on the same axis, with a row for each communicator.
/// The colour is the kind; a block is tall where the GPU waits for it, and low where other kernels run beside it.
/// Hidden while there are none.
class CollectiveLane : public QWidget
{
    Q_OBJECT
public:
    explicit CollectiveLane(QWidget* parent = nullptr);

    void setRows(CollectiveRows rows);
    void setPlotEdges(double left, double right); ///< x of the plot's edges in own pixels, to align with the plot
    void setRange(AxisRange shown);

    const CollectiveRows& rows() const noexcept { return rows_; }
    std::optional<std::size_t> current() const noexcept { return current_; } ///< the run that keys or a click chose
    QRectF rowRect(std::size_t row) const;

    QSize sizeHint() const override;

Q_SIGNALS:
    void chosen(headroom::ModuleId module, double ms); ///< a click, or Return
    void instantWanted(double ms); ///< request to show an instant outside of the range

protected:
    bool event(QEvent* event) override;
    void paintEvent(QPaintEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void changeEvent(QEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;

private:
    AxisMap axis() const { return {shown_, left_, right_}; }
    Legend legend() const;
    std::optional<CollectiveRows::Found> at(QPointF position) const;
    void place();
    void goTo(std::optional<std::size_t> run);
    void choose();
    void describe();

    CollectiveRows rows_;
    std::vector<CollectiveBlock> blocks_;
    AxisRange shown_;
    double top_ = 0; ///< y of the first row, below the legend
    double left_ = 0;
    double right_ = 1;
    std::optional<std::size_t> current_;
};

} // namespace headroom
