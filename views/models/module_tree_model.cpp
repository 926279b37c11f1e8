// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// The columns of a ModuleTreeModel for measured times and for exposed communication.

#include "views/models/module_tree_model.h"

#include "core/timeline/storage_owners.h"
#include "views/plot/number_text.h"

#include <QLocale>

#include <algorithm>
#include <cmath>
#include <utility>

namespace headroom {
namespace {

bool same(const ModuleEffect& a, const ModuleEffect& b)
{
    return a.recorded == b.recorded && a.kept == b.kept && a.recomputeMs == b.recomputeMs;
}

/// By ModuleId: whether the module has no row: the root, or a container that never ran, of modules that did. A model
/// that did not run at all, such as an average of weights, keeps its containers, and so has one row at the top.
std::vector<bool> passedThrough(const StepTrace& trace)
{
    std::vector<bool> ran(trace.modules.size(), false);
    std::vector<bool> ranInside(trace.modules.size(), false);
    for (const ModuleId module : trace.calls.module)
        ran[module.value] = true;
    std::vector<bool> passed(trace.modules.size(), false);
    for (std::size_t i = passed.size(); i-- > 0;) { // children come after their parents
        const ModuleId parent = trace.modules.parent[ModuleId(static_cast<std::uint32_t>(i))];
        if (parent.valid() && (ran[i] || ranInside[i]))
            ranInside[parent.value] = true;
        passed[i] = i == 0 ? passed.size() > 1 : !ran[i] && ranInside[i];
    }
    return passed;
}

} // namespace

void ModuleTreeModel::setStep(StepTracePtr trace, const std::vector<ModuleEffect>& recorded)
{
    beginResetModel();
    trace_ = std::move(trace);
    recorded_ = recorded;
    rows_.clear();
    top_.clear();
    rowOfModule_.clear();
    comparison_.reset();
    if (trace_) {
        const std::vector<bool> passed = passedThrough(*trace_);
        rowOfModule_.assign(trace_->modules.size(), -1);
        std::vector<int> container(trace_->modules.size(), -1); // parent row of a module's children
        for (std::uint32_t i = 0; i < trace_->modules.size(); ++i) {
            const ModuleId parent = trace_->modules.parent[ModuleId(i)];
            const int above = parent.valid() ? container[parent.value] : -1;
            if (!passed[i])
                addRow(ModuleId(i), above);
            container[i] = passed[i] ? above : rowOfModule_[i];
        }
        for (std::size_t i = 0; i < trace_->registered.size(); ++i) {
            const int row = rowOfModule_[trace_->registered.module[i].value];
            if (row >= 0 && isUnsharded(trace_->registered.category[i]))
                rows_[static_cast<std::size_t>(row)].isUnit = true;
        }
        setScales();
    }
    endResetModel();
    Q_EMIT headerDataChanged(Qt::Horizontal, keptColumn, keptColumn);
}

void ModuleTreeModel::addRow(ModuleId module, int parent)
{
    Row row;
    row.module = module;
    row.parent = parent;
    const std::string_view fqn = trace_->moduleFqn(module);
    const std::string_view above
        = trace_->moduleFqn(parent < 0 ? ModuleId(0) : rows_[static_cast<std::size_t>(parent)].module);
    std::string_view label = fqn.size() > above.size() + 1 ? fqn.substr(above.size() + 1) : fqn;
    if (label.find_first_not_of("0123456789") == std::string_view::npos) // a number says nothing without the list
        label = fqn.substr(above.rfind('.') + 1);
    row.label = QString::fromUtf8(label);
    row.effect = recorded_[module.value];
    const int position = static_cast<int>(rows_.size());
    auto& siblings = parent < 0 ? top_ : rows_[static_cast<std::size_t>(parent)].children;
    row.position = static_cast<int>(siblings.size());
    siblings.push_back(position);
    rowOfModule_[module.value] = position;
    rows_.push_back(std::move(row));
}

void ModuleTreeModel::setScales()
{
    Bytes largest = 0;
    const auto scale = [&](const std::vector<int>& siblings) {
        Bytes most = 0;
        for (const int i : siblings)
            most = std::max(most, rows_[static_cast<std::size_t>(i)].effect.recorded);
        for (const int i : siblings)
            rows_[static_cast<std::size_t>(i)].scale = most;
        largest = std::max(largest, most);
    };
    scale(top_);
    for (const Row& row : rows_)
        scale(row.children);
    // MiB at most, since blocks are compared, and also if nothing is kept.
    unit_ = byteUnitFor(static_cast<double>(largest > 0 ? std::min(largest, GiB - 1) : MiB));
    decimals_ = largest > 0 && static_cast<double>(largest) < 100 * unit_.bytes ? 1 : 0;
}

void ModuleTreeModel::setPlan(const CheckpointPlan& plan, const std::vector<ModuleEffect>& effects,
                              const std::vector<ModuleOffload>& offloads)
{
    if (!trace_)
        return;
    std::vector<Bytes> hostBytes(trace_->modules.size(), 0);
    for (const ModuleOffload& moved : offloads)
        hostBytes[moved.module.value] += moved.copies.bytes;
    addToParents(*trace_, hostBytes);
    setTreatments(treatmentsOf(plan, effects), effects, hostBytes);
}

void ModuleTreeModel::setOpsPlan(const std::vector<ModuleEffect>& effects)
{
    if (!trace_)
        return;
    std::vector<Treatment> treatments(trace_->modules.size());
    for (std::size_t i = 1; i < treatments.size(); ++i) {
        if (effects[i].recomputeMs > 0 || effects[i].kept < effects[i].recorded)
            treatments[i].mark = PlanMark::ops;
    }
    setTreatments(treatments, effects);
}

void ModuleTreeModel::clearPlan()
{
    if (trace_)
        setTreatments(std::vector<Treatment>(trace_->modules.size()), recorded_);
}

std::vector<ModuleTreeModel::Treatment> ModuleTreeModel::treatmentsOf(const CheckpointPlan& plan,
                                                                      const std::vector<ModuleEffect>& effects) const
{
    std::vector<Treatment> treatments(trace_->modules.size());
    for (const CheckpointRegion& region : plan)
        if (!region.offload || region.offload->moves) // others are only counted
            treatments[region.module.value].mark = region.offload ? PlanMark::offloaded : PlanMark::checkpointed;
    markParents(plan, treatments);
    std::vector<PlanMark> within(treatments.size(), PlanMark::none); // parents come before children
    for (std::uint32_t i = 1; i < treatments.size(); ++i) {
        const ModuleId parent = trace_->modules.parent[ModuleId(i)];
        if (parent.valid() && within[parent.value] != PlanMark::none)
            within[i] = within[parent.value];
        else if (parent.valid() && treatments[parent.value].mark == PlanMark::checkpointed)
            within[i] = PlanMark::inside;
        else if (parent.valid() && treatments[parent.value].mark == PlanMark::offloaded)
            within[i] = PlanMark::insideOffloaded;
        if (effects[i].kept < effects[i].recorded || effects[i].recomputeMs > 0)
            treatments[i].mark = within[i] != PlanMark::none ? within[i] : treatments[i].mark;
    }
    return treatments;
}

/// Marks the modules around what the plan changes, with the names of one or two modules, or the number of modules.
void ModuleTreeModel::markParents(const CheckpointPlan& plan, std::vector<Treatment>& treatments) const
{
    std::vector<int> parts(treatments.size(), 0);
    for (const CheckpointRegion& region : plan) {
        if (treatments[region.module.value].mark == PlanMark::none)
            continue;
        const std::string_view fqn = trace_->moduleFqn(region.module);
        const QString name = QString::fromUtf8(fqn.substr(fqn.rfind('.') + 1));
        for (ModuleId m = trace_->modules.parent[region.module]; m.valid(); m = trace_->modules.parent[m]) {
            Treatment& around = treatments[m.value];
            around.mark = PlanMark::contains;
            const int count = ++parts[m.value];
            around.inside = count == 1 ? name
                : count == 2           ? around.inside + QStringLiteral(" + ") + name
                                       : tr("%1 parts").arg(count);
        }
    }
}

void ModuleTreeModel::setTreatments(const std::vector<Treatment>& treatments, const std::vector<ModuleEffect>& effects,
                                    const std::vector<Bytes>& hostBytes)
{
    std::vector<bool> changed(rows_.size(), false);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        Row& row = rows_[i];
        const ModuleEffect& effect = effects[row.module.value];
        const Treatment& treatment = treatments[row.module.value];
        const Bytes toHost = hostBytes.empty() ? 0 : hostBytes[row.module.value];
        changed[i] = treatment != row.treatment || !same(effect, row.effect) || toHost != row.hostBytes;
        row.hostBytes = toHost;
        row.treatment = treatment;
        row.effect = effect;
    }
    reportChanges(changed);
    Q_EMIT planChanged();
}

