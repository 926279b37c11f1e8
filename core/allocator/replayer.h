// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/allocator/caching_allocator.h"
#include "core/allocator/replay.h"
#include "core/trace/step_trace.h"
#include "core/trace/workspaces.h"

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace headroom {

/// The caching allocator with the blocks of a step's storages, for simulateAllocator(). A storage has two blocks at a
/// time only while the storage and a recomputed copy exist together.
class Replayer
{
public:
    /// `workspaces` must outlive the Replayer.
    Replayer(const StepTrace& trace, const AllocatorRules& rules, const Workspaces& workspaces);

    /// A block of the allocator. `place`: stream and private pool (graph_ops.h).
    struct Held
    {
        static constexpr auto none = std::numeric_limits<CachingAllocator::Block>::max(); ///< a value of `block`

        CachingAllocator::Block block = none;
        Bytes bytes = 0; ///< rounded to the allocator's block
        std::uint32_t place = 0;
    };
    /// Blocks with the same key serve each other's requests.
    using Key = std::pair<Bytes, std::uint32_t>;
    static Key keyOf(const Held& held) { return {held.bytes, held.place}; }

    /// Allocates a block of a storage; returns false if the device is full.
    bool take(StorageId storage, Bytes requested, Bytes rounded, std::uint32_t place);
    /// Allocates a block that belongs to no storage; nullopt: the device is full.
    std::optional<Held> take(Bytes requested, Bytes rounded, std::uint32_t place);
    /// Makes the block that of a storage.
    void adopt(StorageId storage, const Held& held);
    void free(const Held& held);
    void emptyCache() { allocator_.releaseUnused(); }

    /// Allocates the workspaces that libraries keep from the ops up to `op`; returns false if the device is full.
    bool keepWorkspacesUpTo(OpId op);
    /// Allocates and frees the workspace of an op, in the place of the storage that the op created.
    void useWorkspace(OpId op, StorageId storage);
    /// Allocates and frees the scratch memory of an op, after the op's results; returns false if the device is full.
    bool useScratch(OpId op, StorageId storage);

    /// Frees the last block of a storage. `until`: another stream uses the block until the change with this index;
    /// nullopt: no other stream uses the block.
    void giveBack(StorageId storage, std::optional<std::size_t> until = {});
    /// Frees the blocks that other streams used until the change at this index or an earlier change.
    void completeUntil(std::size_t change);
    /// Allocates the new block of a resized storage, then frees the old block, since the content is copied. Returns
    /// false if the device is full.
    bool resize(StorageId storage, Bytes rounded, std::uint32_t place);
    void rename(StorageId from, StorageId to);

    std::uint32_t placeOf(StorageId storage) const { return places_.size() > 0 ? places_[storage] : 0; }
    /// Returns the bytes of the storage's last block; 0: no block.
    Bytes size(StorageId storage) const;
    /// The last block of each storage that has a block, by storage.
    std::vector<std::pair<StorageId, Held>> live() const;

    void resetStats();
    CachingAllocator::Stats stats() const { return allocator_.stats(); }
    const CachingAllocator& allocator() const { return allocator_; }
    /// Bytes in use; all bytes of private pools count as in use.
    Bytes held() const;
    /// What decides how later steps run: all blocks of the allocator, and the last block of each storage.
    std::vector<std::uint64_t> layout() const;
    AllocatorSample sample() const;

private:
    Held takeAway(StorageId storage); ///< takes the last block from the storage
    void leavePool(const Held& held);
    std::optional<CachingAllocator::Block> allocate(Bytes bytes, std::uint32_t place);

    StepTrace::Column<StorageId, std::uint32_t> places_;
    CachingAllocator allocator_;
    const Workspaces& workspaces_;
    Bytes poolBytes_; ///< bytes of private pools: no other request gets the bytes
    Bytes inPools_ = 0; ///< bytes of blocks in private pools
    std::size_t kept_ = 0; ///< number of workspaces in workspaces_.kept that were allocated
    std::vector<Held> live_; ///< by storage: the last block, or Held::none
    std::unordered_map<StorageId, std::vector<Held>> older_; ///< other blocks of a storage with several, oldest first
    std::multimap<std::size_t, Held> awaited_; ///< freed blocks that other streams use, by the change that ends the use
};

} // namespace headroom
