// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/allocator/allocator_action.h"
#include "core/allocator/caching_allocator.h"
#include "core/base/bytes.h"
#include "core/base/ids.h"
#include "core/device/simulated_device.h"

#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace headroom::sim {

/// What torch.cuda.memory._record_memory_history() keeps: the caching allocator's actions, and stacks. Not thread-safe
/// except for stack() and stackOfFree(): SimulatedAllocator calls the others under its lock.
class AllocationHistory
{
public:
    using Stack = std::shared_ptr<c10::GatheredContext>; ///< null: not kept
    using Address = CachingAllocator::Block;
    using Action = AllocatorAction;

    struct Entry
    {
        Action action = Action::alloc;
        Address address = 0; ///< outOfMemory: the free bytes of the device
        Bytes size = 0;
        std::uint32_t place = 0; ///< stream and pool (core/trace/graph_ops.h)
        std::int64_t microseconds = 0; ///< since 1970
        Stack stack;
        std::string metadata; ///< text of setMetadata() at that time
    };

    /// The `context` of _record_memory_history(): each value adds to the value before.
    enum class Stacks : std::uint8_t { none, ofLiveBlocks, ofAllocations, ofFrees };

    struct Options
    {
        Stacks stacks = Stacks::none;
        std::size_t maxEntries = 0; ///< later entries replace the oldest; 0: none is kept
        std::uint32_t skipped = 0; ///< bit N: the action with number N is left out
        bool clears = false; ///< earlier entries are dropped
        bool cpp = false; ///< stacks have frames of C++, too
    };
    void start(const Options& options);
    void stop(); ///< drops everything
    void setMetadata(std::string text) { metadata_ = std::move(text); }
    const std::string& metadata() const noexcept { return metadata_; }

    /// Returns the stack of this thread if stacks are kept. Takes the GIL, as PyTorch does, even where a tensor is
    /// freed, although Python frees without the GIL. The caller holds no lock.
    Stack stack() const;
    Stack stackOfFree() const; ///< of a free, or of empty_cache()

    /// As PyTorch does, a free without a stack takes the stack of the allocation.
    void add(Action action, Address address, Bytes size, std::uint32_t place, const Stack& stack = {});
    const std::deque<Entry>& entries() const noexcept { return entries_; }
    Stack stackOfBlock(Address address) const { return find(blocks_, address); }
    Stack stackOfSegment(Address address) const { return find(segments_, address); }

private:
    using StackByAddress = std::unordered_map<Address, Stack>;
    static Stack find(const StackByAddress& stacks, Address address);

    Options options_;
    std::atomic<Stacks> stacks_{Stacks::none};
    std::atomic<bool> cpp_{false};
    std::deque<Entry> entries_;
    std::string metadata_;
    StackByAddress blocks_; ///< of live blocks
    StackByAddress segments_;
};

/// An observer's note on a block. `epoch` tells the notes of two observers apart.
struct BlockTag
{
    std::uint32_t epoch = 0;
    std::uint32_t id = 0;
};

/// The share of the device's memory that a storage takes; the last holder returns the share. Holders are the storage
/// and, while a step is recorded, autograd's saved tensors, which then hold no storage (core/record/shadow_save.h).
class DeviceMemory
{
public:
    explicit DeviceMemory(Bytes requested)
        : requested_(requested)
    {
    }
    ~DeviceMemory();
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;

    /// The streams besides the allocation's own that use the memory (Tensor.record_stream).
    const std::vector<std::uint32_t>& usedBy() const { return usedBy_; }
    std::optional<CachingAllocator::Block> place() const { return place_; }

private:
    friend class SimulatedAllocator;
    /// Swaps the contents; the holders stay.
    void exchange(DeviceMemory& other) noexcept;

    Bytes requested_;
    bool counted_ = false; ///< included in the allocator's statistics
    std::vector<std::uint32_t> usedBy_;
    std::uint32_t stream_ = 0; ///< and pool of the allocation
    std::optional<CachingAllocator::Block> place_; ///< in the caching allocator, on a device with a limit
    std::uint64_t number_ = 0; ///< of the allocation, from 1
};

