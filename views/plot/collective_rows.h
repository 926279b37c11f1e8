// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/step_clock.h"
#include "views/plot/axis_map.h"

#include <QString>

#include <optional>
#include <vector>

namespace headroom {

/// What the lane paints: a stretch of one kind in a row, in pixels.
struct CollectiveBlock
{
    std::size_t row = 0;
    double begin = 0;
    double end = 0;
    CollectiveKind kind = CollectiveKind::allReduce;
    bool exposed = false; ///< the GPU waits for it

    bool operator==(const CollectiveBlock&) const = default;
};

/// The collectives of a step on the axis of its timeline, a row for each communicator that is used, in the order of
/// their first use. Communicators beyond the fourth share the last row. A value, that knows no widget.
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
    const std::vector<CollectiveKind>& kinds() const noexcept { return kinds_; } ///< that there are, ascending
    double ms() const noexcept { return ms_; }
    double exposedMs() const noexcept { return exposedMs_; }

    std::size_t row(std::size_t run) const { return rowOfGroup_[group(run).value]; }
    AxisRange range(std::size_t run) const { return {runs_[run].atMs, runs_[run].atMs + runs_[run].ms}; }
    ModuleId module(std::size_t run) const { return modules_[rows_[run]]; }
    QString text(std::size_t run) const; ///< lines

    /// What is painted of the range that is shown: runs narrower than a pixel are one block a pixel, of the kind that
    /// takes most of it. An exposed part stands at the end of its run.
    std::vector<CollectiveBlock> blocks(const AxisMap& axis) const;

    /// The run of a row at an instant, or the nearest within `reach` ms, and how many more are there.
    struct Found
    {
        std::size_t run = 0;
        int more = 0;
    };
    std::optional<Found> find(std::size_t row, double ms, double reach) const;
    std::optional<std::size_t> next(std::optional<std::size_t> from, int direction) const; ///< in time
    std::optional<std::size_t> beside(std::size_t from, int direction) const; ///< the nearest of the next row

private:
    GroupId group(std::size_t run) const { return trace_->collectives.group[rows_[run]]; }
    CollectiveKind kind(std::size_t run) const { return trace_->collectives.kind[rows_[run]]; }
    QString groupText(GroupId group) const;

    StepTracePtr trace_;
    std::vector<ModuleId> modules_; ///< by row of StepTrace::Collectives
    std::vector<TimedCollective> runs_; ///< as they are on the axis, where none lies over another
    std::vector<std::size_t> rows_; ///< of StepTrace::Collectives, by run
    std::vector<std::size_t> rowOfGroup_;
    std::vector<QString> titles_;
    std::vector<CollectiveKind> kinds_;
    double ms_ = 0;
    double exposedMs_ = 0;
};

/// "all-gather".
QString collectiveTitle(CollectiveKind kind);

} // namespace headroom
