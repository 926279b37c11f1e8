// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/timeline.h"
#include "views/plot/axis_map.h"

#include <QAbstractItemModel>

#include <vector>

namespace headroom {

/// What is alive at one instant, by module: a row for each module with the sum of its blocks, and below it every block
/// with the op that made it (or the parameter that it is) and its size. Sorted by size at first; sort() takes any
/// column.
class LiveBlocksModel : public QAbstractItemModel
{
    Q_OBJECT
public:
    enum Column { nameColumn, categoryColumn, sizeColumn, columns };

    enum Role { CategoryRole = Qt::UserRole }; ///< int, value of Category, in the category column

    explicit LiveBlocksModel(QObject* parent = nullptr);

    void setBlocks(StepTracePtr trace, const std::vector<LiveBlock>& blocks);
    void clear();

    Bytes totalBytes() const noexcept { return total_; }
    std::size_t blockCount() const noexcept { return blocks_.size(); }
    ModuleId moduleAt(const QModelIndex& index) const;

    QModelIndex index(int row, int column, const QModelIndex& parent = {}) const override;
    QModelIndex parent(const QModelIndex& index) const override;
    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
    void sort(int column, Qt::SortOrder order) override;

private:
    struct Group
    {
        ModuleId module; ///< invalid: of no module
        QString name;
        Bytes bytes = 0;
        Category category = Category::other; ///< that takes most of it
        int row = 0;
        std::vector<std::uint32_t> blocks; ///< positions in blocks_, in the order of their rows
    };
    struct Block
    {
        LiveBlock live;
        std::uint32_t group = 0;
        int row = 0;
    };

    void makeGroups();
    ModuleId moduleOf(const LiveBlock& block) const;
    QString blockName(const LiveBlock& block) const;
    QVariant groupData(const Group& group, int column, int role) const;
    QVariant blockData(const LiveBlock& block, int column, int role) const;
    void sortRows();
    // Internal ids do not change when rows move: groups first, then blocks.
    bool isGroup(const QModelIndex& index) const { return index.internalId() < groups_.size(); }
    const Block& blockAt(const QModelIndex& index) const { return blocks_[index.internalId() - groups_.size()]; }
    int rowOf(quintptr id) const { return id < groups_.size() ? groups_[id].row : blocks_[id - groups_.size()].row; }

    StepTracePtr trace_;
    std::vector<Block> blocks_;
    std::vector<Group> groups_;
    std::vector<std::uint32_t> order_; ///< positions in groups_, in the order of their rows
    std::vector<std::uint32_t> registered_; ///< by StorageId: row of trace_->registered, or none
    Bytes total_ = 0;
    ByteUnit unit_;
    int sortColumn_ = sizeColumn;
    Qt::SortOrder sortOrder_ = Qt::DescendingOrder;
};

} // namespace headroom