/// One allocation on the simulated device: the context of a storage's data pointer.
struct Block
{
    void* address = nullptr; ///< unique while the process lives, never readable
    Bytes requested = 0;
    std::uint32_t stream = 0; ///< the stream of the allocation; only this stream reuses the memory
    bool counted = true; ///< false: a shadow, which takes no memory
    FrameId frame; ///< currentFrame() at the allocation
    BlockTag tag;
    std::shared_ptr<DeviceMemory> memory; ///< a shadow holds the memory of the storage that it replaces
    std::function<void()> onFree; ///< shadows only: called when the storage dies
    c10::Storage values; ///< known contents on the CPU, of small blocks only (known_storage.h)
    Block* previous = nullptr; ///< list of counted blocks, oldest first
    Block* next = nullptr;
};

/// The free pieces of the caching allocator's memory when an allocation fails.
struct FreePieces
{
    struct Piece
    {
        Bytes bytes = 0;
        CachingAllocator::Block beside = 0; ///< the smaller of the two blocks beside the piece; 0: none
        BlockTag tag; ///< of the storage in that block, if a storage holds the block
    };
    std::size_t count = 0; ///< of the request's pool and stream; 0: not known
    std::vector<Piece> largest; ///< in descending order
};

/// Interface for changes of the device's memory, called in the thread that makes the change. A call that runs while the
/// observer is replaced ends before the observer is destroyed.
class BlockObserver
{
public:
    virtual ~BlockObserver() = default;
    virtual void allocated(Block& block) = 0;
    virtual void freed(Block& block) = 0;
    /// A storage moves from `old` to `replacement`. allocated(replacement) came before, freed(old) follows. Both blocks
    /// exist at this moment, as on a GPU while the contents are copied.
    virtual void moved(Block& old, Block& replacement) = 0;
    /// An allocation of `requested` bytes failed; `deviceFree` bytes of the device are not reserved.
    virtual void refused(Bytes requested, Bytes deviceFree, const FreePieces& pieces) = 0;
    /// The caching allocator of a real device now reserves `bytes`. The reservations of the simulated allocator are
    /// replayed later.
    virtual void reserved(Bytes bytes) = 0;
    /// Another stream than the stream of the allocation uses the block from now on.
    virtual void used(const Block&, std::uint32_t) {}
};

/// Interface for what the caching allocator does: blocks live here until the last holder returns the block. The
/// allocator is locked during a call, so that an implementation must not call the allocator.
class MemoryLog
{
public:
    virtual ~MemoryLog() = default;
    /// `number` names the block as long as the process runs. `stream` encodes the stream and the private pool.
    virtual void taken(std::uint64_t number, Bytes requested, std::uint32_t stream) = 0;
    virtual void returned(std::uint64_t number, Bytes requested, std::uint32_t stream) = 0;
    virtual void refused() = 0; ///< a request had no room
    virtual void emptied() = 0; ///< the program emptied the cache
};

/// An allocator without memory: all addresses are non-canonical, so that any access faults at once. Counts in blocks of
/// 512 bytes, as CUDA's caching allocator does.
class SimulatedAllocator final : public c10::Allocator
{
public:
    SimulatedAllocator();

    c10::DataPtr allocate(std::size_t bytes) override;
    c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
    void copy_data(void*, const void*, std::size_t) const override {}

    /// Creates a shadow: the data of a storage that takes no memory itself but holds `memory`. `onFree` is called at
    /// the shadow's end.
    c10::DataPtr allocateUncounted(Bytes bytes, BlockTag tag, std::shared_ptr<DeviceMemory> memory,
                                   std::function<void()> onFree);

    /// Creates the data of a new storage for memory that autograd held after the end of the old storage, as the same
    /// block.
    c10::DataPtr allocateHeld(Bytes bytes, void* address, BlockTag tag, std::shared_ptr<DeviceMemory> memory);

    /// Resizes a storage as resize_ on CUDA does: allocates, copies and frees the old block. All holders of the storage
    /// then hold the new block.
    void resize(c10::StorageImpl& storage, Bytes bytes);

