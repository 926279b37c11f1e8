// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/timeline_table.h"

#include "views/plot/instant.h"
#include "views/plot/number_text.h"

namespace headroom {
namespace {

enum FixedColumn { timeColumn, phaseColumn, moduleColumn, opColumn, totalColumn, fixedColumns };

} // namespace

void TimelineTable::setPrepared(StepTracePtr trace, PreparedTimelinePtr prepared)
{
    beginResetModel();
    trace_ = std::move(trace);
    prepared_ = std::move(prepared);
    columns_.clear();
    if (prepared_ && prepared_->list) {
        const auto& changes = prepared_->list->main.changes;
        for (std::size_t i = 0; i < changes.size(); ++i) {
            if (i == 0 || changes[i] != changes[i - 1])
                columns_.push_back(i);
        }
    }
    endResetModel();
}

int TimelineTable::rowCount(const QModelIndex& parent) const
{
    return parent.isValid() ? 0 : static_cast<int>(columns_.size());
}

int TimelineTable::columnCount(const QModelIndex& parent) const
{
    return parent.isValid() || !prepared_ ? 0 : fixedColumns + static_cast<int>(prepared_->list->bands.size());
}

QVariant TimelineTable::data(const QModelIndex& index, int role) const
{
    if (!index.isValid())
        return {};
    if (role == Qt::TextAlignmentRole)
        return cellAlignment(index.column() == timeColumn || index.column() >= totalColumn);
    if (role != Qt::DisplayRole)
        return {};
    const auto& main = prepared_->list->main;
    const auto column = columns_[static_cast<std::size_t>(index.row())];
    if (index.column() >= fixedColumns)
        return countText(main.at(column)[static_cast<std::size_t>(index.column() - fixedColumns)]);
    const auto instant = describeInstant(trace_.get(), prepared_->scene.main(), main.changes[column]);
    switch (index.column()) {
    case timeColumn:
        return msText(instant.ms);
    case phaseColumn:
        return instant.phase;
    case moduleColumn:
        return instant.module;
    case opColumn:
        return instant.op;
    default:
        return countText(instant.sum);
    }
}

QVariant TimelineTable::headerData(int section, Qt::Orientation orientation, int role) const
{
    if (orientation != Qt::Horizontal || role != Qt::DisplayRole || !prepared_)
        return {};
    if (section >= fixedColumns)
        return tr("%1, bytes").arg(prepared_->list->bands[static_cast<std::size_t>(section - fixedColumns)].title);
    return QStringList{tr("Time"), tr("Phase"), tr("Module"), tr("Op"), tr("Total, bytes")}.value(section);
}

} // namespace headroom
