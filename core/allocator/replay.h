// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/allocator/caching_allocator.h"
#include "core/timeline/timeline.h"
#include "core/trace/workspaces.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace headroom {

/// Bytes that the caching allocator holds at a moment.
struct AllocatorSample
{
    Bytes requested = 0;
    Bytes allocated = 0;
    Bytes active = 0;
    Bytes reserved = 0;
    Bytes inactiveSplit = 0; ///< free bytes in segments that hold an active block: true fragmentation

    friend bool operator==(const AllocatorSample&, const AllocatorSample&) = default;
};

/// The course of a training run in the caching allocator. The run ends with the step after which all repeats, or with
/// the step that does not fit.
struct AllocatorRun
{
    int step = 1; ///< number of the last step, from 1; all other figures are of this step
    bool repeats = false; ///< the next step would begin with the same blocks as an earlier step
    CachingAllocator::Stats stats; ///< at the end of the step, with peaks of the step; `reservedPeak` is of all steps
    bool wasFull = false; ///< the device was full in some step: a device with more memory reserves other bytes
    AllocatorSample start;
    std::vector<AllocatorSample> samples; ///< after each change of the timeline, up to a failure
    Bytes mostHeld = 0; ///< most bytes in use at once; all bytes of private pools count as in use
    AllocatorSample atPeak; ///< the sample with the most reserved bytes, and the most active bytes among equals

    /// A request that does not fit on the device: PyTorch raises torch.OutOfMemoryError.
    struct Failure
    {
        std::size_t change = 0; ///< index in Timeline::changes; npos: before the step begins, as in an evaluation
        StorageId storage;
        OpId op; ///< invalid between ops
        double ms = 0;
        CachingAllocator::OutOfMemory memory;

        static constexpr std::size_t npos = static_cast<std::size_t>(-1);
    };
    std::optional<Failure> failure;
};

/// Simulates PyTorch's caching allocator during a training run that repeats the recorded step. The first step begins
/// without gradients and optimizer state (FirstStep), each later step on the cache that the step before left. The run
/// ends when a step would begin with the same blocks as an earlier step, or after 24 steps: on a device so full that
/// segments go back, the layout may change for long.
///
/// What the program did before training and between two steps (StepTrace::Outside), such as an evaluation, is played
/// there. The order matters: optimizer state is made in the first step, in the free blocks that activations left. A
/// step imported from a memory snapshot is played once, from the state before the step. `workspaces` get blocks too. A
/// convolution runs without a workspace that does not fit, as PyTorch tries the next algorithm. Stopped by `stop`, the
/// run is of no use.
///
/// `sizes`: the sizes of the steps in turn, relative to the recorded step. Activations and temporaries are so many
/// times as large, to approximate a step of another sequence length. At most three steps of each size are played.
/// Empty: every step has the recorded size.
AllocatorRun simulateAllocator(const StepTrace& trace, const Timeline& timeline, const AllocatorRules& rules,
                               const Workspaces& workspaces = {}, const std::stop_token& stop = {},
                               const std::vector<double>& sizes = {});

/// Returns the program's PYTORCH_CUDA_ALLOC_CONF (PYTORCH_ALLOC_CONF in newer versions); empty: not recorded.
std::string recordedAllocatorSettings(const StepInfo& info);
/// Explains, as a part of a sentence, why the active and reserved bytes of a timeline are an estimate; empty: the bytes
/// are exact.
std::string noteOnActive(const Timeline& timeline);
/// Explains, as the end of a sentence, a rule without effect; empty: every rule has an effect.
std::string noteOnRules(const AllocatorRules& rules);

/// Describes the failure in a sentence: time, op and module, block, and the reason.
std::string outOfMemorySentence(const StepTrace& trace, const AllocatorRun::Failure& failure);
/// Describes the reason alone: the bytes that were requested from the device, the device's free bytes, and whether the
/// free memory is in pieces that are too small.
std::string outOfMemoryReason(const CachingAllocator::OutOfMemory& memory);
/// The failure as JSON, as `torch-headroom allocator --json` prints `out_of_memory`.
nlohmann::ordered_json outOfMemoryJson(const StepTrace& trace, const AllocatorRun::Failure& failure);

} // namespace headroom