    /// Does what Tensor.record_stream() does. Work on streams of this device is finished at once: freed memory that
    /// other streams use stays active until the next allocation.
    void recordStream(const c10::DataPtr& data, std::uint32_t stream);

    /// The block behind a storage; null for an empty storage and for other devices.
    static Block* blockOf(const c10::StorageImpl& storage);
    static Block* blockOf(const c10::DataPtr& pointer);

    MemoryStats stats() const;
    void resetPeak();
    /// Limits the device to `capacity` bytes: allocate() then throws c10::OutOfMemoryError when the caching allocator
    /// has no room. Blocks that already exist do not count.
    void setCapacity(Bytes capacity);
    /// The rules of the caching allocator: PyTorch's defaults at first.
    AllocatorRules rules() const;
    /// Sets the rules for later allocations, on a device with a limit. The capacity stays.
    void setRules(AllocatorRules rules);
    void emptyCache();
    /// The values of torch.cuda.memory_stats(); empty on a device without a limit.
    CachingAllocator::Counters counters() const;
    void resetAccumulated();

    void startHistory(const AllocationHistory::Options& options);
    void stopHistory();
    struct Snapshot
    {
        std::vector<CachingAllocator::SegmentState> segments;
        std::vector<AllocationHistory::Entry> entries; ///< oldest first
        std::unordered_map<CachingAllocator::Block, AllocationHistory::Stack> blockStacks; ///< by address
        std::unordered_map<CachingAllocator::Block, AllocationHistory::Stack> segmentStacks;
    };
    /// Returns the segments and the history; empty on a device without a limit. With `isNoted` the history gets an
    /// entry.
    Snapshot snapshot(bool isNoted);
    void setMetadata(std::string text);
    std::string metadata() const;
    /// Sets the function that is called before an allocation fails, in the same thread, with the requested bytes, the
    /// bytes that the program may take in all, and the free bytes of the device; null: none.
    static void onOutOfMemory(void (*tell)(Bytes requested, Bytes allowed, Bytes deviceFree));
    /// Counted blocks that exist now, oldest first.
    std::vector<Block*> liveBlocks() const;

    /// Sets the only observer; null to stop observing.
    void setObserver(std::shared_ptr<BlockObserver> observer);
    /// Sets the only log; null to stop.
    void setLog(std::shared_ptr<MemoryLog> log);

private:
    friend class DeviceMemory;
    static c10::DataPtr hand(Block* block);
    /// Creates a block of 0 bytes, unknown to the observer.
    c10::DataPtr allocateNothing();
    /// Counts `memory` and allocates the block in the caching allocator. Returns false if there is no room.
    bool take(DeviceMemory& memory, std::uint32_t stream, const AllocationHistory::Stack& stack);
    void noteSegment(const CachingAllocator::SegmentEvent& event);
    struct Awaited
    {
        CachingAllocator::Block place = 0; ///< in cache_
        Bytes requested = 0;
        std::uint32_t stream = 0; ///< and pool
    };
    void giveBack(DeviceMemory& memory);
    void free(const Awaited& block, const AllocationHistory::Stack& stack);
    void freeAwaited();
    FreePieces freePieces(const CachingAllocator::OutOfMemory& failure) const;
    /// Reports the failed allocation to the observer, if any, and throws.
    [[noreturn]] void refuse(Bytes bytes, const std::shared_ptr<BlockObserver>& observer,
                             const AllocationHistory::Stack& stack);
    void link(Block* block);
    void append(Block* block);
    void release(Block* block);
    static void freeBlock(void* context);

    mutable std::mutex mutex_;
    std::shared_ptr<BlockObserver> observer_;
    std::shared_ptr<MemoryLog> log_;
    std::uintptr_t nextAddress_;
    MemoryStats stats_;
    Bytes capacity_ = 0;
    std::optional<CachingAllocator> cache_; ///< only on a device with a limit
    std::vector<Awaited> awaited_; ///< freed, but other streams may still use the memory
    AllocationHistory history_;
    AllocationHistory::Stack calling_; ///< stack of the allocation or of the empty_cache() that runs now
    Block* oldest_ = nullptr;
    Block* youngest_ = nullptr;
};

} // namespace headroom::sim
