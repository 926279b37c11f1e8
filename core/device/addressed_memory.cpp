// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/addressed_memory.h"

#include <algorithm>
#include <utility>

namespace headroom {

void AddressedMemory::allocated(const void* address, Bytes requested, std::uintptr_t stream)
{
    sim::Block* block = nullptr;
    std::shared_ptr<sim::BlockObserver> observer;
    {
        const std::lock_guard lock(mutex_);
        std::unique_ptr<sim::Block>& known = blocks_[address];
        if (known)
            return;
        known = std::make_unique<sim::Block>();
        block = known.get();
        block->requested = requested;
        const auto number = std::ranges::find(streams_, stream);
        if (number != streams_.begin())
            streamOf_.emplace(block, static_cast<std::uint32_t>(number - streams_.begin()));
        if (number == streams_.end())
            streams_.push_back(stream);
        block->address = reinterpret_cast<void*>(++born_);
        byAge_.emplace(born_, block);
        observer = observer_;
    }
    if (observer)
        observer->allocated(*block);
}

void AddressedMemory::freed(const void* address)
{
    std::unique_ptr<sim::Block> block;
    std::shared_ptr<sim::BlockObserver> observer;
    {
        const std::lock_guard lock(mutex_);
        const auto known = blocks_.find(address);
        if (known == blocks_.end())
            return;
        block = std::move(known->second);
        blocks_.erase(known);
        byAge_.erase(reinterpret_cast<std::uintptr_t>(block->address));
        observer = observer_;
    }
    if (observer)
        observer->freed(*block);
    const std::lock_guard lock(mutex_);
    streamOf_.erase(block.get());
}

void AddressedMemory::refused(Bytes requested, Bytes deviceFree)
{
    std::shared_ptr<sim::BlockObserver> observer;
    {
        const std::lock_guard lock(mutex_);
        observer = observer_;
    }
    if (observer)
        observer->refused(requested, deviceFree, {});
}

void AddressedMemory::reservedMore(Bytes bytes)
{
    std::shared_ptr<sim::BlockObserver> observer;
    Bytes now = 0;
    {
        const std::lock_guard lock(mutex_);
        now = reserved_.value_or(0) + bytes;
        reserved_ = now;
        observer = observer_;
    }
    if (observer)
        observer->reserved(now);
}

std::uint32_t AddressedMemory::streamOf(const sim::Block& block) const
{
    const std::lock_guard lock(mutex_);
    const auto known = streamOf_.find(&block);
    return known == streamOf_.end() ? 0 : known->second;
}

std::optional<Bytes> AddressedMemory::reserved() const
{
    const std::lock_guard lock(mutex_);
    return reserved_;
}

sim::Block* AddressedMemory::blockOf(const c10::StorageImpl& storage)
{
    const void* address = storage.data_ptr().get();
    if (!address)
        return nullptr;
    const std::lock_guard lock(mutex_);
    const auto known = blocks_.find(address);
    return known == blocks_.end() ? nullptr : known->second.get();
}

std::vector<sim::Block*> AddressedMemory::liveBlocks()
{
    const std::lock_guard lock(mutex_);
    std::vector<sim::Block*> blocks;
    blocks.reserve(byAge_.size());
    for (const auto& [age, block] : byAge_)
        blocks.push_back(block);
    return blocks;
}

void AddressedMemory::setObserver(std::shared_ptr<sim::BlockObserver> observer)
{
    const std::lock_guard lock(mutex_);
    observer_.swap(observer); // The parameter outlives the lock, so the old observer dies after the unlock.
}

} // namespace headroom
