// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/compare/step_comparison.h"
#include "core/plan/plan.h"
#include "core/predict/module_memory.h"
#include "core/predict/step_clock.h"
#include "views/plot/axis_map.h"

#include <QAbstractItemModel>

#include <map>
#include <string>
#include <vector>

namespace headroom {

/// The effect of a plan on a module.
enum class PlanMark {
    none,
    checkpointed, ///< a region of the plan
    inside, ///< inside a region, and some own memory is recomputed
    offloaded, ///< saved tensors go to the host
    insideOffloaded, ///< inside an offloaded module, and some own memory goes to the host
    contains, ///< a submodule is a region
    ops, ///< some ops run again by a plan by op
};

/// The modules of a step as a tree, with the effect of a plan on each, and the times of a measured step of the same
/// model. Containers that never ran (ModuleList, Sequential used as a list) have no row; the children have the path
/// as name, "layers.7". The natural order is as in model.modules(). A new plan updates only rows whose numbers
/// changed.
class ModuleTreeModel : public QAbstractItemModel
{
    Q_OBJECT
public:
    enum Column {
        moduleColumn,
        keptColumn,
        recomputeColumn,
        measuredColumn,
        ratioColumn,
        exposedColumn,
        hostColumn,
        columns
    };
    enum Role {
        FqnRole = Qt::UserRole, ///< QString
        ModuleRole, ///< uint, value of ModuleId
        SortRole, ///< sort key of a column
        MarkRole, ///< PlanMark
        PillRole, ///< QString: "all", "62 %", "attention" (only that is checkpointed); empty: none
        PinRole, ///< "", "keep", "recompute" or "offload"
        RecordedRole, ///< qlonglong, bytes
        KeptRole, ///< qlonglong, bytes
        RecomputeRole, ///< double, ms
        HostRole, ///< qlonglong, bytes that the plan moves to the host
        ScaleRole, ///< qlonglong, bytes of the largest sibling: full length of the bar
    };

    using QAbstractItemModel::QAbstractItemModel;

    void setStep(StepTracePtr trace, const std::vector<ModuleEffect>& recorded); ///< null: no rows
    /// `effects` are by ModuleId, `offloads` by offloaded module.
    void setPlan(const CheckpointPlan& plan, const std::vector<ModuleEffect>& effects,
                 const std::vector<ModuleOffload>& offloads = {});
    void setOpsPlan(const std::vector<ModuleEffect>& effects); ///< effects of a plan by op, which checkpoints no module
    void clearPlan();
    void setComparison(const StepComparisonPtr& comparison); ///< null: no measured step
    /// By ModuleId: exposed milliseconds of communication, of the modules inside included; empty: none.
    void setExposed(const std::vector<double>& ms);
    void setPins(const std::map<std::string, Pin>& pins);

    QModelIndex indexOf(ModuleId module, int column = moduleColumn) const; ///< invalid: the module has no row
    int depth() const; ///< number of levels of the tree
    int count(PlanMark mark) const; ///< number of rows with has()
    /// Whether a row has this mark. A checkpointed module with arguments on the host counts as offloaded, too.
    bool has(const QModelIndex& index, PlanMark mark) const;
    ModuleId moduleAt(const QModelIndex& index) const;

    QModelIndex index(int row, int column, const QModelIndex& parent = {}) const override;
    QModelIndex parent(const QModelIndex& index) const override;
    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

Q_SIGNALS:
    void planChanged(); ///< once for a plan, after the changes of its rows

private:
    struct Treatment
    {
        PlanMark mark = PlanMark::none;
        QString inside; ///< submodules that are checkpointed: "attention", "3 parts"
        bool operator==(const Treatment&) const = default;
    };
    struct Row
    {
        ModuleId module;
        int parent = -1; ///< index in rows_; -1: top level
        int position = 0; ///< index among siblings
        std::vector<int> children;
        QString label;
        Bytes scale = 0;
        ModuleEffect effect;
        Treatment treatment;
        Pin pin = Pin::save;
        bool pinned = false;
        double exposedMs = 0;
        Bytes hostBytes = 0;
        bool isUnit = false; ///< of FSDP
    };

    void addRow(ModuleId module, int parent);
    void setScales();
    void setTreatments(const std::vector<Treatment>& treatments, const std::vector<ModuleEffect>& effects,
                       const std::vector<Bytes>& hostBytes = {});
    void markParents(const CheckpointPlan& plan, std::vector<Treatment>& treatments) const;
    std::vector<Treatment> treatmentsOf(const CheckpointPlan& plan, const std::vector<ModuleEffect>& effects) const;
    static bool has(const Row& row, PlanMark mark);
    QString pillOf(const Row& row) const;
    void reportChanges(const std::vector<bool>& changed);
    const Row* rowAt(const QModelIndex& index) const;
    const std::vector<int>& childrenOf(const QModelIndex& parent) const;
    QString textOf(const Row& row, int column) const;
    QString toolTipOf(const Row& row) const;
    const StepComparison::ModuleTimes* timesOf(const Row& row) const; ///< null: not measured
    QString measuredText(const Row& row, int column) const;
    double measuredNumber(const Row& row, int column) const; ///< sort key of the columns of measured times
    QString descriptionOf(const Row& row, int column) const;

    StepTracePtr trace_;
    std::vector<ModuleEffect> recorded_;
    std::vector<Row> rows_;
    std::vector<int> top_;
    std::vector<int> rowOfModule_; ///< by ModuleId; -1: no row
    StepComparisonPtr comparison_;
    ByteUnit unit_;
    int decimals_ = 0;
};

} // namespace headroom

Q_DECLARE_METATYPE(headroom::PlanMark)
