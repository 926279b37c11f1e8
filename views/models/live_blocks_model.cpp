// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/models/live_blocks_model.h"

#include "views/plot/number_text.h"
#include "views/theme/theme.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace headroom {
namespace {

/// Sorts by a key; rows with equal keys stay in order in both directions.
template <class Key>
void sortBy(std::vector<std::uint32_t>& rows, Qt::SortOrder direction, Key key)
{
    std::stable_sort(rows.begin(), rows.end(), [&](const auto& a, const auto& b) {
        return direction == Qt::AscendingOrder ? key(a) < key(b) : key(b) < key(a);
    });
}

LiveBlocksTable::Key keyOf(int column)
{
    return column == LiveBlocksModel::sizeColumn    ? LiveBlocksTable::Key::size
        : column == LiveBlocksModel::lineColumn     ? LiveBlocksTable::Key::line
        : column == LiveBlocksModel::categoryColumn ? LiveBlocksTable::Key::category
                                                    : LiveBlocksTable::Key::name;
}

} // namespace

void LiveBlocksTable::sort(Key key, Qt::SortOrder direction)
{
    const auto lineOf
        = [&](std::uint32_t block) { return lines ? lines->lineOf(blocks[block].live.storage) : SourceLines::none; };
    const auto sortRows = [&](std::vector<std::uint32_t>& rows, auto bytes, auto category, auto id, auto line) {
        switch (key) {
        case Key::size:
            return sortBy(rows, direction, bytes);
        case Key::category:
            return sortBy(rows, direction, [&](std::uint32_t i) { return categoryTitle(category(i)); });
        case Key::line:
            return sortBy(rows, direction, line);
        case Key::name:
            return sortBy(rows, direction, id);
        }
    };
    sortRows(
        order, [&](std::uint32_t i) { return groups[i].bytes; }, [&](std::uint32_t i) { return groups[i].category; },
        [&](std::uint32_t i) { return groups[i].module.value; },
        [&](std::uint32_t i) { return lineOf(groups[i].blocks.front()); });
    for (std::size_t row = 0; row < order.size(); ++row) {
        Group& group = groups[order[row]];
        group.row = static_cast<int>(row);
        sortRows(
            group.blocks, [&](std::uint32_t i) { return blocks[i].live.bytes; },
            [&](std::uint32_t i) { return blocks[i].live.category; },
            [&](std::uint32_t i) { return blocks[i].live.storage.value; }, lineOf);
        for (std::size_t at = 0; at < group.blocks.size(); ++at)
            blocks[group.blocks[at]].row = static_cast<int>(at);
    }
}

LiveBlocksTable makeLiveBlocksTable(StepTracePtr trace, const std::vector<LiveBlock>& blocks, LiveBlocksTable::Of of)
{
    LiveBlocksTable table;
    const StorageOwners owners(*trace);
    const bool ofUnits = of == LiveBlocksTable::Of::units;
    table.hasUnits = owners.anyUnit();
    std::set<QString> names;
    std::map<std::pair<std::uint32_t, Category>, std::size_t> groupOf;
    table.blocks.reserve(blocks.size());
    for (const LiveBlock& live : blocks) {
        if (isUnsharded(live.category))
            table.unsharded += live.bytes;
        else if (ofUnits)
            continue;
        LiveBlocksTable::Block block{live, owners.registeredRow(live.storage), 0, 0};
        const ModuleId module = ofUnits ? owners.unit(live.storage) : owners.module(live.storage);
        const auto [found, added] = groupOf.try_emplace({module.value, live.category}, table.groups.size());
        if (added) {
            LiveBlocksTable::Group group;
            group.module = module;
            group.category = live.category;
            group.name = module.valid() ? QString::fromUtf8(trace->moduleFqn(module)) : categoryTitle(live.category);
            names.insert(group.name);
            table.groups.push_back(std::move(group));
        }
        LiveBlocksTable::Group& group = table.groups[found->second];
        block.group = static_cast<std::uint32_t>(found->second);
        group.bytes += live.bytes;
        group.blocks.push_back(static_cast<std::uint32_t>(table.blocks.size()));
        table.total += live.bytes;
        table.blocks.push_back(block);
    }
    table.names = names.size();
    table.order.resize(table.groups.size());
    std::iota(table.order.begin(), table.order.end(), 0U);
    if (hasSourceLines(*trace))
        table.lines = std::make_shared<const SourceLines>(*trace);
    for (LiveBlocksTable::Group& group : table.groups) {
        std::set<std::uint32_t> lines;
        for (const std::uint32_t block : group.blocks)
            if (table.lines)
                lines.insert(table.lines->lineOf(table.blocks[block].live.storage));
        group.lines = lines.size();
    }
    table.trace = std::move(trace);
    table.sort(LiveBlocksTable::Key::size, Qt::DescendingOrder);
    return table;
}

void LiveBlocksModel::setTable(LiveBlocksTable table)
{
    beginResetModel();
    table_ = std::move(table);
    if (key_ != LiveBlocksTable::Key::size || direction_ != Qt::DescendingOrder)
        table_.sort(key_, direction_);
    Bytes largest = 0;
    for (const Group& group : table_.groups)
        largest = std::max(largest, group.bytes);
    unit_ = byteUnitFor(static_cast<double>(std::min(largest, GiB - 1)));
    endResetModel();
    Q_EMIT headerDataChanged(Qt::Horizontal, sizeColumn, sizeColumn);
}