/// For a checkpointed or offloaded module the share of its memory that the plan frees, "62 %"; for a module around, the
/// parts that the plan changes.
QString ModuleTreeModel::pillOf(const Row& row) const
{
    const PlanMark mark = row.treatment.mark;
    if (mark != PlanMark::checkpointed && mark != PlanMark::ops && mark != PlanMark::offloaded)
        return row.treatment.inside;
    const double share = discardedShare(row.effect);
    const bool part = share > 0 && share < 1;
    return tr("%1 %").arg(part ? std::clamp(std::lround(100 * share), 1L, 99L) : std::lround(100 * share));
}

void ModuleTreeModel::setPins(const std::map<std::string, Pin>& pins)
{
    std::vector<bool> changed(rows_.size(), false);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        Row& row = rows_[i];
        const auto found = pins.find(std::string(trace_->moduleFqn(row.module)));
        const bool pinned = found != pins.end();
        const Pin pin = pinned ? found->second : Pin::save;
        changed[i] = pinned != row.pinned || pin != row.pin;
        row.pinned = pinned;
        row.pin = pin;
    }
    reportChanges(changed);
}

/// Emits dataChanged once for each run of changed siblings. The roles do not include names: a proxy that filters by
/// name would check all parents and children again.
void ModuleTreeModel::reportChanges(const std::vector<bool>& changed)
{
    static const QList<int> roles{Qt::DisplayRole, Qt::ToolTipRole, Qt::AccessibleTextRole, SortRole, MarkRole,
                                  PillRole,        PinRole,         RecordedRole,           KeptRole, RecomputeRole,
                                  HostRole};
    const auto report = [&](const std::vector<int>& siblings) {
        for (std::size_t begin = 0; begin < siblings.size(); ++begin) {
            if (!changed[static_cast<std::size_t>(siblings[begin])])
                continue;
            std::size_t end = begin;
            while (end + 1 < siblings.size() && changed[static_cast<std::size_t>(siblings[end + 1])])
                ++end;
            Q_EMIT dataChanged(
                createIndex(static_cast<int>(begin), 0, static_cast<quintptr>(siblings[begin])),
                createIndex(static_cast<int>(end), columnCount() - 1, static_cast<quintptr>(siblings[end])), roles);
            begin = end;
        }
    };
    report(top_);
    for (const Row& row : rows_)
        report(row.children);
}

