// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/simulated_allocator.h"

#include "core/device/card_limit.h"
#include "core/device/hosted_memory.h"
#include "core/device/memory_pools.h"
#include "core/device/simulated_device.h"
#include "core/device/simulated_state.h"
#include "core/trace/graph_ops.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace headroom::sim {
namespace {

/// A non-canonical address, which every 64-bit machine of today rejects: bits 48 to 63 do not repeat bit 47.
constexpr std::uintptr_t firstAddress = std::uintptr_t{1} << 60;

/// Releases the free segments of private pools that are no longer used. Returns whether there were any.
bool releaseGivenUp(CachingAllocator& cache)
{
    bool released = false;
    for (const CachingAllocator::SegmentState& segment : cache.segments())
        if (isGivenUp(poolOfPlace(static_cast<std::uint32_t>(segment.stream))))
            released |= cache.releaseSegmentAt(segment.address);
    return released;
}

} // namespace

DeviceMemory::~DeviceMemory()
{
    if (counted_)
        simulatedState().allocator.giveBack(*this);
}

void DeviceMemory::exchange(DeviceMemory& other) noexcept
{
    std::swap(requested_, other.requested_);
    std::swap(counted_, other.counted_);
    usedBy_.swap(other.usedBy_);
    std::swap(place_, other.place_);
}

SimulatedAllocator::SimulatedAllocator()
    : nextAddress_(firstAddress)
{
}

c10::DataPtr SimulatedAllocator::allocate(std::size_t bytes)
{
    if (bytes == 0)
        return {nullptr, nullptr, &c10::detail::deleteNothing, device()};
    auto block = std::make_unique<Block>();
    block->requested = static_cast<Bytes>(bytes);
    block->stream = currentPlace();
    block->memory = std::make_shared<DeviceMemory>(block->requested);
    std::shared_ptr<BlockObserver> observer;
    bool fits = false;
    {
        const std::lock_guard lock(mutex_);
        observer = observer_;
        fits = take(*block->memory, block->stream);
        if (fits)
            link(block.get());
    }
    if (!fits)
        refuse(block->requested, observer);
    if (observer)
        observer->allocated(*block);
    return hand(block.release());
}

c10::DataPtr SimulatedAllocator::allocateUncounted(Bytes bytes, BlockTag tag, std::shared_ptr<DeviceMemory> memory,
                                                   std::function<void()> onFree)
{
    auto* block = new Block;
    block->requested = bytes;
    block->counted = false;
    block->tag = tag;
    block->memory = std::move(memory);
    block->onFree = std::move(onFree);
    {
        const std::lock_guard lock(mutex_);
        block->address = reinterpret_cast<void*>(nextAddress_);
        nextAddress_ += static_cast<std::uintptr_t>(std::max(roundedToBlock(bytes), allocationGranularity));
    }
    return hand(block);
}

c10::DataPtr SimulatedAllocator::allocateHeld(Bytes bytes, void* address, BlockTag tag,
                                              std::shared_ptr<DeviceMemory> memory)
{
    auto* block = new Block;
    block->address = address;
    block->requested = bytes;
    block->tag = tag;
    block->memory = std::move(memory);
    const std::lock_guard lock(mutex_);
    append(block);
    return hand(block);
}

bool SimulatedAllocator::take(DeviceMemory& memory, std::uint32_t stream)
{
    if (cache_) {
        freeAwaited();
        const auto allocate = [&] { return cache_->allocate(memory.requested_, stream, {0, poolOfPlace(stream)}); };
        memory.place_ = allocate();
        if (!memory.place_ && releaseGivenUp(*cache_))
            memory.place_ = allocate();
        if (!memory.place_) {
            ++stats_.outOfMemories;
            return false;
        }
    }
    memory.counted_ = true;
    const Bytes rounded = roundedToBlock(memory.requested_);
    stats_.live += rounded;
    stats_.requested += memory.requested_;
    stats_.peak = std::max(stats_.peak, stats_.live);
    stats_.requestedPeak = std::max(stats_.requestedPeak, stats_.requested);
    ++stats_.blocks;
    ++stats_.allocations;
    stats_.allocated += rounded;
    return true;
}

void SimulatedAllocator::giveBack(DeviceMemory& memory)
{
    const std::lock_guard lock(mutex_);
    stats_.live -= roundedToBlock(memory.requested_);
    stats_.requested -= memory.requested_;
    --stats_.blocks;
    if (!memory.place_)
        return;
    if (memory.usedBy_.empty())
        return cache_->free(*memory.place_);
    cache_->requestFree(*memory.place_);
    awaited_.push_back(*memory.place_);
}

void SimulatedAllocator::freeAwaited()
{
    for (const CachingAllocator::Block block : awaited_)
        cache_->free(block);
    awaited_.clear();
}

void SimulatedAllocator::recordStream(const c10::DataPtr& data, std::uint32_t stream)
{
    const Block* block = blockOf(data);
    if (!block || !block->memory || stream == streamOfPlace(block->stream))
        return;
    std::shared_ptr<BlockObserver> observer;
    {
        const std::lock_guard lock(mutex_);
        std::vector<std::uint32_t>& streams = block->memory->usedBy_;
        if (std::ranges::find(streams, stream) != streams.end())
            return;
        streams.push_back(stream);
        observer = observer_;
    }
    if (observer)
        observer->used(*block, stream);
}

