// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"
#include "views/plot/axis_map.h"

#include <QAbstractTableModel>

#include <vector>

namespace headroom {

/// Ops of one module, its submodules included, or of the whole step: what ran, where, what it moved and how long it
/// took. Reads the columns of the trace; keeps only which ops are rows.
class OpsModel : public QAbstractTableModel
{
    Q_OBJECT
public:
    enum Column { numberColumn, nameColumn, moduleColumn, phaseColumn, bytesColumn, msColumn, columns };

    explicit OpsModel(QObject* parent = nullptr);

    void setStep(StepTracePtr trace); ///< another one: all its ops; null: no rows
    void setModule(ModuleId module); ///< invalid: all ops
    OpId opAt(const QModelIndex& index) const;

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
    void sort(int column, Qt::SortOrder order) override;

private:
    void collect(ModuleId module);
    QString textOf(OpId op, int column) const;
    Bytes outputBytes(OpId op) const;
    void sortRows();

    StepTracePtr trace_;
    ModuleId module_; ///< whose ops are rows; invalid: all
    std::vector<OpId> ops_;
    ByteUnit unit_;
    int sortColumn_ = numberColumn;
    Qt::SortOrder sortOrder_ = Qt::AscendingOrder;
};

} // namespace headroom
