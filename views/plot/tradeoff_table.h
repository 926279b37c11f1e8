// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/plot/tradeoff_curve.h"

#include <QAbstractTableModel>

namespace headroom {

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

} // namespace headroom
