// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/allocator/caching_allocator.h"
#include "core/base/bytes.h"
#include "core/device/simulated_device.h"

#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace headroom::sim {

/// What an observer remembers of a block. `epoch` tells its own notes from those of an earlier observer.
struct BlockTag
{
    std::uint32_t epoch = 0;
    std::uint32_t id = 0;
};

/// What a storage takes of the device's memory. Its last holder gives it back. Holders are the storage itself and,
/// while a step is recorded, autograd's saved tensors, which then no longer hold the storage
/// (core/record/shadow_save.h).
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

private:
    friend class SimulatedAllocator;
    /// Swaps the contents; the holders stay.
    void exchange(DeviceMemory& other) noexcept;

    Bytes requested_;
    bool counted_ = false; ///< the device had room for it
    std::optional<CachingAllocator::Block> place_; ///< in the caching allocator, on a device with a limit
};

/// One allocation on the simulated device: the context of a storage's data pointer.
struct Block
{
    void* address = nullptr; ///< unique while the process lives, never readable
    Bytes requested = 0;
    std::uint32_t stream = 0; ///< on which it was allocated, and on which alone its memory is used again
    bool counted = true; ///< false: a shadow, which takes no memory of its own
    BlockTag tag;
    std::shared_ptr<DeviceMemory> memory; ///< of a shadow that of the storage for which it stands
    std::function<void()> onFree; ///< only of shadows: called when the storage dies
    c10::Storage values; ///< on the CPU, of a small block whose contents are known (known_values.h)
    Block* previous = nullptr; ///< list of counted blocks, oldest first
    Block* next = nullptr;
};

/// Told of every change of the device's memory, in the thread that makes it.
class BlockObserver
{
public:
    virtual ~BlockObserver() = default;
    virtual void allocated(Block& block) = 0;
    virtual void freed(Block& block) = 0;
    /// A storage moves from `old` to `replacement`, of which allocated() was called; freed(old) follows. Both exist for
    /// this instant, as on a GPU, where the contents are copied.
    virtual void moved(Block& old, Block& replacement) = 0;
    /// The device had no room for so many bytes: `deviceFree` is what nobody has reserved of it.
    virtual void refused(Bytes requested, Bytes deviceFree) = 0;
};

/// Hands out memory that is not there: addresses are non-canonical, so that an access faults at once. It counts in the
/// CUDA caching allocator's blocks of 512 bytes.
class SimulatedAllocator final : public c10::Allocator
{
public:
    SimulatedAllocator();

    c10::DataPtr allocate(std::size_t bytes) override;
    c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
    void copy_data(void*, const void*, std::size_t) const override {}

    /// A shadow: a storage on the device that takes no memory but holds `memory`. `onFree` is called when it dies.
    c10::DataPtr allocateUncounted(Bytes bytes, BlockTag tag, std::shared_ptr<DeviceMemory> memory,
                                   std::function<void()> onFree);

    /// Memory whose storage died stands in a storage again, as the same block: what autograd held of a recorded step.
    c10::DataPtr allocateHeld(Bytes bytes, void* address, BlockTag tag, std::shared_ptr<DeviceMemory> memory);

    /// Gives a storage another size, as resize_ on CUDA does: allocate, copy, free the old one. Its
    /// holders hold the new one from then on.
    void resize(c10::StorageImpl& storage, Bytes bytes);

    /// The block behind a storage; null for an empty one and for other devices.
    static Block* blockOf(const c10::StorageImpl& storage);

    MemoryStats stats() const;
    void resetPeak();
    /// From now on allocate() throws c10::OutOfMemoryError when the caching allocator has no room on a device of this
    /// size. Blocks that exist already do not count.
    void setCapacity(Bytes capacity);
    void emptyCache();
    /// What torch.cuda.memory_stats() and memory_snapshot() tell; nothing on a device without a limit.
    CachingAllocator::Counters counters() const;
    std::vector<CachingAllocator::SegmentState> segments() const;
    void resetAccumulated();
    /// Counted blocks that exist now, oldest first.
    std::vector<Block*> liveBlocks() const;

    /// At most one; null to stop observing.
    void setObserver(BlockObserver* observer);

private:
    friend class DeviceMemory;
    static c10::DataPtr hand(Block* block);
    /// A block of no bytes, of which no observer is told.
    c10::DataPtr allocateNothing();
    /// False: there is no room.
    bool take(DeviceMemory& memory, std::uint32_t stream);
    void giveBack(DeviceMemory& memory);
    /// Tells the observer, if there is one, and throws.
    [[noreturn]] void refuse(Bytes bytes, BlockObserver* observer);
    void link(Block* block);
    void append(Block* block);
    void release(Block* block);
    static void freeBlock(void* context);

    mutable std::mutex mutex_;
    BlockObserver* observer_ = nullptr;
    std::uintptr_t nextAddress_;
    MemoryStats stats_;
    Bytes capacity_ = 0;
    std::optional<CachingAllocator> cache_; ///< only on a device with a limit
    Block* oldest_ = nullptr;
    Block* youngest_ = nullptr;
};

} // namespace headroom::sim
