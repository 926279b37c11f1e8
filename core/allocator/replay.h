// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/allocator/caching_allocator.h"
#include "core/timeline/timeline.h"
#include "core/trace/workspaces.h"

#include <optional>
#include <string>
#include <vector>

namespace headroom {

/// What the caching allocator holds at an instant.
struct AllocatorSample
{
    Bytes requested = 0;
    Bytes allocated = 0;
    Bytes active = 0;
    Bytes reserved = 0;
    Bytes inactiveSplit = 0; ///< free in segments that hold an active block: true fragmentation

    friend bool operator==(const AllocatorSample&, const AllocatorSample&) = default;
};

/// A step as PyTorch's caching allocator lives it.
struct AllocatorRun
{
    CachingAllocator::Stats stats; ///< at its end, with the peaks of the step
    AllocatorSample start;
    std::vector<AllocatorSample> samples; ///< after each change of the timeline; up to the failure when there is one
    AllocatorSample atPeak; ///< where most is reserved; of all such instants the first of those with most in use

    /// A request that the device could not serve: PyTorch raises torch.OutOfMemoryError.
    struct Failure
    {
        std::size_t change = 0; ///< of the timeline; npos: the state before the step does not fit already
        StorageId storage;
        OpId op; ///< invalid between ops
        double ms = 0;
        CachingAllocator::OutOfMemory memory;

        static constexpr std::size_t npos = static_cast<std::size_t>(-1);
    };
    std::optional<Failure> failure;
};

/// What PyTorch's caching allocator hands out and reserves during a step that is repeated, as in training: the
/// timeline's allocations and frees are played twice, the first time on an allocator that holds the state before the
/// step, and the second time, whose samples and peaks are returned, on the cache that the first one left. A step that
/// was imported from a memory snapshot is a stretch of time and is played once. `workspaces` take their blocks beside
/// the tensors'; a convolution for whose workspace there is no room runs without, as PyTorch tries the next algorithm.
AllocatorRun simulateAllocator(const StepTrace& trace, const Timeline& timeline, const AllocatorRules& rules,
                               const Workspaces& workspaces = {});

/// The same without samples.
CachingAllocator::Stats replay(const StepTrace& trace, const Timeline& timeline, AllocatorRules rules = {});

/// PYTORCH_CUDA_ALLOC_CONF of the program, or PYTORCH_ALLOC_CONF, as newer versions call it.
std::string recordedAllocatorSettings(const StepInfo& info);
/// What to know of the rules beside the bytes, the end of a sentence; empty: nothing.
std::string noteOnRules(const AllocatorRules& rules);

/// The failure in one sentence: instant, op and module, block, and the reason.
std::string outOfMemorySentence(const StepTrace& trace, const AllocatorRun::Failure& failure);
/// The reason alone: what was wanted from the device, what it had, and whether free memory lies in too small pieces.
std::string outOfMemoryReason(const CachingAllocator::OutOfMemory& memory);

} // namespace headroom
