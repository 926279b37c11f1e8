// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/fit/changes.h"
#include "core/fit/fit.h"

#include <QAbstractTableModel>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace headroom {

using FitResultPtr = std::shared_ptr<const FitResult>;

/// A table of the sizes of a FitResult on all cards. A size that failed has the reason as tool tip.
class FitModel : public QAbstractTableModel
{
    Q_OBJECT
public:
    enum Column {
        cardColumn,
        batchColumn,
        sequenceColumn,
        accumulationColumn,
        runsColumn,
        samplesColumn,
        tokensColumn,
        stepColumn,
        recomputeColumn,
        peakColumn,
        reservedColumn,
        sourceColumn,
        columns
    };
    /// A row of the table: indexes of FitResult::series and FitSeries::rows.
    struct RowIndex
    {
        std::size_t series = 0;
        std::size_t row = 0;
        bool operator==(const RowIndex&) const = default;
    };

    using QAbstractTableModel::QAbstractTableModel;

    void setResult(FitResultPtr result); ///< null: no rows
    RowIndex rowAt(const QModelIndex& index) const { return rows_[static_cast<std::size_t>(index.row())]; }
    QModelIndex indexOf(RowIndex at) const; ///< in the first column; invalid: no such row
    /// Whether a column of numbers, or of cards, says something: rows differ there, or have a rate.
    bool hasValues(Column column) const;

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;
    void sort(int column, Qt::SortOrder order) override;

private:
    const FitSeries& seriesOf(RowIndex at) const { return result_->series[at.series]; }
    const FitRow& rowOf(RowIndex at) const { return seriesOf(at).rows[at.row]; }
    QString textOf(RowIndex at, int column) const;
    QString tipOf(RowIndex at) const;
    std::pair<double, QString> keyOf(RowIndex at) const; ///< of the sorted column
    void sortRows();

    FitResultPtr result_;
    std::vector<RowIndex> rows_; ///< by row of the table
    int sortColumn_ = cardColumn;
    Qt::SortOrder sortOrder_ = Qt::AscendingOrder;
};

using ChangesPtr = std::shared_ptr<const Changes>;

/// A table of changes that would help (changesThatHelp()), in their order: what each frees and costs, and how sure that
/// is. The tool tip has the code, the peak, and what a calculation rests on.
class ChangesModel : public QAbstractTableModel
{
    Q_OBJECT
public:
    enum Column { changeColumn, freesColumn, runsColumn, stepColumn, costColumn, sourceColumn, columns };

    using QAbstractTableModel::QAbstractTableModel;

    void setChanges(ChangesPtr changes); ///< null: no rows

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

private:
    ChangesPtr changes_;
};

} // namespace headroom
