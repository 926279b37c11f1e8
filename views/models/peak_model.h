// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/compare/peak_comparison.h"

#include <QAbstractTableModel>

#include <vector>

namespace headroom {

/// A table of two peaks beside each other: a row for each module, line or category, or for each kind of op that
/// changed. A proxy sorts by SortRole.
class PeakModel : public QAbstractTableModel
{
    Q_OBJECT
public:
    /// `a` is the open step ("Here"), `b` the other file ("There").
    enum Column { nameColumn, detailColumn, aColumn, bColumn, differenceColumn, columns };
    enum Role {
        ModuleNameRole = Qt::UserRole + 33, ///< bool: the text is the name of a module, as in LiveBlocksModel
        SortRole,
    };

    /// The shown rows: by module, by line, by category, or ops; the first three as PeakKey.
    enum class Shown { modules, lines, categories, ops };

    using QAbstractTableModel::QAbstractTableModel;

    void setTables(PeakTablesPtr tables, Shown shown); ///< null: no rows

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

private:
    struct Row
    {
        QString name;
        QString detail;
        Bytes a = 0;
        Bytes b = 0;
    };
    void addRow(const PeakRow& row);
    void addRow(const OpChange& change);
    QString text(const Row& row, int column) const;

    PeakTablesPtr tables_;
    Shown shown_ = Shown::modules;
    std::vector<Row> rows_;
};

} // namespace headroom
