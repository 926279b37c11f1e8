// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/profile/profile_ops.h"
#include "core/trace/step_trace_builder.h"

#include <cstdint>
#include <limits>
#include <vector>

namespace headroom {

/// The blocks of one device's allocator during a step, from profile_memory.
class BlockLives
{
public:
    static constexpr Profile::Nanoseconds never = std::numeric_limits<Profile::Nanoseconds>::max();

    /// `device` is the number of a GPU, or -1 for the CPU.
    BlockLives(const Profile& profile, const ProfileWindow& window, const ProfiledStep& step, int device);

    bool empty() const noexcept { return blocks_.empty(); }
    bool knowsStart() const noexcept { return knowsStart_; } ///< whether the allocated bytes at its start are known
    Bytes allocatedPeak() const noexcept { return allocatedPeak_; }
    Bytes reservedPeak() const noexcept { return reservedPeak_; } ///< -1: not known
    Bytes reservedAtStart() const noexcept { return empty() ? -1 : blocks_.front().reserved; }

    void start(StepTraceBuilder& builder); ///< allocates the blocks that exist at the start of the step
    /// Adds the allocations and frees before `end` to `builder`, attributed to `op`.
    void playUntil(Profile::Nanoseconds end, StepTraceBuilder& builder, OpId op);

private:
    struct Life
    {
        Bytes bytes = 0;
        Phase made = Phase::forward;
        std::uint32_t madeIn = 0; ///< number of phase changes before the allocation
        bool freedSoon = false; ///< freed before the next phase change
        bool freed = false;
        StorageId storage;
    };

    void look(const ProfiledStep& step);
    static std::uint64_t key(const Profile::Block& block);

    std::vector<Profile::Block> blocks_;
    std::vector<std::size_t> lifeOf_; ///< by event: index in lives_; `npos`: none
    std::vector<Life> lives_;
    std::size_t before_ = 0; ///< index in lives_ of the first block from before the step
    Bytes rest_ = 0; ///< bytes allocated before the step and not freed in it
    std::size_t next_ = 0;
    Bytes allocatedPeak_ = 0;
    Bytes reservedPeak_ = -1;
    bool knowsStart_ = true;
};

} // namespace headroom
