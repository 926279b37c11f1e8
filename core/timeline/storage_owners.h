// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/timeline.h"

#include <cstdint>
#include <vector>

namespace headroom {

/// Parameters that FSDP has gathered, their gradients and the buffers of its collectives: not the shards.
constexpr bool isUnsharded(Category category)
{
    return category == Category::unshardedParameter || category == Category::unshardedGradient
        || category == Category::communication;
}

/// To which module each storage belongs: that it is registered with, else that whose op allocated it.
class StorageOwners
{
public:
    static constexpr std::uint32_t none = 0xffffffff;

    explicit StorageOwners(const StepTrace& trace);

    /// Of StepTrace::registered: the first tensor that is the storage (a tied weight has several owners).
    std::uint32_t registeredRow(StorageId storage) const { return rows_[storage.value]; }
    ModuleId module(StorageId storage) const;
    /// The unit of FSDP, a module that the script wrapped, that has the storage unsharded; invalid: none.
    ModuleId unit(StorageId storage) const { return units_[storage.value]; }
    bool anyUnit() const noexcept { return anyUnit_; }

private:
    const StepTrace* trace_;
    std::vector<std::uint32_t> rows_;
    std::vector<ModuleId> units_;
    bool anyUnit_ = false;
};

/// What a unit of FSDP has unsharded at an instant.
struct UnitMemory
{
    ModuleId unit; ///< invalid: of no unit, as the buckets of DistributedDataParallel
    Bytes parameters = 0;
    Bytes gradients = 0;
    Bytes communication = 0;

    Bytes total() const noexcept { return parameters + gradients + communication; }
};

/// The units that hold something of it, largest first.
std::vector<UnitMemory> unshardedByUnit(const StorageOwners& owners, const std::vector<LiveBlock>& blocks);

/// What a module holds of one category at an instant, modules inside of it apart.
struct ModuleHolding
{
    ModuleId module; ///< invalid: of none, as optimizer state
    Category category = Category::other;
    Bytes bytes = 0;
    std::int64_t blocks = 0;
};

/// Largest first.
std::vector<ModuleHolding> heldByModule(const StorageOwners& owners, const std::vector<LiveBlock>& blocks);

} // namespace headroom
