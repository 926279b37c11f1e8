// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/timeline.h"

#include <cstdint>
#include <vector>

namespace headroom {

/// Whether a category is of memory that FSDP has unsharded: gathered parameters, their gradients, and buffers of
/// collectives.
constexpr bool isUnsharded(Category category)
{
    return category == Category::unshardedParameter || category == Category::unshardedGradient
        || category == Category::communication;
}

/// Finds the module of each storage: the module that registers the storage, else the module of the op that
/// allocated the storage.
class StorageOwners
{
public:
    static constexpr std::uint32_t none = 0xffffffff;

    explicit StorageOwners(const StepTrace& trace);

    /// The first row of StepTrace::registered with this storage (a tied weight has several); `none`: not registered.
    std::uint32_t registeredRow(StorageId storage) const { return rows_[storage.value]; }
    ModuleId module(StorageId storage) const;
    /// The unit of FSDP (a module that the script wrapped) that holds the storage unsharded; invalid: none.
    ModuleId unit(StorageId storage) const { return units_[storage.value]; }
    bool anyUnit() const noexcept { return anyUnit_; }

private:
    const StepTrace* trace_;
    std::vector<std::uint32_t> rows_; ///< by storage
    std::vector<ModuleId> units_; ///< by storage
    bool anyUnit_ = false;
};

/// Bytes that a unit of FSDP holds unsharded at an instant.
struct UnitMemory
{
    ModuleId unit; ///< invalid: memory of no unit, such as the buckets of DistributedDataParallel
    Bytes parameters = 0;
    Bytes gradients = 0;
    Bytes communication = 0;

    Bytes total() const noexcept { return parameters + gradients + communication; }
};

/// The units that hold unsharded memory, largest first.
std::vector<UnitMemory> unshardedByUnit(const StorageOwners& owners, const std::vector<LiveBlock>& blocks);

/// Memory of one category that a module holds at an instant, without the modules inside it.
struct ModuleHolding
{
    ModuleId module; ///< invalid: memory of no module, such as optimizer state
    Category category = Category::other;
    Bytes bytes = 0;
    std::int64_t blocks = 0; ///< number of blocks
};

/// The holdings of all modules, largest first.
std::vector<ModuleHolding> heldByModule(const StorageOwners& owners, const std::vector<LiveBlock>& blocks);

} // namespace headroom
