// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/plot/timeline_preparer.h"

#include <QAbstractTableModel>

namespace headroom {

/// The numbers of the shown timeline as a table: one row for each instant that a pixel column shows, with time, phase,
/// module, op, the total and every band. Rows are computed on demand.
class TimelineTable : public QAbstractTableModel
{
    Q_OBJECT
public:
    using QAbstractTableModel::QAbstractTableModel;

    void setPrepared(StepTracePtr trace, PreparedTimelinePtr prepared);

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

private:
    StepTracePtr trace_;
    PreparedTimelinePtr prepared_;
    std::vector<std::size_t> columns_; ///< columns of the draw list, without those that repeat the previous instant
};

} // namespace headroom
