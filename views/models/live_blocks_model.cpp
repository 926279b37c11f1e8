// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/models/live_blocks_model.h"

#include "views/plot/number_text.h"
#include "views/theme/theme.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace headroom {
namespace {

constexpr std::uint32_t none = 0xffffffff;

/// Sorts by a key, equal keys in their order before; descending turns the comparison, not the result.
template <class Rows, class Key>
void sortBy(Rows& rows, Qt::SortOrder order, Key key)
{
    std::stable_sort(rows.begin(), rows.end(), [&](const auto& a, const auto& b) {
        return order == Qt::AscendingOrder ? key(a) < key(b) : key(b) < key(a);
    });
}

} // namespace

LiveBlocksModel::LiveBlocksModel(QObject* parent)
    : QAbstractItemModel(parent)
{
}

void LiveBlocksModel::setBlocks(StepTracePtr trace, const std::vector<LiveBlock>& blocks)
{
    beginResetModel();
    if (trace != trace_) {
        trace_ = std::move(trace);
        registered_.assign(trace_ ? trace_->storages.size() : 0, none);
        for (std::uint32_t i = 0; trace_ && i < trace_->registered.size(); ++i) {
            const StorageId storage = trace_->registered.storage[i];
            if (storage.valid() && registered_[storage.value] == none) // a tied weight: its first owner
                registered_[storage.value] = i;
        }
    }
    blocks_.clear();
    blocks_.reserve(blocks.size());
    for (const LiveBlock& block : blocks)
        blocks_.push_back({block});
    makeGroups();
    sortRows();
    endResetModel();
    Q_EMIT headerDataChanged(Qt::Horizontal, sizeColumn, sizeColumn);
}

void LiveBlocksModel::clear()
{
    setBlocks(nullptr, {});
}

ModuleId LiveBlocksModel::moduleOf(const LiveBlock& block) const
{
    const std::uint32_t row = registered_[block.storage.value];
    if (row != none)
        return trace_->registered.module[row];
    return block.creator.valid() ? trace_->ops.module[block.creator] : ModuleId();
}

QString LiveBlocksModel::blockName(const LiveBlock& block) const
{
    const std::uint32_t row = registered_[block.storage.value];
    if (row != none)
        return QString::fromUtf8(trace_->strings[trace_->registered.name[row]]);
    if (!block.creator.valid())
        return tr("from before the step");
    const QString op = QString::fromUtf8(trace_->opName(block.creator));
    return block.recomputed ? tr("%1, recomputed").arg(op) : op;
}

void LiveBlocksModel::makeGroups()
{
    groups_.clear();
    total_ = 0;
    // What belongs to no module is told apart by its category: optimizer state, inputs.
    std::map<std::pair<std::uint32_t, Category>, std::size_t> groupOf;
    for (std::uint32_t i = 0; i < blocks_.size(); ++i) {
        const LiveBlock& block = blocks_[i].live;
        total_ += block.bytes;
        const ModuleId module = moduleOf(block);
        const auto key = std::pair(module.value, module.valid() ? Category::other : block.category);
        const auto [found, added] = groupOf.try_emplace(key, groups_.size());
        if (added) {
            Group group;
            group.module = module;
            group.name = module.valid() ? QString::fromUtf8(trace_->moduleFqn(module)) : categoryTitle(block.category);
            groups_.push_back(std::move(group));
        }
        groups_[found->second].bytes += block.bytes;
        groups_[found->second].blocks.push_back(i);
        blocks_[i].group = static_cast<std::uint32_t>(found->second);
    }
    Bytes largest = 0;
    for (Group& group : groups_) {
        CategoryBytes bytes{};
        for (const std::uint32_t i : group.blocks)
            bytes[static_cast<std::size_t>(blocks_[i].live.category)] += blocks_[i].live.bytes;
        group.category = static_cast<Category>(std::max_element(bytes.begin(), bytes.end()) - bytes.begin());
        largest = std::max(largest, group.bytes);
    }
    unit_ = byteUnitFor(static_cast<double>(std::min(largest, GiB - 1)));
    order_.resize(groups_.size());
    std::iota(order_.begin(), order_.end(), 0U);
}

void LiveBlocksModel::sort(int column, Qt::SortOrder order)
{
    Q_EMIT layoutAboutToBeChanged({}, QAbstractItemModel::VerticalSortHint);
    const QModelIndexList before = persistentIndexList();
    sortColumn_ = column;
    sortOrder_ = order;
    sortRows();
    QModelIndexList after;
    for (const QModelIndex& index : before)
        after << createIndex(rowOf(index.internalId()), index.column(), index.internalId());
    changePersistentIndexList(before, after);
    Q_EMIT layoutChanged({}, QAbstractItemModel::VerticalSortHint);
}

