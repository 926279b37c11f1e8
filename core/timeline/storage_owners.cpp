// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/timeline/storage_owners.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace headroom {

StorageOwners::StorageOwners(const StepTrace& trace)
    : trace_(&trace)
    , rows_(trace.storages.size(), none)
    , units_(trace.storages.size())
{
    for (std::uint32_t row = 0; row < trace.registered.size(); ++row) {
        const StorageId storage = trace.registered.storage[row];
        if (!storage.valid())
            continue;
        if (rows_[storage.value] == none)
            rows_[storage.value] = row;
        if (isUnsharded(trace.registered.category[row])) {
            units_[storage.value] = trace.registered.module[row];
            anyUnit_ = true;
        }
    }
}

ModuleId StorageOwners::module(StorageId storage) const
{
    if (const std::uint32_t row = registeredRow(storage); row != none)
        return trace_->registered.module[row];
    const OpId creator = trace_->storages.creator[storage];
    return creator.valid() ? trace_->ops.module[creator] : ModuleId();
}

std::vector<UnitMemory> unshardedByUnit(const StorageOwners& owners, const std::vector<LiveBlock>& blocks)
{
    std::map<ModuleId, UnitMemory> units;
    for (const LiveBlock& block : blocks) {
        if (!isUnsharded(block.category))
            continue;
        UnitMemory& unit = units[owners.unit(block.storage)];
        (block.category == Category::unshardedParameter      ? unit.parameters
             : block.category == Category::unshardedGradient ? unit.gradients
                                                             : unit.communication)
            += block.bytes;
    }
    std::vector<UnitMemory> result;
    for (auto& [id, unit] : units) {
        unit.unit = id;
        result.push_back(unit);
    }
    std::ranges::stable_sort(result, std::ranges::greater(), &UnitMemory::total);
    return result;
}

std::vector<ModuleHolding> heldByModule(const StorageOwners& owners, const std::vector<LiveBlock>& blocks)
{
    std::map<std::pair<ModuleId, Category>, ModuleHolding> holdings;
    for (const LiveBlock& block : blocks) {
        const ModuleId module = owners.module(block.storage);
        ModuleHolding& holding = holdings[{module, block.category}];
        holding.module = module;
        holding.category = block.category;
        holding.bytes += block.bytes;
        ++holding.blocks;
    }
    std::vector<ModuleHolding> result;
    for (const auto& [key, holding] : holdings)
        result.push_back(holding);
    std::ranges::stable_sort(result, std::ranges::greater(), &ModuleHolding::bytes);
    return result;
}

} // namespace headroom
