// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/models/ops_model.h"

#include "views/plot/number_text.h"

#include <QLocale>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace headroom {
namespace {

bool isNumber(int column)
{
    return column == OpsModel::numberColumn || (column >= OpsModel::bytesColumn && column <= OpsModel::ratioColumn);
}

} // namespace

void OpsModel::setStep(StepTracePtr trace)
{
    if (trace == trace_)
        return;
    beginResetModel();
    trace_ = std::move(trace);
    lines_.reset();
    if (trace_ && hasSourceLines(*trace_))
        lines_.emplace(*trace_);
    decisions_.clear();
    changed_.clear();
    comparison_.reset();
    inRange_.clear();
    collect({});
    Bytes largest = 0;
    for (const Bytes bytes : trace_ ? trace_->storages.bytes.rows : std::span<const Bytes>())
        largest = std::max(largest, bytes);
    unit_ = byteUnitFor(static_cast<double>(std::min(largest, GiB - 1)));
    endResetModel();
}

void OpsModel::setModule(ModuleId module)
{
    if (module == module_)
        return;
    beginResetModel();
    collect(module);
    endResetModel();
}

void OpsModel::setPlan(std::vector<OpDecision> decisions, std::vector<ChangedOp> changed)
{
    const bool rows = onlyChanged_;
    if (rows)
        beginResetModel();
    decisions_ = std::move(decisions);
    changed_ = std::move(changed);
    if (rows) {
        collect(module_);
        endResetModel();
    } else if (!ops_.empty()) {
        if (sortColumn_ == planColumn)
            sort(sortColumn_, sortOrder_);
        Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, columns - 1));
    }
}

void OpsModel::setComparison(const StepComparisonPtr& comparison)
{
    if (comparison == comparison_)
        return;
    comparison_ = comparison;
    if (ops_.empty())
        return;
    if (sortColumn_ == measuredColumn || sortColumn_ == ratioColumn)
        sort(sortColumn_, sortOrder_);
    Q_EMIT dataChanged(index(0, measuredColumn), index(rowCount() - 1, ratioColumn));
}

double OpsModel::measuredMs(OpId op) const
{
    return comparison_ ? comparison_->measuredMsOf(op) : -1;
}

double OpsModel::ratio(OpId op) const
{
    const double measured = measuredMs(op);
    return measured < 0 || trace_->ops.ms[op] <= 0 ? -1 : measured / trace_->ops.ms[op];
}

void OpsModel::setOnlyChanged(bool only)
{
    if (only == onlyChanged_)
        return;
    beginResetModel();
    onlyChanged_ = only;
    collect(module_);
    endResetModel();
}

void OpsModel::setRange(const std::vector<bool>& runs)
{
    if (runs == inRange_)
        return;
    beginResetModel();
    inRange_ = runs;
    collect(module_);
    endResetModel();
}

const ChangedOp* OpsModel::changeOf(OpId op) const
{
    const auto found = std::ranges::lower_bound(changed_, op, {}, &ChangedOp::op);
    return found != changed_.end() && found->op == op ? &*found : nullptr;
}

int OpsModel::planRank(OpId op) const
{
    if (decisions_.empty())
        return 0;
    return changeOf(op)                                  ? 0
        : decisions_[op.value] == OpDecision::recomputed ? 1
        : decisions_[op.value] == OpDecision::saved      ? 2
                                                         : 3;
}

QString OpsModel::planText(OpId op) const
{
    if (decisions_.empty())
        return QStringLiteral("–");
    const OpDecision decision = decisions_[op.value];
    if (changeOf(op))
        return decision == OpDecision::recomputed ? tr("▲ now recomputed")
            : decision == OpDecision::offloaded   ? tr("△ to the host")
            : decision == OpDecision::saved       ? tr("△ now saved")
                                                  : tr("△ now released");
    return decision == OpDecision::recomputed ? tr("recomputed")
        : decision == OpDecision::saved       ? tr("saved")
                                              : QStringLiteral("–");
}

void OpsModel::collect(ModuleId module)
{
    ops_.clear();
    module_ = module;
    if (!trace_)
        return;
    std::vector<bool> within(trace_->modules.size(), !module.valid()); // parents come before children
    for (std::uint32_t i = module.valid() ? module.value : 0; i < within.size(); ++i) {
        const ModuleId parent = trace_->modules.parent[ModuleId(i)];
        within[i] = within[i] || i == module.value || (parent.valid() && within[parent.value]);
    }
    for (std::uint32_t i = 0; i < trace_->ops.size(); ++i) {
        const ModuleId of = trace_->ops.module[OpId(i)];
        if ((of.valid() ? within[of.value] : !module.valid()) && (!onlyChanged_ || changeOf(OpId(i)))
            && (inRange_.empty() || inRange_[i]))
            ops_.push_back(OpId(i));
    }
    sortRows();
}

OpId OpsModel::opAt(const QModelIndex& index) const
{
    return index.isValid() ? ops_[static_cast<std::size_t>(index.row())] : OpId();
}

Bytes OpsModel::outputBytes(OpId op) const
{
    if (trace_->ops.flags[op] & (opView | opInPlace))
        return 0;
    Bytes bytes = 0;
    for (const StorageId storage : trace_->ops.outputs[op])
        bytes += storage.valid() && trace_->storages.creator[storage] == op ? trace_->storages.bytes[storage] : 0;
    return bytes;
}