void LiveBlocksModel::sortRows()
{
    const auto titleOf = [](Category category) { return categoryTitle(category); };
    if (sortColumn_ == sizeColumn)
        sortBy(order_, sortOrder_, [&](std::uint32_t i) { return groups_[i].bytes; });
    else if (sortColumn_ == categoryColumn)
        sortBy(order_, sortOrder_, [&](std::uint32_t i) { return titleOf(groups_[i].category); });
    else
        sortBy(order_, sortOrder_, [&](std::uint32_t i) { return groups_[i].module.value; });
    for (std::size_t row = 0; row < order_.size(); ++row) {
        Group& group = groups_[order_[row]];
        group.row = static_cast<int>(row);
        if (sortColumn_ == sizeColumn)
            sortBy(group.blocks, sortOrder_, [&](std::uint32_t i) { return blocks_[i].live.bytes; });
        else if (sortColumn_ == categoryColumn)
            sortBy(group.blocks, sortOrder_, [&](std::uint32_t i) { return titleOf(blocks_[i].live.category); });
        else
            sortBy(group.blocks, sortOrder_, [&](std::uint32_t i) { return blocks_[i].live.storage.value; });
        for (std::size_t at = 0; at < group.blocks.size(); ++at)
            blocks_[group.blocks[at]].row = static_cast<int>(at);
    }
}

ModuleId LiveBlocksModel::moduleAt(const QModelIndex& index) const
{
    if (!index.isValid())
        return {};
    return groups_[isGroup(index) ? index.internalId() : blockAt(index).group].module;
}

QModelIndex LiveBlocksModel::index(int row, int column, const QModelIndex& parent) const
{
    if (!hasIndex(row, column, parent))
        return {};
    const auto at = static_cast<std::size_t>(row);
    if (!parent.isValid())
        return createIndex(row, column, static_cast<quintptr>(order_[at]));
    return createIndex(row, column, groups_.size() + groups_[parent.internalId()].blocks[at]);
}

QModelIndex LiveBlocksModel::parent(const QModelIndex& index) const
{
    if (!index.isValid() || isGroup(index))
        return {};
    const std::uint32_t group = blockAt(index).group;
    return createIndex(groups_[group].row, 0, static_cast<quintptr>(group));
}

int LiveBlocksModel::rowCount(const QModelIndex& parent) const
{
    if (!parent.isValid())
        return static_cast<int>(groups_.size());
    if (parent.column() > 0 || !isGroup(parent))
        return 0;
    return static_cast<int>(groups_[parent.internalId()].blocks.size());
}

int LiveBlocksModel::columnCount(const QModelIndex&) const
{
    return Column::columns;
}

QVariant LiveBlocksModel::data(const QModelIndex& index, int role) const
{
    if (!index.isValid())
        return {};
    if (role == Qt::TextAlignmentRole)
        return QVariant::fromValue(Qt::Alignment(index.column() == sizeColumn ? Qt::AlignRight : Qt::AlignLeft)
                                   | Qt::AlignVCenter);
    if (role == CategoryRole && index.column() == categoryColumn)
        return static_cast<int>(isGroup(index) ? groups_[index.internalId()].category : blockAt(index).live.category);
    return isGroup(index) ? groupData(groups_[index.internalId()], index.column(), role)
                          : blockData(blockAt(index).live, index.column(), role);
}

QVariant LiveBlocksModel::groupData(const Group& group, int column, int role) const
{
    if (role == Qt::ToolTipRole)
        return tr("%1: %n block(s), %2", nullptr, static_cast<int>(group.blocks.size()))
            .arg(group.name, bytesText(group.bytes, 2));
    if (role != Qt::DisplayRole)
        return {};
    return column == nameColumn    ? group.name
        : column == categoryColumn ? categoryTitle(group.category)
                                   : inUnit(group.bytes, unit_, 2);
}

QVariant LiveBlocksModel::blockData(const LiveBlock& block, int column, int role) const
{
    if (role == Qt::ToolTipRole)
        return tr("%1: %2 bytes").arg(blockName(block), QString::fromStdString(groupedDigits(block.bytes)));
    if (role != Qt::DisplayRole)
        return {};
    return column == nameColumn    ? blockName(block)
        : column == categoryColumn ? categoryTitle(block.category)
                                   : inUnit(block.bytes, unit_, 2);
}

QVariant LiveBlocksModel::headerData(int section, Qt::Orientation orientation, int role) const
{
    if (orientation != Qt::Horizontal)
        return {};
    if (role == Qt::TextAlignmentRole)
        return QVariant::fromValue(Qt::Alignment(section == sizeColumn ? Qt::AlignRight : Qt::AlignLeft)
                                   | Qt::AlignVCenter);
    if (role != Qt::DisplayRole)
        return {};
    return section == nameColumn    ? tr("Module, and the op that made the block")
        : section == categoryColumn ? tr("Category")
                                    : tr("Size, %1").arg(QLatin1String(unit_.name));
}

} // namespace headroom
