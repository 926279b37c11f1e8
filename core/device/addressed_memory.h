// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/device/simulated_allocator.h"

#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

namespace headroom {

/// The memory of the device of a recorded step. Finds the block behind a storage and reports changes to an observer.
class RecordedMemory
{
public:
    virtual ~RecordedMemory() = default;
    /// Returns the block behind a storage; null for a storage that is not on the device.
    virtual sim::Block* blockOf(const c10::StorageImpl& storage) = 0;
    /// Blocks that exist now, oldest first.
    virtual std::vector<sim::Block*> liveBlocks() = 0;
    /// Sets the only observer; null to stop observing.
    virtual void setObserver(std::shared_ptr<sim::BlockObserver> observer) = 0;
};

/// The memory of a real device by the allocator's reports, block by block, keyed by address. Any thread may report,
/// also under the allocator's own lock: this class calls no device allocator, and calls the observer only after its own
/// lock is released.
class AddressedMemory final : public RecordedMemory
{
public:
    /// Adds a block of `requested` bytes at `address`, allocated on the stream with handle `stream`. A known address
    /// keeps its first block, as a snapshot reported the block.
    void allocated(const void* address, Bytes requested, std::uintptr_t stream = 0);
    /// Removes the block at `address`. Unknown addresses, such as those allocated before the first report, are ignored.
    void freed(const void* address);

    /// Reports an allocation of `requested` bytes that failed while the device had `deviceFree` bytes free.
    void refused(Bytes requested, Bytes deviceFree);

    /// Adds `bytes` to the memory that the caching allocator has reserved; a negative number is released memory.
    /// The reserved total is known from the first call on.
    void reservedMore(Bytes bytes);

    sim::Block* blockOf(const c10::StorageImpl& storage) override;
    std::vector<sim::Block*> liveBlocks() override;
    /// Bytes reserved now; nullopt before the first call of reservedMore().
    std::optional<Bytes> reserved() const;
    /// The number of the stream of a block's allocation. Streams are numbered by first appearance; 0 is the default
    /// stream.
    std::uint32_t streamOf(const sim::Block& block) const;
    void setObserver(std::shared_ptr<sim::BlockObserver> observer) override;

private:
    mutable std::mutex mutex_;
    std::shared_ptr<sim::BlockObserver> observer_;
    std::unordered_map<const void*, std::unique_ptr<sim::Block>> blocks_;
    std::map<std::uintptr_t, sim::Block*> byAge_; ///< by Block::address, here a serial number
    std::vector<std::uintptr_t> streams_{0}; ///< stream handles, indexed by stream number
    std::unordered_map<const sim::Block*, std::uint32_t> streamOf_; ///< only blocks of other streams than 0
    std::optional<Bytes> reserved_;
    std::uintptr_t born_ = 0; ///< last serial number; unlike addresses, serial numbers are not reused
};

} // namespace headroom
