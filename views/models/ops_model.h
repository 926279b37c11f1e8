// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/compare/step_comparison.h"
#include "core/joint/ops_fates.h"
#include "core/trace/step_trace.h"
#include "views/plot/axis_map.h"

#include <QAbstractTableModel>

#include <vector>

namespace headroom {

/// Ops of one module, its submodules included, or of the whole step: what ran, where, what it moved and how long it
/// took, in a measured step too, and what a plan of single ops does with it. Reads the columns of the trace; keeps only
/// which ops are rows.
class OpsModel : public QAbstractTableModel
{
    Q_OBJECT
public:
    enum Column {
        numberColumn,
        nameColumn,
        moduleColumn,
        phaseColumn,
        bytesColumn,
        msColumn,
        measuredColumn,
        ratioColumn,
        planColumn,
        columns
    };
    enum Role {
        FlipRole = Qt::UserRole + 32, ///< bool: the plan does something else with the op than the one before it
    };

    explicit OpsModel(QObject* parent = nullptr);

    void setStep(StepTracePtr trace); ///< another one: all its ops; null: no rows
    void setModule(ModuleId module); ///< invalid: all ops
    /// Fates by OpId, flips ascending; both empty: ops are not planned.
    void setPlan(std::vector<OpFate> fates, std::vector<OpFlip> flips);
    void setComparison(const StepComparisonPtr& comparison); ///< null: nothing was measured
    void setOnlyFlips(bool only); ///< of the ops that are rows
    OpId opAt(const QModelIndex& index) const;

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
    void sort(int column, Qt::SortOrder order) override;

private:
    void collect(ModuleId module);
    const OpFlip* flipOf(OpId op) const; ///< null: it does not
    QString planText(OpId op) const;
    int planRank(OpId op) const; ///< flips first, then what runs again, then what is kept
    QString textOf(OpId op, int column) const;
    double measuredMs(OpId op) const; ///< negative: not known
    double ratio(OpId op) const; ///< measured to predicted; negative: not known
    Bytes outputBytes(OpId op) const;
    void sortRows();

    StepTracePtr trace_;
    ModuleId module_; ///< whose ops are rows; invalid: all
    std::vector<OpId> ops_;
    std::vector<OpFate> fates_; ///< by OpId; empty: not planned
    std::vector<OpFlip> flips_;
    StepComparisonPtr comparison_;
    bool onlyFlips_ = false;
    ByteUnit unit_;
    int sortColumn_ = numberColumn;
    Qt::SortOrder sortOrder_ = Qt::AscendingOrder;
};

} // namespace headroom
