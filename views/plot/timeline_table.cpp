// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/timeline_table.h"

#include "views/plot/instant.h"
#include "views/plot/number_text.h"

namespace headroom {
namespace {

enum FixedColumn { timeColumn, phaseColumn, moduleColumn, opColumn, totalColumn, fixedColumns };

QString plainBytes(Bytes bytes)
{
    return QString::fromStdString(groupedDigits(bytes));
}

} // namespace

TimelineTable::TimelineTable(QObject* parent)
    : QAbstractTableModel(parent)
{
}

void TimelineTable::setPrepared(StepTracePtr trace, PreparedTimelinePtr prepared)
{
    beginResetModel();
    trace_ = std::move(trace);
    prepared_ = std::move(prepared);
    changes_.clear();
    if (prepared_ && prepared_->list) {
        for (const auto& column : prepared_->list->main.columns) {
            if (changes_.empty() || changes_.back() != column.maximumChange)
                changes_.push_back(column.maximumChange);
        }
    }
    endResetModel();
}

int TimelineTable::rowCount(const QModelIndex& parent) const
{
    return parent.isValid() ? 0 : static_cast<int>(changes_.size());
}

int TimelineTable::columnCount(const QModelIndex& parent) const
{
    return parent.isValid() || !prepared_ ? 0 : fixedColumns + static_cast<int>(prepared_->categories.size());
}

QVariant TimelineTable::data(const QModelIndex& index, int role) const
{
    if (!index.isValid())
        return {};
    if (role == Qt::TextAlignmentRole) {
        const bool number = index.column() == timeColumn || index.column() >= totalColumn;
        return QVariant::fromValue(Qt::Alignment((number ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter));
    }
    if (role != Qt::DisplayRole)
        return {};
    const auto instant
        = describeInstant(trace_.get(), prepared_->scene.main(), changes_[static_cast<std::size_t>(index.row())]);
    switch (index.column()) {
    case timeColumn:
        return msText(instant.ms);
    case phaseColumn:
        return instant.phase;
    case moduleColumn:
        return instant.module;
    case opColumn:
        return instant.op;
    case totalColumn:
        return plainBytes(instant.sum);
    default: {
        const auto category = prepared_->categories[static_cast<std::size_t>(index.column() - fixedColumns)];
        return plainBytes(instant.bytes[static_cast<std::size_t>(category)]);
    }
    }
}

QVariant TimelineTable::headerData(int section, Qt::Orientation orientation, int role) const
{
    if (orientation != Qt::Horizontal || role != Qt::DisplayRole || !prepared_)
        return {};
    switch (section) {
    case timeColumn:
        return tr("Time");
    case phaseColumn:
        return tr("Phase");
    case moduleColumn:
        return tr("Module");
    case opColumn:
        return tr("Op");
    case totalColumn:
        return tr("Total, bytes");
    default: {
        const auto category = prepared_->categories[static_cast<std::size_t>(section - fixedColumns)];
        return tr("%1, bytes").arg(categoryTitle(category));
    }
    }
}

} // namespace headroom
