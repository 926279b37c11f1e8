// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/simulated_allocator.h"

#include "core/device/simulated_state.h"

#include <algorithm>

namespace headroom::sim {
namespace {

const c10::Device simulatedDevice(c10::DeviceType::PrivateUse1, 0);

/// Not an address on any 64-bit machine of today, whose pointers are canonical: bits 48 to 63 repeat bit 47.
constexpr std::uintptr_t firstAddress = std::uintptr_t{1} << 60;

} // namespace

SimulatedAllocator::SimulatedAllocator()
    : nextAddress_(firstAddress)
{
}

c10::DataPtr SimulatedAllocator::allocate(std::size_t bytes)
{
    if (bytes == 0)
        return {nullptr, nullptr, &c10::detail::deleteNothing, simulatedDevice};
    auto* block = new Block;
    block->requested = static_cast<Bytes>(bytes);
    BlockObserver* observer = nullptr;
    {
        const std::lock_guard lock(mutex_);
        link(block);
        observer = observer_;
    }
    if (observer)
        observer->allocated(*block);
    return hand(block);
}

c10::DataPtr SimulatedAllocator::allocateUncounted(Bytes bytes, BlockTag tag, std::function<void()> onFree)
{
    auto* block = new Block;
    block->requested = bytes;
    block->counted = false;
    block->tag = tag;
    block->onFree = std::move(onFree);
    {
        const std::lock_guard lock(mutex_);
        block->address = reinterpret_cast<void*>(nextAddress_);
        nextAddress_ += static_cast<std::uintptr_t>(std::max(roundedToBlock(bytes), allocationGranularity));
    }
    return hand(block);
}

c10::DataPtr SimulatedAllocator::hand(Block* block)
{
    return {block->address, block, &SimulatedAllocator::freeBlock, simulatedDevice};
}

void SimulatedAllocator::link(Block* block)
{
    const Bytes rounded = roundedToBlock(block->requested);
    block->address = reinterpret_cast<void*>(nextAddress_);
    nextAddress_ += static_cast<std::uintptr_t>(rounded);
    block->previous = youngest_;
    (youngest_ ? youngest_->next : oldest_) = block;
    youngest_ = block;
    live_ += rounded;
    peak_ = std::max(peak_, live_);
    ++blocks_;
}

void SimulatedAllocator::freeBlock(void* context)
{
    simulatedState().allocator.release(static_cast<Block*>(context));
}

void SimulatedAllocator::release(Block* block)
{
    if (block->counted) {
        BlockObserver* observer = nullptr;
        {
            const std::lock_guard lock(mutex_);
            (block->previous ? block->previous->next : oldest_) = block->next;
            (block->next ? block->next->previous : youngest_) = block->previous;
            live_ -= roundedToBlock(block->requested);
            --blocks_;
            observer = observer_;
        }
        if (observer)
            observer->freed(*block);
    } else if (block->onFree) {
        block->onFree();
    }
    delete block;
}

void SimulatedAllocator::resize(c10::StorageImpl& storage, Bytes bytes)
{
    Block* old = blockOf(storage);
    c10::DataPtr replacement = allocate(static_cast<std::size_t>(bytes));
    if (old && bytes > 0) {
        BlockObserver* observer = nullptr;
        {
            const std::lock_guard lock(mutex_);
            observer = observer_;
        }
        if (observer)
            observer->moved(*old, *static_cast<Block*>(replacement.get_context()));
    }
    storage.set_data_ptr_noswap(std::move(replacement));
    storage.set_nbytes(static_cast<std::size_t>(bytes));
}

Block* SimulatedAllocator::blockOf(const c10::StorageImpl& storage)
{
    if (storage.device_type() != c10::DeviceType::PrivateUse1)
        return nullptr;
    return static_cast<Block*>(storage.data_ptr().get_context());
}

Bytes SimulatedAllocator::live() const
{
    const std::lock_guard lock(mutex_);
    return live_;
}

Bytes SimulatedAllocator::peak() const
{
    const std::lock_guard lock(mutex_);
    return peak_;
}

std::int64_t SimulatedAllocator::blocks() const
{
    const std::lock_guard lock(mutex_);
    return blocks_;
}

void SimulatedAllocator::resetPeak()
{
    const std::lock_guard lock(mutex_);
    peak_ = live_;
}

std::vector<Block*> SimulatedAllocator::liveBlocks() const
{
    const std::lock_guard lock(mutex_);
    std::vector<Block*> blocks;
    for (Block* block = oldest_; block; block = block->next)
        blocks.push_back(block);
    return blocks;
}

void SimulatedAllocator::setObserver(BlockObserver* observer)
{
    const std::lock_guard lock(mutex_);
    observer_ = observer;
}

} // namespace headroom::sim
