// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/compare/step_comparison.h"
#include "core/plan/plan.h"
#include "core/predict/module_effect.h"
#include "views/plot/axis_map.h"

#include <QAbstractItemModel>

#include <map>
#include <string>
#include <vector>

namespace headroom {

/// How a plan touches a module.
enum class PlanMark {
    none,
    checkpointed, ///< a region of the plan
    inside, ///< of a region, and some of its own memory is recomputed
    contains, ///< a region lies deeper
    ops, ///< single ops of it run again, without a checkpoint of the module
};

/// The modules of one step as a tree, with what the plan does to each. Containers that never ran (ModuleList,
/// Sequential used as a list) are not rows of their own: their children carry the path, "layers.7". Natural order is
/// the order of model.modules(). What a measured step of the same model took stands beside it. Takes a whole result; a
/// new plan changes only the rows whose numbers changed.
class ModuleTreeModel : public QAbstractItemModel
{
    Q_OBJECT
public:
    enum Column { moduleColumn, keptColumn, recomputeColumn, measuredColumn, ratioColumn, exposedColumn, columns };
    enum Role {
        FqnRole = Qt::UserRole, ///< QString
        ModuleRole, ///< uint, value of ModuleId
        SortRole, ///< number by which a column sorts
        MarkRole, ///< PlanMark
        PillRole, ///< QString: "all", "62 %", "attention" where only that is checkpointed; empty: none
        PinRole, ///< "", "keep" or "recompute"
        RecordedRole, ///< qlonglong, bytes
        KeptRole, ///< qlonglong, bytes
        RecomputeRole, ///< double, ms
        ScaleRole, ///< qlonglong, bytes of the largest sibling: the full length of a bar
    };

    explicit ModuleTreeModel(QObject* parent = nullptr);

    void setStep(StepTracePtr trace, const std::vector<ModuleEffect>& recorded); ///< null: no rows
    void setPlan(const CheckpointPlan& plan, const std::vector<ModuleEffect>& effects); ///< by ModuleId
    void setOpsPlan(const std::vector<ModuleEffect>& effects); ///< of a plan of single ops: no module is checkpointed
    void clearPlan();
    void setComparison(const StepComparisonPtr& comparison); ///< null: nothing was measured
    /// By ModuleId: exposed milliseconds of communication, of the modules inside included; empty: none.
    void setExposed(const std::vector<double>& ms);
    void setPins(const std::map<std::string, Pin>& pins);

    QModelIndex indexOf(ModuleId module, int column = moduleColumn) const; ///< invalid: not a row
    ModuleId moduleAt(const QModelIndex& index) const;

    QModelIndex index(int row, int column, const QModelIndex& parent = {}) const override;
    QModelIndex parent(const QModelIndex& index) const override;
    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

private:
    struct Treatment
    {
        PlanMark mark = PlanMark::none;
        QString inside; ///< what is checkpointed inside of it: "attention", "3 parts"
        bool operator==(const Treatment&) const = default;
    };
    struct Row
    {
        ModuleId module;
        int parent = -1; ///< position in rows_; -1: top level
        int position = 0; ///< among its siblings
        std::vector<int> children;
        QString label;
        Bytes scale = 0;
        ModuleEffect effect;
        Treatment treatment;
        Pin pin = Pin::save;
        bool pinned = false;
        double exposedMs = 0;
        bool isUnit = false; ///< of FSDP
    };

    void addRow(ModuleId module, int parent);
    void setScales();
    void setTreatments(const std::vector<Treatment>& treatments, const std::vector<ModuleEffect>& effects);
    void markParents(const CheckpointPlan& plan, std::vector<Treatment>& treatments) const;
    std::vector<Treatment> treatmentsOf(const CheckpointPlan& plan, const std::vector<ModuleEffect>& effects) const;
    QString pillOf(const Row& row) const;
    void reportChanges(const std::vector<bool>& changed);
    const Row* rowAt(const QModelIndex& index) const;
    const std::vector<int>& childrenOf(const QModelIndex& parent) const;
    QString textOf(const Row& row, int column) const;
    QString toolTipOf(const Row& row) const;
    const StepComparison::ModuleTimes* timesOf(const Row& row) const; ///< null: none were measured
    QString measuredText(const Row& row, int column) const;
    double measuredNumber(const Row& row, int column) const; ///< by which these columns sort
    QString descriptionOf(const Row& row, int column) const;

    StepTracePtr trace_;
    std::vector<ModuleEffect> recorded_;
    std::vector<Row> rows_;
    std::vector<int> top_;
    std::vector<int> rowOfModule_; ///< by ModuleId; -1: not a row
    StepComparisonPtr comparison_;
    ByteUnit unit_;
    int decimals_ = 0;
};

} // namespace headroom

Q_DECLARE_METATYPE(headroom::PlanMark)
