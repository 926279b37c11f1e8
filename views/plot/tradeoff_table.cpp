// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/tradeoff_table.h"

#include "views/plot/number_text.h"

#include <algorithm>
#include <cmath>

namespace headroom {
namespace {

enum ColumnOf { discardedColumn, keptColumn, recomputeColumn, chosenColumn, columns };

} // namespace

void TradeOffTable::setPicture(const TradeOffPicture& picture)
{
    beginResetModel();
    rows_.clear();
    for (const auto& point : picture.curve)
        rows_.push_back({point, false});
    if (picture.hasPlan && !picture.curve.empty()) {
        const auto corner = std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) {
            return std::abs(row.point.ratio - picture.chosen.ratio) < 1e-6;
        });
        if (corner != rows_.end()) {
            corner->chosen = true;
        } else {
            const auto after = std::find_if(rows_.begin(), rows_.end(),
                                            [&](const Row& row) { return row.point.ratio > picture.chosen.ratio; });
            rows_.insert(after, {picture.chosen, true});
        }
    }
    endResetModel();
}

int TradeOffTable::rowCount(const QModelIndex& parent) const
{
    return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}

int TradeOffTable::columnCount(const QModelIndex& parent) const
{
    return parent.isValid() ? 0 : columns;
}

QVariant TradeOffTable::data(const QModelIndex& index, int role) const
{
    if (!index.isValid())
        return {};
    if (role == Qt::TextAlignmentRole && index.column() != chosenColumn)
        return cellAlignment(true);
    if (role != Qt::DisplayRole)
        return {};
    const auto& row = rows_[static_cast<std::size_t>(index.row())];
    switch (index.column()) {
    case discardedColumn:
        return QString::number(100 * row.point.ratio, 'f', 1);
    case keptColumn:
        return QString::number(row.point.kept / static_cast<double>(MiB), 'f', 2);
    case recomputeColumn:
        return QString::number(row.point.ms, 'f', 3);
    default:
        return row.chosen ? tr("chosen") : QString();
    }
}

QVariant TradeOffTable::headerData(int section, Qt::Orientation orientation, int role) const
{
    if (orientation != Qt::Horizontal || role != Qt::DisplayRole)
        return {};
    return QStringList{tr("Discarded, %"), tr("Kept, MiB"), tr("Recompute, ms"), tr("Plan")}.value(section);
}

} // namespace headroom
