// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/device/recorded_memory.h"

#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace headroom {

/// The memory of a real device, known by what its allocator says of each address. Any thread may tell of it, also under
/// the allocator's own lock: nothing here calls an allocator of the device, and its own lock is not held while the
/// observer is called.
class AddressedMemory final : public RecordedMemory
{
public:
    /// A block of `requested` bytes at `address`. One that is known already is what a snapshot told of first.
    void allocated(const void* address, Bytes requested);
    /// Unknown addresses, such as those from before the first telling, are passed over.
    void freed(const void* address);

    sim::Block* blockOf(const c10::StorageImpl& storage) override;
    std::vector<sim::Block*> liveBlocks() override;
    void setObserver(sim::BlockObserver* observer) override;

private:
    mutable std::mutex mutex_;
    sim::BlockObserver* observer_ = nullptr;
    std::unordered_map<const void*, std::unique_ptr<sim::Block>> blocks_;
    std::map<std::uintptr_t, sim::Block*> byAge_; ///< by the number that a block has instead of an address
    std::uintptr_t born_ = 0; ///< addresses come again, numbers do not
};

} // namespace headroom