int ModuleTreeModel::depth() const
{
    std::vector<int> depths(rows_.size(), 1); // parents come before children
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        if (rows_[i].parent >= 0)
            depths[i] = depths[static_cast<std::size_t>(rows_[i].parent)] + 1;
    }
    return depths.empty() ? 0 : *std::ranges::max_element(depths);
}

int ModuleTreeModel::count(PlanMark mark) const
{
    return static_cast<int>(std::ranges::count_if(rows_, [mark](const Row& row) { return has(row, mark); }));
}

bool ModuleTreeModel::has(const Row& row, PlanMark mark)
{
    const PlanMark own = row.treatment.mark;
    return own == mark || (mark == PlanMark::offloaded && own == PlanMark::checkpointed && row.hostBytes > 0);
}

bool ModuleTreeModel::has(const QModelIndex& index, PlanMark mark) const
{
    const Row* const row = rowAt(index);
    return row && has(*row, mark);
}

QModelIndex ModuleTreeModel::indexOf(ModuleId module, int column) const
{
    if (!module.valid() || module.value >= rowOfModule_.size() || rowOfModule_[module.value] < 0)
        return {};
    const int at = rowOfModule_[module.value];
    return createIndex(rows_[static_cast<std::size_t>(at)].position, column, static_cast<quintptr>(at));
}