int OpsModel::rowCount(const QModelIndex& parent) const
{
    return parent.isValid() ? 0 : static_cast<int>(ops_.size());
}

int OpsModel::columnCount(const QModelIndex& parent) const
{
    return parent.isValid() ? 0 : Column::columns;
}

QVariant OpsModel::data(const QModelIndex& index, int role) const
{
    if (!index.isValid())
        return {};
    if (role == Qt::TextAlignmentRole)
        return cellAlignment(isNumber(index.column()));
    if (role == ChangedRole)
        return changeOf(opAt(index)) != nullptr;
    if (role == ModuleNameRole)
        return index.column() == moduleColumn;
    if (role == OpNameRole)
        return index.column() == nameColumn;
    const bool isName = index.column() == nameColumn || index.column() == moduleColumn
        || index.column() == lineColumn; // may be wider than the column
    if (role == Qt::DisplayRole || (role == Qt::ToolTipRole && isName))
        return textOf(opAt(index), index.column());
    return {};
}

QString OpsModel::textOf(OpId op, int column) const
{
    switch (column) {
    case numberColumn:
        return QString::number(op.value);
    case nameColumn:
        return QString::fromUtf8(trace_->opName(op));
    case moduleColumn:
        return QString::fromUtf8(trace_->moduleFqn(trace_->ops.module[op]));
    case phaseColumn:
        return QString::fromUtf8(phaseName(trace_->ops.phase[op])).replace(QLatin1Char('_'), QLatin1Char(' '));
    case bytesColumn: {
        const Bytes bytes = outputBytes(op);
        return bytes > 0 ? inUnit(bytes, unit_, 2) : QStringLiteral("–");
    }
    case measuredColumn:
        return measuredMs(op) >= 0 ? QLocale::c().toString(measuredMs(op), 'f', 3) : QStringLiteral("–");
    case ratioColumn:
        return ratio(op) >= 0 ? ratioText(ratio(op)) : QStringLiteral("–");
    case planColumn:
        return planText(op);
    case lineColumn:
        return lines_ ? QString::fromStdString(lines_->text(op)) : QString();
    default:
        return trace_->ops.ms[op] > 0 ? QLocale::c().toString(trace_->ops.ms[op], 'f', 3) : QStringLiteral("–");
    }
}

QVariant OpsModel::headerData(int section, Qt::Orientation orientation, int role) const
{
    if (orientation != Qt::Horizontal || section >= Column::columns)
        return {};
    if (role == Qt::TextAlignmentRole)
        return cellAlignment(isNumber(section));
    if (role != Qt::DisplayRole)
        return {};
    const QString bytes = tr("Result, %1").arg(QLatin1String(unit_.name));
    return QStringList{tr("#"),        tr("Op"),           tr("Module"), tr("Phase"), bytes,
                       tr("Time, ms"), tr("Measured, ms"), tr("Ratio"),  tr("Plan"),  tr("Line")}
        .value(section);
}

void OpsModel::sort(int column, Qt::SortOrder order)
{
    Q_EMIT layoutAboutToBeChanged({}, QAbstractItemModel::VerticalSortHint);
    const QModelIndexList before = persistentIndexList();
    std::vector<OpId> stood;
    for (const QModelIndex& index : before)
        stood.push_back(opAt(index));
    sortColumn_ = column;
    sortOrder_ = order;
    sortRows();
    if (!before.isEmpty()) {
        std::unordered_map<OpId, int> rowOf;
        for (std::size_t row = 0; row < ops_.size(); ++row)
            rowOf.emplace(ops_[row], static_cast<int>(row));
        QModelIndexList after;
        for (int i = 0; i < before.size(); ++i)
            after << index(rowOf.at(stood[static_cast<std::size_t>(i)]), before[i].column());
        changePersistentIndexList(before, after);
    }
    Q_EMIT layoutChanged({}, QAbstractItemModel::VerticalSortHint);
}

void OpsModel::sortRows()
{
    if (sortColumn_ == numberColumn && std::is_sorted(ops_.begin(), ops_.end()) && sortOrder_ == Qt::AscendingOrder)
        return;
    const auto by = [this](auto key) {
        std::stable_sort(ops_.begin(), ops_.end(), [&](OpId a, OpId b) {
            return sortOrder_ == Qt::AscendingOrder ? key(a) < key(b) : key(b) < key(a);
        });
    };
    switch (sortColumn_) {
    case nameColumn:
        return by([this](OpId op) { return trace_->opName(op); });
    case moduleColumn:
        return by([this](OpId op) { return trace_->ops.module[op]; });
    case phaseColumn:
        return by([this](OpId op) { return trace_->ops.phase[op]; });
    case bytesColumn:
        return by([this](OpId op) { return outputBytes(op); });
    case msColumn:
        return by([this](OpId op) { return trace_->ops.ms[op]; });
    case measuredColumn:
        return by([this](OpId op) { return measuredMs(op); });
    case ratioColumn:
        return by([this](OpId op) { return ratio(op); });
    case planColumn:
        return by([this](OpId op) { return planRank(op); });
    case lineColumn:
        return by([this](OpId op) { return lines_ ? lines_->lineOf(op) : SourceLines::none; });
    default:
        return by([](OpId op) { return op; });
    }
}

} // namespace headroom