void SimulatedAllocator::refuse(Bytes bytes, const std::shared_ptr<BlockObserver>& observer)
{
    const MemoryStats now = stats();
    const Bytes reserved = now.reserved;
    const Bytes deviceFree = std::max<Bytes>(capacity_ - reserved, 0);
    if (observer)
        observer->refused(bytes, deviceFree);
    // Programs look for the words of c10/cuda/CUDACachingAllocator.cpp.
    TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ", formatBytes(bytes),
                     ". GPU 0 has a total capacity of ", formatBytes(simulatedState().spec.memory), " of which ",
                     formatBytes(deviceFree), " is free. Of the allocated memory ", formatBytes(now.live),
                     " is allocated by PyTorch, and ", formatBytes(reserved - now.live),
                     " is reserved by PyTorch but unallocated. This GPU is simulated by Headroom: ", restOfCard(),
                     " take the rest of the card, cuDNN's may take more there.");
}

c10::DataPtr SimulatedAllocator::hand(Block* block)
{
    return {block->address, block, &SimulatedAllocator::freeBlock, device()};
}

void SimulatedAllocator::link(Block* block)
{
    block->address = reinterpret_cast<void*>(nextAddress_);
    nextAddress_ += static_cast<std::uintptr_t>(roundedToBlock(block->requested));
    append(block);
}

void SimulatedAllocator::append(Block* block)
{
    block->previous = youngest_;
    (youngest_ ? youngest_->next : oldest_) = block;
    youngest_ = block;
}

void SimulatedAllocator::freeBlock(void* context)
{
    simulatedState().allocator.release(static_cast<Block*>(context));
}

void SimulatedAllocator::release(Block* block)
{
    if (block->counted) {
        std::shared_ptr<BlockObserver> observer;
        {
            const std::lock_guard lock(mutex_);
            (block->previous ? block->previous->next : oldest_) = block->next;
            (block->next ? block->next->previous : youngest_) = block->previous;
            observer = observer_;
        }
        if (observer)
            observer->freed(*block);
    } else if (block->onFree) {
        block->onFree();
    }
    delete block;
}

c10::DataPtr SimulatedAllocator::allocateNothing()
{
    auto* block = new Block;
    block->stream = currentPlace();
    block->memory = std::make_shared<DeviceMemory>(0);
    const std::lock_guard lock(mutex_);
    block->address = reinterpret_cast<void*>(nextAddress_);
    nextAddress_ += static_cast<std::uintptr_t>(allocationGranularity);
    append(block);
    return hand(block);
}

void SimulatedAllocator::resize(c10::StorageImpl& storage, Bytes bytes)
{
    Block* old = blockOf(storage);
    // An emptied storage keeps a block: FSDP empties a gathered parameter and fills it again, and tensors that autograd
    // saved of it then refer to the same storage.
    c10::DataPtr replacement = bytes == 0 && old ? allocateNothing() : allocate(static_cast<std::size_t>(bytes));
    if (old) {
        auto* moved = static_cast<Block*>(replacement.get_context());
        std::shared_ptr<BlockObserver> observer;
        {
            const std::lock_guard lock(mutex_);
            observer = observer_;
            old->memory->exchange(*moved->memory);
            old->memory.swap(moved->memory);
        }
        if (observer)
            observer->moved(*old, *moved);
    }
    storage.set_data_ptr_noswap(std::move(replacement));
    storage.set_nbytes(static_cast<std::size_t>(bytes));
}

Block* SimulatedAllocator::blockOf(const c10::StorageImpl& storage)
{
    return blockOf(storage.data_ptr());
}

Block* SimulatedAllocator::blockOf(const c10::DataPtr& pointer)
{
    return pointer.get_deleter() == &SimulatedAllocator::freeBlock ? static_cast<Block*>(pointer.get_context())
                                                                   : hostedBlock(pointer);
}

MemoryStats SimulatedAllocator::stats() const
{
    const std::lock_guard lock(mutex_);
    MemoryStats stats = stats_;
    if (cache_) {
        stats.reserved = cache_->stats().reserved;
        stats.reservedPeak = cache_->stats().reservedPeak;
        stats.segments = cache_->stats().segments;
    }
    return stats;
}

void SimulatedAllocator::setCapacity(Bytes capacity)
{
    const std::lock_guard lock(mutex_);
    capacity_ = capacity;
    if (!cache_)
        cache_.emplace();
    cache_->setCapacity(capacity);
}

void SimulatedAllocator::emptyCache()
{
    const std::lock_guard lock(mutex_);
    if (!cache_)
        return;
    freeAwaited();
    cache_->releaseUnused();
    releaseGivenUp(*cache_);
}

CachingAllocator::Counters SimulatedAllocator::counters() const
{
    const std::lock_guard lock(mutex_);
    return cache_ ? cache_->counters() : CachingAllocator::Counters();
}

std::vector<CachingAllocator::SegmentState> SimulatedAllocator::segments() const
{
    const std::lock_guard lock(mutex_);
    return cache_ ? cache_->segments() : std::vector<CachingAllocator::SegmentState>();
}

void SimulatedAllocator::resetAccumulated()
{
    const std::lock_guard lock(mutex_);
    if (cache_)
        cache_->resetAccumulated();
}

void SimulatedAllocator::resetPeak()
{
    const std::lock_guard lock(mutex_);
    stats_.peak = stats_.live;
    stats_.requestedPeak = stats_.requested;
    if (cache_)
        cache_->resetPeaks();
}

std::vector<Block*> SimulatedAllocator::liveBlocks() const
{
    const std::lock_guard lock(mutex_);
    std::vector<Block*> blocks;
    for (Block* block = oldest_; block; block = block->next)
        blocks.push_back(block);
    return blocks;
}

void SimulatedAllocator::setObserver(std::shared_ptr<BlockObserver> observer)
{
    const std::lock_guard lock(mutex_);
    observer_.swap(observer); // The parameter outlives the lock, so that the old observer is not destroyed under it.
}

} // namespace headroom::sim