ModuleId ModuleTreeModel::moduleAt(const QModelIndex& index) const
{
    const Row* row = rowAt(index);
    return row ? row->module : ModuleId();
}

const ModuleTreeModel::Row* ModuleTreeModel::rowAt(const QModelIndex& index) const
{
    return index.isValid() ? &rows_[index.internalId()] : nullptr;
}

const std::vector<int>& ModuleTreeModel::childrenOf(const QModelIndex& parent) const
{
    const Row* row = rowAt(parent);
    return row ? row->children : top_;
}

QModelIndex ModuleTreeModel::index(int row, int column, const QModelIndex& parent) const
{
    if (!hasIndex(row, column, parent))
        return {};
    return createIndex(row, column, static_cast<quintptr>(childrenOf(parent)[static_cast<std::size_t>(row)]));
}

QModelIndex ModuleTreeModel::parent(const QModelIndex& index) const
{
    const Row* row = rowAt(index);
    if (!row || row->parent < 0)
        return {};
    return createIndex(rows_[static_cast<std::size_t>(row->parent)].position, 0, static_cast<quintptr>(row->parent));
}

int ModuleTreeModel::rowCount(const QModelIndex& parent) const
{
    return parent.column() > 0 ? 0 : static_cast<int>(childrenOf(parent).size());
}

int ModuleTreeModel::columnCount(const QModelIndex&) const
{
    return Column::columns;
}

QVariant ModuleTreeModel::data(const QModelIndex& index, int role) const
{
    const Row* row = rowAt(index);
    if (!row)
        return {};
    switch (role) {
    case Qt::DisplayRole:
        return textOf(*row, index.column());
    case Qt::TextAlignmentRole:
        return cellAlignment(index.column() != moduleColumn);
    case Qt::ToolTipRole:
        return toolTipOf(*row);
    case Qt::AccessibleTextRole:
        return descriptionOf(*row, index.column());
    case FqnRole:
        return QString::fromUtf8(trace_->moduleFqn(row->module));
    case ModuleRole:
        return row->module.value;
    case SortRole:
        return index.column() == moduleColumn   ? QVariant(row->module.value)
            : index.column() == keptColumn      ? QVariant(static_cast<qlonglong>(row->effect.kept))
            : index.column() == recomputeColumn ? QVariant(row->effect.recomputeMs)
            : index.column() == exposedColumn   ? QVariant(row->exposedMs)
            : index.column() == hostColumn      ? QVariant(static_cast<qlonglong>(row->hostBytes))
                                                : QVariant(measuredNumber(*row, index.column()));
    case MarkRole:
        return QVariant::fromValue(row->treatment.mark);
    case PillRole:
        return pillOf(*row);
    case PinRole:
        return !row->pinned              ? QString()
            : row->pin == Pin::save      ? tr("keep")
            : row->pin == Pin::recompute ? tr("recompute")
                                         : tr("offload");
    case RecordedRole:
        return static_cast<qlonglong>(row->effect.recorded);
    case KeptRole:
        return static_cast<qlonglong>(row->effect.kept);
    case RecomputeRole:
        return row->effect.recomputeMs;
    case HostRole:
        return static_cast<qlonglong>(row->hostBytes);
    case ScaleRole:
        return static_cast<qlonglong>(row->scale);
    default:
        return {};
    }
}