void LiveBlocksModel::clear()
{
    setTable({});
}

QString LiveBlocksModel::blockName(const Block& block) const
{
    const StepTrace& trace = *table_.trace;
    if (block.registered != StorageOwners::none)
        return QString::fromUtf8(trace.strings[trace.registered.name[block.registered]]);
    if (!block.live.creator.valid())
        return tr("from before the step");
    const QString op = QString::fromUtf8(trace.opName(block.live.creator));
    return block.live.recomputed ? tr("%1, recomputed").arg(op) : op;
}

QString LiveBlocksModel::lineOf(const Block& block) const
{
    return table_.lines ? QString::fromStdString(table_.lines->text(block.live.storage)) : QString();
}

/// The line of all blocks of a group, or the number of lines.
QString LiveBlocksModel::lineOf(const Group& group) const
{
    if (!table_.lines)
        return {};
    return group.lines == 1 ? lineOf(table_.blocks[group.blocks.front()]) : tr("%1 lines").arg(countText(group.lines));
}

void LiveBlocksModel::sort(int column, Qt::SortOrder order)
{
    Q_EMIT layoutAboutToBeChanged({}, QAbstractItemModel::VerticalSortHint);
    const QModelIndexList before = persistentIndexList();
    key_ = keyOf(column);
    direction_ = order;
    table_.sort(key_, direction_);
    QModelIndexList after;
    for (const QModelIndex& index : before)
        after << createIndex(rowOf(index), index.column(), index.internalId());
    changePersistentIndexList(before, after);
    Q_EMIT layoutChanged({}, QAbstractItemModel::VerticalSortHint);
}

ModuleId LiveBlocksModel::moduleAt(const QModelIndex& index) const
{
    if (!index.isValid())
        return {};
    return isGroup(index) ? groupAt(index).module : table_.groups[blockAt(index).group].module;
}

QModelIndex LiveBlocksModel::index(int row, int column, const QModelIndex& parent) const
{
    if (!hasIndex(row, column, parent))
        return {};
    const auto at = static_cast<std::size_t>(row);
    if (!parent.isValid())
        return createIndex(row, column, static_cast<quintptr>(table_.order[at]));
    return createIndex(row, column, table_.groups.size() + groupAt(parent).blocks[at]);
}

QModelIndex LiveBlocksModel::parent(const QModelIndex& index) const
{
    if (!index.isValid() || isGroup(index))
        return {};
    const std::uint32_t group = blockAt(index).group;
    return createIndex(table_.groups[group].row, 0, static_cast<quintptr>(group));
}

int LiveBlocksModel::rowCount(const QModelIndex& parent) const
{
    if (!parent.isValid())
        return static_cast<int>(table_.groups.size());
    if (parent.column() > 0 || !isGroup(parent))
        return 0;
    return static_cast<int>(groupAt(parent).blocks.size());
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
        return cellAlignment(index.column() == sizeColumn);
    if (role == CategoryRole && index.column() == categoryColumn)
        return static_cast<int>(isGroup(index) ? groupAt(index).category : blockAt(index).live.category);
    if (role == ModuleNameRole)
        return index.column() == nameColumn && isGroup(index) && groupAt(index).module.valid();
    return isGroup(index) ? groupData(groupAt(index), index.column(), role)
                          : blockData(blockAt(index), index.column(), role);
}

StorageId LiveBlocksModel::storageAt(const QModelIndex& index) const
{
    if (!index.isValid())
        return {};
    if (!isGroup(index))
        return blockAt(index).live.storage;
    const Group& group = groupAt(index);
    return group.lines == 1 ? table_.blocks[group.blocks.front()].live.storage : StorageId();
}

QVariant LiveBlocksModel::groupData(const Group& group, int column, int role) const
{
    if (role == Qt::ToolTipRole)
        return tr("%1, %2: %n block(s), %3", nullptr, static_cast<int>(group.blocks.size()))
            .arg(group.name, categoryTitle(group.category), bytesText(group.bytes, 2));
    if (role != Qt::DisplayRole)
        return {};
    return column == nameColumn    ? group.name
        : column == categoryColumn ? categoryTitle(group.category)
        : column == lineColumn     ? lineOf(group)
                                   : inUnit(group.bytes, unit_, 2);
}

QVariant LiveBlocksModel::blockData(const Block& block, int column, int role) const
{
    if (role == Qt::ToolTipRole)
        return tr("%1: %2 bytes")
            .arg(blockName(block), countText(block.live.bytes))
            .append(lineOf(block).isEmpty() ? QString() : QLatin1Char('\n') + lineOf(block));
    if (role != Qt::DisplayRole)
        return {};
    return column == nameColumn    ? blockName(block)
        : column == categoryColumn ? categoryTitle(block.live.category)
        : column == lineColumn     ? lineOf(block)
                                   : inUnit(block.live.bytes, unit_, 2);
}

QVariant LiveBlocksModel::headerData(int section, Qt::Orientation orientation, int role) const
{
    if (orientation != Qt::Horizontal)
        return {};
    if (role == Qt::TextAlignmentRole)
        return cellAlignment(section == sizeColumn);
    if (role != Qt::DisplayRole)
        return {};
    return section == nameColumn    ? tr("Module, and the op that made the block")
        : section == categoryColumn ? tr("Category")
        : section == lineColumn     ? tr("Line")
                                    : tr("Size, %1").arg(QLatin1String(unit_.name));
}

} // namespace headroom
