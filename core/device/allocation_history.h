// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/allocator/allocator_action.h"
#include "core/allocator/caching_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

namespace headroom::sim {

/// What torch.cuda.memory._record_memory_history() keeps: the caching allocator's actions, and stacks. Not
/// thread-safe except for stack() and stackOfFree(): SimulatedAllocator calls it under its lock.
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

    /// The `context` of _record_memory_history(): each adds to the one before.
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

    /// Returns the stack of this thread if stacks are kept. Takes the GIL, as PyTorch does, also where a tensor is
    /// freed, which Python does without the GIL: the caller holds no lock.
    Stack stack() const;
    Stack stackOfFree() const; ///< of a free, or of empty_cache()

    /// As PyTorch does, a free without a stack takes that of its allocation.
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

} // namespace headroom::sim