QVariant ModuleTreeModel::headerData(int section, Qt::Orientation orientation, int role) const
{
    if (orientation != Qt::Horizontal || section >= Column::columns)
        return {};
    if (role == Qt::TextAlignmentRole)
        return cellAlignment(section != moduleColumn);
    if (role != Qt::DisplayRole && role != Qt::ToolTipRole)
        return {};
    const auto words = [&](const QString& title, const QString& tip) { return role == Qt::DisplayRole ? title : tip; };
    switch (section) {
    case moduleColumn:
        return words(tr("Module"), tr("Module, and activation memory that the plan discards"));
    case keptColumn:
        return words(tr("Kept, %1").arg(QLatin1String(unit_.name)),
                     tr("Activation memory kept from forward to backward: pale as recorded, solid under the plan"));
    case recomputeColumn:
        return words(tr("Recomp., ms"), tr("Time to run the module's ops a second time in backward"));
    case measuredColumn:
        return words(tr("Measured, ms"), tr("Time of the module's ops, with submodules, in the measured step"));
    case exposedColumn:
        return words(tr("Exp., ms"), tr("Time that the GPU waits for collectives of the module, with submodules"));
    case hostColumn:
        return words(tr("Host, %1").arg(QLatin1String(unit_.name)),
                     tr("Saved tensors that go to pinned host memory after forward, and come back for backward"));
    default:
        return words(tr("Ratio"), tr("Measured time divided by the predicted time"));
    }
}

QString ModuleTreeModel::textOf(const Row& row, int column) const
{
    switch (column) {
    case moduleColumn:
        return row.label;
    case keptColumn:
        return inUnit(row.effect.kept, unit_, decimals_);
    case measuredColumn:
    case ratioColumn:
        return measuredText(row, column);
    case exposedColumn:
        return row.exposedMs > 0 ? QLocale::c().toString(row.exposedMs, 'f', 2) : QStringLiteral("–");
    case hostColumn:
        return row.hostBytes > 0 ? inUnit(row.hostBytes, unit_, decimals_) : QStringLiteral("–");
    default:
        return row.effect.recomputeMs > 0 ? QLocale::c().toString(row.effect.recomputeMs, 'f', 2) : QStringLiteral("–");
    }
}

QString ModuleTreeModel::toolTipOf(const Row& row) const
{
    const QString head = tr("%1 (%2)").arg(QString::fromUtf8(trace_->moduleFqn(row.module)),
                                           QString::fromUtf8(trace_->moduleType(row.module)));
    const StepComparison::ModuleTimes* times = timesOf(row);
    const QString measured = times
        ? tr("\nMeasured %1, predicted %2").arg(msText(times->measuredMs), msText(times->predictedMs))
        : QString();
    const QString memory = row.treatment.mark == PlanMark::none
        ? tr("Keeps %1 until backward").arg(bytesText(row.effect.recorded))
        : row.hostBytes > 0 && row.effect.recomputeMs == 0
        ? tr("Keeps %1 of %2 on the device until backward")
              .arg(bytesText(row.effect.kept), bytesText(row.effect.recorded))
        : tr("Keeps %1 of %2 until backward, recomputes for %3")
              .arg(bytesText(row.effect.kept), bytesText(row.effect.recorded), msText(row.effect.recomputeMs));
    const QString unit = row.isUnit ? tr("\nA unit of FSDP") : QString();
    const QString host
        = row.hostBytes > 0 ? tr("\nSends %1 to the host and back").arg(bytesText(row.hostBytes)) : QString();
    const QString all = head + unit + QLatin1Char('\n') + memory + host + measured;
    return !row.pinned ? all
                       : all + QLatin1Char('\n')
            + (row.pin == Pin::save            ? tr("Pinned by hand: keep everything")
                   : row.pin == Pin::recompute ? tr("Pinned by hand: recompute")
                                               : tr("Pinned by hand: offload"));
}

