// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/storage_owners.h"
#include "core/trace/source_lines.h"
#include "views/plot/axis_map.h"

#include <QAbstractItemModel>

#include <memory>
#include <vector>

namespace headroom {

/// The blocks that are alive at an instant, grouped by module and category, largest first, so that the groups of a
/// category add up to the category's bytes. A plain value: made on a worker thread, then passed to the model.
struct LiveBlocksTable
{
    /// The listed blocks: all blocks by module, or the blocks that FSDP has unsharded by unit.
    enum class Of { modules, units };

    struct Group
    {
        ModuleId module; ///< invalid: blocks of no module
        QString name;
        Bytes bytes = 0;
        Category category = Category::other;
        int row = 0;
        std::vector<std::uint32_t> blocks; ///< indices in LiveBlocksTable::blocks, in the order of rows
        std::size_t lines = 0; ///< number of different lines of source code of the blocks; 0: the step has none
    };
    struct Block
    {
        LiveBlock live;
        std::uint32_t registered = 0; ///< row of StepTrace::registered; `none`: not a parameter or buffer
        std::uint32_t group = 0;
        int row = 0;
    };
    StepTracePtr trace;
    std::vector<Group> groups;
    std::vector<std::uint32_t> order; ///< indices in `groups`, in the order of rows
    std::vector<Block> blocks;
    Bytes total = 0;
    Bytes unsharded = 0; ///< unsharded bytes among all live blocks
    bool hasUnits = false; ///< FSDP has units in this step
    /// Lines of source code of the blocks; null: the step has none.
    std::shared_ptr<const SourceLines> lines;
    std::size_t names = 0; ///< number of different modules or units, and of categories outside of modules

    enum class Key { name, category, size, line };
    void sort(Key key, Qt::SortOrder direction);
};
LiveBlocksTable makeLiveBlocksTable(StepTracePtr trace, const std::vector<LiveBlock>& blocks,
                                    LiveBlocksTable::Of of = LiveBlocksTable::Of::modules);

/// Shows a LiveBlocksTable: a row for each group with the sum of bytes, and child rows for the blocks, with the
/// op that allocated the block (or the parameter's name), the size, and the line of source code. Any column can be
/// sorted.
class LiveBlocksModel : public QAbstractItemModel
{
    Q_OBJECT
public:
    enum Column { nameColumn, categoryColumn, sizeColumn, lineColumn, columns };
    enum Role {
        CategoryRole = Qt::UserRole, ///< int, value of Category; in the category column only
        ModuleNameRole = Qt::UserRole + 33, ///< bool: the text is the name of a module, as in OpsModel
    };

    using QAbstractItemModel::QAbstractItemModel;

    void setTable(LiveBlocksTable table);
    void clear();

    Bytes totalBytes() const noexcept { return table_.total; }
    std::size_t blockCount() const noexcept { return table_.blocks.size(); }
    std::size_t groupCount() const noexcept { return table_.groups.size(); }
    ModuleId moduleAt(const QModelIndex& index) const;
    /// Returns the block of a row, of a group the first if one line made all blocks; invalid: several lines.
    StorageId storageAt(const QModelIndex& index) const;

    QModelIndex index(int row, int column, const QModelIndex& parent = {}) const override;
    QModelIndex parent(const QModelIndex& index) const override;
    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
    void sort(int column, Qt::SortOrder order) override;

private:
    using Group = LiveBlocksTable::Group;
    using Block = LiveBlocksTable::Block;

    QString blockName(const Block& block) const;
    QString lineOf(const Block& block) const;
    QString lineOf(const Group& group) const;
    QVariant groupData(const Group& group, int column, int role) const;
    QVariant blockData(const Block& block, int column, int role) const;
    // Internal ids do not change when rows move: groups first, then blocks.
    bool isGroup(const QModelIndex& index) const { return index.internalId() < table_.groups.size(); }
    const Group& groupAt(const QModelIndex& index) const { return table_.groups[index.internalId()]; }
    const Block& blockAt(const QModelIndex& index) const
    {
        return table_.blocks[index.internalId() - table_.groups.size()];
    }
    int rowOf(const QModelIndex& index) const { return isGroup(index) ? groupAt(index).row : blockAt(index).row; }

    LiveBlocksTable table_;
    ByteUnit unit_;
    LiveBlocksTable::Key key_ = LiveBlocksTable::Key::size;
    Qt::SortOrder direction_ = Qt::DescendingOrder;
};

} // namespace headroom
