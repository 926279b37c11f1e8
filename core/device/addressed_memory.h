// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/device/recorded_memory.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

namespace headroom {

/// The memory of a real device, known by what its allocator says of each address. Any thread may tell of it, also under
/// the allocator's own lock: nothing here calls an allocator of the device, and its own lock is not held while the
/// observer is called.
class AddressedMemory final : public RecordedMemory
{
public:
    /// A block of `requested` bytes at `address`, on the stream with that handle. One that is known already is what a
    /// snapshot told of first.
    void allocated(const void* address, Bytes requested, std::uintptr_t stream = 0);
    /// Unknown addresses, such as those from before the first telling, are passed over.
    void freed(const void* address);

    /// The device had no room for so many bytes, and so many were free.
    void refused(Bytes requested, Bytes deviceFree);

    /// The caching allocator took (or gave back, less than 0) so much of the device. The first telling says from when
    /// on it is known.
    void reservedMore(Bytes bytes);

    sim::Block* blockOf(const c10::StorageImpl& storage) override;
    std::vector<sim::Block*> liveBlocks() override;
    /// What is reserved now; none: it is not known.
    std::optional<Bytes> reserved() const;
    /// Told of every change of what is reserved, as long as there is an observer, in the thread that makes it.
    void onReserved(std::function<void(Bytes)> told);
    /// On which a block was allocated: numbered by their first appearance, 0 the default one.
    std::uint32_t streamOf(const sim::Block& block) const;
    void setObserver(sim::BlockObserver* observer) override;

private:
    mutable std::mutex mutex_;
    sim::BlockObserver* observer_ = nullptr;
    std::unordered_map<const void*, std::unique_ptr<sim::Block>> blocks_;
    std::map<std::uintptr_t, sim::Block*> byAge_; ///< by the number that a block has instead of an address
    std::function<void(Bytes)> reservedTold_;
    std::vector<std::uintptr_t> streams_{0}; ///< handles by number
    std::unordered_map<const sim::Block*, std::uint32_t> streamOf_; ///< of blocks that are not on the default one
    std::optional<Bytes> reserved_;
    std::uintptr_t born_ = 0; ///< addresses come again, numbers do not
};

} // namespace headroom