QString ModuleTreeModel::descriptionOf(const Row& row, int column) const
{
    switch (column) {
    case moduleColumn:
        return row.treatment.mark == PlanMark::checkpointed
            ? tr("%1, checkpointed, %2 discarded").arg(row.label, pillOf(row))
            : row.treatment.mark == PlanMark::ops
            ? tr("%1, single ops run again, %2 discarded").arg(row.label, pillOf(row))
            : row.treatment.mark == PlanMark::inside ? tr("%1, inside a checkpointed module").arg(row.label)
            : row.treatment.mark == PlanMark::offloaded
            ? tr("%1, offloaded, %2 moved to the host").arg(row.label, pillOf(row))
            : row.treatment.mark == PlanMark::insideOffloaded ? tr("%1, inside an offloaded module").arg(row.label)
            : row.treatment.mark == PlanMark::contains
            ? (count(PlanMark::offloaded) > 0 ? tr("%1, checkpointed or offloaded inside: %2")
                                              : tr("%1, checkpointed inside: %2"))
                  .arg(row.label, pillOf(row))
            : row.label;
    case keptColumn:
        return tr("%1 kept of %2").arg(bytesText(row.effect.kept), bytesText(row.effect.recorded));
    case measuredColumn:
    case ratioColumn:
        return !timesOf(row)           ? tr("not measured")
            : column == measuredColumn ? tr("measured %1").arg(msText(timesOf(row)->measuredMs))
                                       : tr("%1 times the prediction").arg(measuredText(row, column));
    case exposedColumn:
        return row.exposedMs > 0 ? tr("%1 of communication exposed").arg(msText(row.exposedMs))
                                 : tr("no communication exposed");
    case hostColumn:
        return row.hostBytes > 0 ? tr("%1 to the host").arg(bytesText(row.hostBytes)) : tr("nothing to the host");
    default:
        return row.effect.recomputeMs > 0 ? msText(row.effect.recomputeMs) : tr("nothing recomputed");
    }
}

void ModuleTreeModel::setExposed(const std::vector<double>& ms)
{
    std::vector<bool> changed(rows_.size(), false);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        const double exposed = ms.empty() ? 0 : ms[rows_[i].module.value];
        changed[i] = std::exchange(rows_[i].exposedMs, exposed) != exposed;
    }
    reportChanges(changed);
}

void ModuleTreeModel::setComparison(const StepComparisonPtr& comparison)
{
    if (comparison == comparison_)
        return;
    comparison_ = comparison;
    reportChanges(std::vector<bool>(rows_.size(), true));
    Q_EMIT headerDataChanged(Qt::Horizontal, measuredColumn, ratioColumn);
}

const StepComparison::ModuleTimes* ModuleTreeModel::timesOf(const Row& row) const
{
    if (!comparison_ || !comparison_->hasTimes || !comparison_->modules[row.module.value].measured)
        return nullptr;
    return &comparison_->modules[row.module.value];
}

QString ModuleTreeModel::measuredText(const Row& row, int column) const
{
    const StepComparison::ModuleTimes* times = timesOf(row);
    if (!times || (column == ratioColumn && times->predictedMs <= 0))
        return QStringLiteral("–");
    return column == measuredColumn ? QLocale::c().toString(times->measuredMs, 'f', 2)
                                    : ratioText(measuredNumber(row, column));
}

double ModuleTreeModel::measuredNumber(const Row& row, int column) const
{
    const StepComparison::ModuleTimes* times = timesOf(row);
    if (!times)
        return -1;
    if (column == measuredColumn)
        return times->measuredMs;
    return times->predictedMs > 0 ? times->measuredMs / times->predictedMs : -1;
}

} // namespace headroom
