// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/compare/step_comparison.h"
#include "core/joint/ops_frontier.h"
#include "core/trace/source_lines.h"
#include "views/plot/axis_map.h"

#include <QAbstractTableModel>

#include <optional>
#include <vector>

namespace headroom {

/// A table of the ops of a module, submodules included, or of the whole step: name, module, phase, bytes and time,
/// the time in a measured step, and what a plan by op does with each. Reads the columns of the trace; stores only the
/// ids of the ops.
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
        lineColumn,
        columns
    };
    enum Role {
        ChangedRole = Qt::UserRole + 32, ///< bool: the previous plan of the frontier decides differently
        ModuleNameRole, ///< bool: the text is the name of a module, as in LiveBlocksModel
        OpNameRole, ///< bool: the text is the name of an op
    };

    using QAbstractTableModel::QAbstractTableModel;

    void setStep(StepTracePtr trace); ///< shows all ops of the step; null: no rows
    void setModule(ModuleId module); ///< invalid: ops of the whole step
    /// `decisions` by OpId, `changed` ascending; both empty: no plan by op.
    void setPlan(std::vector<OpDecision> decisions, std::vector<ChangedOp> changed);
    void setComparison(const StepComparisonPtr& comparison); ///< null: no measured step
    void setOnlyChanged(bool only); ///< shows only rows with a changed decision
    /// Shows only ops that run in a range, by OpId (RangeSummary::runs); empty: all.
    void setRange(const std::vector<bool>& runs);
    OpId opAt(const QModelIndex& index) const;

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
    void sort(int column, Qt::SortOrder order) override;

private:
    void collect(ModuleId module);
    const ChangedOp* changeOf(OpId op) const; ///< null: the decision for the op did not change
    QString planText(OpId op) const;
    int planRank(OpId op) const; ///< sort key: changed decisions first, then recomputed ops, then saved ops
    QString textOf(OpId op, int column) const;
    double measuredMs(OpId op) const; ///< negative: not known
    double ratio(OpId op) const; ///< measured over predicted time; negative: not known
    Bytes outputBytes(OpId op) const;
    void sortRows();

    StepTracePtr trace_;
    std::optional<SourceLines> lines_; ///< nullopt: the step has none
    ModuleId module_; ///< the module with the ops; invalid: all ops
    std::vector<OpId> ops_;
    std::vector<OpDecision> decisions_; ///< by OpId; empty: no plan by op
    std::vector<ChangedOp> changed_;
    StepComparisonPtr comparison_;
    bool onlyChanged_ = false;
    std::vector<bool> inRange_; ///< by OpId; empty: no range
    ByteUnit unit_;
    int sortColumn_ = numberColumn;
    Qt::SortOrder sortOrder_ = Qt::AscendingOrder;
};

} // namespace headroom
