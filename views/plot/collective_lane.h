// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/step_clock.h"
#include "core/timeline/range_summary.h"
#include "views/plot/axis_map.h"
#include "views/plot/legend.h"

#include <QString>
#include <QWidget>

#include <optional>
#include <vector>

namespace headroom {

/// A part of a row with a kind of collective, in pixels.
struct CollectiveBlock
{
    std::size_t row = 0;
    double begin = 0;
    double end = 0;
    CollectiveKind kind = CollectiveKind::allReduce;
    bool exposed = false; ///< the GPU waits for the collective

    bool operator==(const CollectiveBlock&) const = default;
};

/// The collectives of a step on the axis of the step's timeline, a row for each communicator in use, in the order of
/// first use. Communicators beyond the fourth share the last row. Independent of widgets.
class CollectiveRows
{
public:
    static constexpr std::size_t mostRows = 4;

    CollectiveRows() = default;
    /// `modules` as collectiveModules() says.
    CollectiveRows(StepTracePtr trace, std::vector<ModuleId> modules, std::vector<TimedCollective> runs);

    std::size_t size() const noexcept { return runs_.size(); }
    std::size_t rowCount() const noexcept { return titles_.size(); }
    const QString& title(std::size_t row) const { return titles_[row]; } ///< "8 ranks"
    const std::vector<CollectiveKind>& kinds() const noexcept { return kinds_; } ///< the kinds of all runs, ascending
    /// Sums over runs.
    struct Sums
    {
        std::size_t runs = 0;
        double ms = 0;
        double exposedMs = 0;
    };
    /// Over the runs that belong to a selected range; nullopt: over all runs.
    Sums sums(const std::optional<TimeRange>& selection) const;
    bool belongs(std::size_t run, const std::optional<TimeRange>& selection) const;

    std::size_t row(std::size_t run) const { return rowOfGroup_[group(run).value]; }
    AxisRange range(std::size_t run) const { return {runs_[run].atMs, runs_[run].atMs + runs_[run].ms}; }
    ModuleId module(std::size_t run) const { return modules_[rows_[run]]; }
    QString text(std::size_t run) const; ///< the run in some lines

    /// The blocks in the shown range. Runs narrower than a pixel share a block, of the kind with most time.
    /// The exposed part of a run is at the end.
    std::vector<CollectiveBlock> blocks(const AxisMap& axis) const;

    /// The run of a row at an instant, or the nearest within `reach` ms, and how many more are there.
    struct Found
    {
        std::size_t run = 0;
        int more = 0;
    };
    std::optional<Found> find(std::size_t row, double ms, double reach) const;
    std::optional<std::size_t> next(std::optional<std::size_t> from, int direction) const; ///< the next run in time
    std::optional<std::size_t> beside(std::size_t from, int direction) const; ///< the nearest run of the next row

private:
    GroupId group(std::size_t run) const { return trace_->collectives.group[rows_[run]]; }
    CollectiveKind kind(std::size_t run) const { return trace_->collectives.kind[rows_[run]]; }
    QString groupText(GroupId group) const;

    StepTracePtr trace_;
    std::vector<ModuleId> modules_; ///< by row of StepTrace::Collectives
    std::vector<TimedCollective> runs_; ///< ascending by time on the axis, where runs do not overlap
    std::vector<std::size_t> rows_; ///< by run: row of StepTrace::Collectives
    std::vector<std::size_t> rowOfGroup_; ///< by GroupId: row of the lane
    std::vector<QString> titles_;
    std::vector<CollectiveKind> kinds_;
};

/// "all-gather".
QString collectiveTitle(CollectiveKind kind);

/// Shows the collectives of a distributed step below the timeline, on the same axis, with a row for each communicator.
/// The colour is the kind; a block is tall where the GPU waits, and low beside other kernels.
/// Hidden while there are none.
class CollectiveLane : public QWidget
{
    Q_OBJECT
public:
    explicit CollectiveLane(QWidget* parent = nullptr);

    void setRows(CollectiveRows rows);
    void setPlotEdges(double left, double right); ///< x of the plot's edges in own pixels, to align with the plot
    void setRange(AxisRange shown);
    void setSelection(std::optional<TimeRange> selection); ///< other runs are pale, and keys pass them over

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
    void goAlong(std::optional<std::size_t> from, int direction);
    void choose();
    void describe();

    CollectiveRows rows_;
    CollectiveRows::Sums sums_; ///< of the runs that belong to the selection
    std::vector<CollectiveBlock> blocks_;
    AxisRange shown_;
    std::optional<TimeRange> selection_;
    double top_ = 0; ///< y of the first row, below the legend
    double left_ = 0;
    double right_ = 1;
    std::optional<std::size_t> current_;
};

} // namespace headroom
