// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/simulated_allocator.h"

#include "core/device/allocator_settings.h"
#include "core/device/card_limit.h"
#include "core/device/hosted_memory.h"
#include "core/device/memory_pools.h"
#include "core/device/simulated_device.h"
#include "core/device/simulated_state.h"
#include "core/device/source_frames.h"
#include "core/trace/graph_ops.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

namespace headroom::sim {
namespace {

using Action = AllocationHistory::Action;

/// Where the caching allocator's own addresses begin, as on a real card; different from the addresses of storages.
constexpr CachingAllocator::Block firstSegment = CachingAllocator::Block{0x7f00} << 32;

std::atomic<void (*)(Bytes, Bytes, Bytes)> toldOfOutOfMemory{nullptr};

/// A non-canonical address, rejected by every 64-bit machine of today: bits 48 to 63 do not repeat bit 47.
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
    std::swap(stream_, other.stream_);
    std::swap(place_, other.place_);
    std::swap(number_, other.number_);
}

SimulatedAllocator::SimulatedAllocator()
    : nextAddress_(firstAddress)
{
}

c10::DataPtr SimulatedAllocator::allocate(std::size_t bytes)
{
    if (bytes == 0)
        return {nullptr, nullptr, &c10::detail::deleteNothing, device()};
    constexpr std::size_t exbibyte = std::size_t{1} << 60; // c10/cuda/CUDACachingAllocator.cpp
    TORCH_CHECK_WITH(OutOfMemoryError, bytes < exbibyte, "CUDA out of memory. Tried to allocate more than 1EB memory.");
    if (simulatedState().type == c10::DeviceType::CUDA)
        applyAllocatorSettingsOnce();
    auto block = std::make_unique<Block>();
    block->requested = static_cast<Bytes>(bytes);
    block->stream = currentPlace();
    block->frame = currentFrame();
    block->memory = std::make_shared<DeviceMemory>(block->requested);
    const AllocationHistory::Stack stack = history_.stack();
    std::shared_ptr<BlockObserver> observer;
    bool fits = false;
    {
        const std::lock_guard lock(mutex_);
        observer = observer_;
        fits = take(*block->memory, block->stream, stack);
        if (fits)
            link(block.get());
    }
    if (!fits)
        refuse(block->requested, observer, stack);
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

bool SimulatedAllocator::take(DeviceMemory& memory, std::uint32_t stream, const AllocationHistory::Stack& stack)
{
    if (cache_) {
        calling_ = stack;
        freeAwaited();
        const auto allocate = [&] { return cache_->allocate(memory.requested_, stream, {0, poolOfPlace(stream)}); };
        memory.place_ = allocate();
        if (!memory.place_ && releaseGivenUp(*cache_))
            memory.place_ = allocate();
        calling_ = nullptr;
        if (!memory.place_) {
            ++stats_.outOfMemories;
            if (log_)
                log_->refused();
            return false;
        }
        history_.add(Action::alloc, *memory.place_, memory.requested_, stream, stack);
    }
    memory.counted_ = true;
    memory.stream_ = stream;
    const Bytes rounded = roundedToBlock(memory.requested_);
    stats_.live += rounded;
    stats_.requested += memory.requested_;
    stats_.peak = std::max(stats_.peak, stats_.live);
    stats_.requestedPeak = std::max(stats_.requestedPeak, stats_.requested);
    ++stats_.blocks;
    ++stats_.allocations;
    stats_.allocated += rounded;
    memory.number_ = static_cast<std::uint64_t>(stats_.allocations);
    if (log_)
        log_->taken(memory.number_, memory.requested_, stream);
    return true;
}

void SimulatedAllocator::giveBack(DeviceMemory& memory)
{
    const AllocationHistory::Stack stack = history_.stackOfFree();
    const std::lock_guard lock(mutex_);
    stats_.live -= roundedToBlock(memory.requested_);
    stats_.requested -= memory.requested_;
    --stats_.blocks;
    if (log_)
        log_->returned(memory.number_, memory.requested_, memory.stream_);
    if (!memory.place_)
        return;
    const Awaited block{*memory.place_, memory.requested_, memory.stream_};
    history_.add(Action::freeRequested, block.place, block.requested, block.stream, stack);
    if (memory.usedBy_.empty())
        return free(block, stack);
    cache_->requestFree(block.place);
    awaited_.push_back(block);
}

void SimulatedAllocator::free(const Awaited& block, const AllocationHistory::Stack& stack)
{
    cache_->free(block.place);
    history_.add(Action::freeCompleted, block.place, block.requested, block.stream, stack);
}

void SimulatedAllocator::freeAwaited()
{
    for (const Awaited& block : awaited_)
        free(block, calling_);
    awaited_.clear();
}

void SimulatedAllocator::noteSegment(const CachingAllocator::SegmentEvent& event)
{
    const Action action = event.pages ? event.taken ? Action::segmentMap : Action::segmentUnmap
        : event.taken                 ? Action::segmentAlloc
                                      : Action::segmentFree;
    history_.add(action, event.address, event.size, static_cast<std::uint32_t>(event.stream), calling_);
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

FreePieces SimulatedAllocator::freePieces(const CachingAllocator::OutOfMemory& failure) const
{
    if (!failure.freeBlocks.empty() && failure.freeBlocks.front() >= failure.size)
        return {}; // freed by the wait for other streams, after the search
    FreePieces pieces{failure.freeCount, {}};
    for (std::size_t i = 0; i < failure.freeBlocks.size(); ++i)
        pieces.largest.push_back({failure.freeBlocks[i], failure.beside[i], {}});
    for (const Block* block = oldest_; block; block = block->next) {
        if (!block->memory || !block->memory->place_)
            continue;
        for (FreePieces::Piece& piece : pieces.largest)
            if (piece.beside == *block->memory->place_)
                piece.tag = block->tag;
    }
    return pieces;
}

void SimulatedAllocator::refuse(Bytes bytes, const std::shared_ptr<BlockObserver>& observer,
                                const AllocationHistory::Stack& stack)
{
    const MemoryStats now = stats();
    const Bytes reserved = now.reserved;
    const Bytes deviceFree = std::max<Bytes>(capacity_ - reserved, 0);
    const Bytes total = simulatedState().spec.memory;
    const Bytes limit = rules().limit();
    FreePieces pieces;
    {
        const std::lock_guard lock(mutex_);
        history_.add(Action::outOfMemory, static_cast<CachingAllocator::Block>(deviceFree), bytes, currentPlace(),
                     stack);
        if (observer && cache_ && cache_->outOfMemory().requested == bytes)
            pieces = freePieces(cache_->outOfMemory());
    }
    if (auto* const tell = toldOfOutOfMemory.load())
        tell(bytes, limit == AllocatorRules::unlimited ? total : limit, deviceFree);
    if (observer)
        observer->refused(bytes, deviceFree, pieces);
    // Programs look for the words of c10/cuda/CUDACachingAllocator.cpp.
    TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ", formatBytes(bytes),
                     ". GPU 0 has a total capacity of ", formatBytes(total), " of which ", formatBytes(deviceFree),
                     " is free. ",
                     limit == AllocatorRules::unlimited ? std::string() : formatBytes(limit) + " allowed; ",
                     "Of the allocated memory ", formatBytes(now.live), " is allocated by PyTorch, and ",
                     formatBytes(reserved - now.live),
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
    // An emptied storage keeps a block: FSDP empties a gathered parameter and fills the parameter again, and tensors
    // that autograd saved of the parameter then refer to the same storage.
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
    if (!cache_) {
        cache_.emplace();
        cache_->placeNextSegment(firstSegment);
        cache_->setSegmentObserver([this](const CachingAllocator::SegmentEvent& event) { noteSegment(event); });
    }
    cache_->setCapacity(capacity);
}

AllocatorRules SimulatedAllocator::rules() const
{
    const std::lock_guard lock(mutex_);
    return cache_ ? cache_->rules() : AllocatorRules();
}

void SimulatedAllocator::setRules(AllocatorRules rules)
{
    const std::lock_guard lock(mutex_);
    if (!cache_)
        return;
    rules.capacity = capacity_;
    cache_->setRules(rules);
}

void SimulatedAllocator::startHistory(const AllocationHistory::Options& options)
{
    const std::lock_guard lock(mutex_);
    history_.start(options);
}

void SimulatedAllocator::stopHistory()
{
    const std::lock_guard lock(mutex_);
    history_.stop();
}

SimulatedAllocator::Snapshot SimulatedAllocator::snapshot(bool isNoted)
{
    const std::lock_guard lock(mutex_);
    Snapshot result;
    if (!cache_)
        return result;
    result.segments = cache_->segments();
    result.entries.assign(history_.entries().begin(), history_.entries().end());
    for (const CachingAllocator::SegmentState& segment : result.segments) {
        if (auto stack = history_.stackOfSegment(segment.address))
            result.segmentStacks.emplace(segment.address, std::move(stack));
        for (const CachingAllocator::Segment::Part& part : segment.parts)
            if (auto stack = history_.stackOfBlock(part.address))
                result.blockStacks.emplace(part.address, std::move(stack));
    }
    if (isNoted)
        history_.add(Action::snapshot, 0, cache_->stats().active, 0);
    return result;
}

void SimulatedAllocator::setMetadata(std::string text)
{
    const std::lock_guard lock(mutex_);
    history_.setMetadata(std::move(text));
}

std::string SimulatedAllocator::metadata() const
{
    const std::lock_guard lock(mutex_);
    return history_.metadata();
}

void SimulatedAllocator::onOutOfMemory(void (*tell)(Bytes, Bytes, Bytes))
{
    toldOfOutOfMemory = tell;
}

void SimulatedAllocator::emptyCache()
{
    const AllocationHistory::Stack stack = history_.stackOfFree();
    const std::lock_guard lock(mutex_);
    if (log_)
        log_->emptied();
    if (!cache_)
        return;
    calling_ = stack;
    freeAwaited();
    cache_->releaseUnused();
    releaseGivenUp(*cache_);
    calling_ = nullptr;
}

CachingAllocator::Counters SimulatedAllocator::counters() const
{
    const std::lock_guard lock(mutex_);
    return cache_ ? cache_->counters() : CachingAllocator::Counters();
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
    observer_.swap(observer); // The parameter outlives the lock, so the old observer dies after the unlock.
}

void SimulatedAllocator::setLog(std::shared_ptr<MemoryLog> log)
{
    const std::lock_guard lock(mutex_);
    log_.swap(log);
}

} // namespace headroom::sim
