// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/allocator/replay.h"
#include "core/base/error.h"
#include "core/cost/roofline.h"
#include "core/policy/policy.h"
#include "core/timeline/timeline.h"

#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// The memory of a GPU for a training run, as available to PyTorch's caching allocator.
struct Card
{
    std::string name; ///< of the GPU (`h100-80gb`); empty: a size
    std::string title; ///< as the GPU calls itself; of a size, the size
    AllocatorRules rules; ///< settings, and capacity: the bytes that the allocator may reserve
    Workspaces workspaces; ///< the libraries' blocks of the allocator during the step; none for a size
    Bytes margin = 0; ///< bytes that a plan leaves free, as the user wants

    /// Bytes that the allocator may reserve: the capacity, or the program's share of the GPU; without the margin.
    Bytes given() const noexcept;

    /// The same without workspaces; at least 1.
    Bytes forTensors() const noexcept;
};

/// Sizes of steps, relative to the recorded step. If the program's steps differ in size (otherEarlierSteps), a plan has
/// to run with steps of the following sizes in turn: the smallest; the recorded size, 1; a size that exceeds the
/// largest so far by the range of all sizes; the mean of the first two; the mean of the second and the third. Empty:
/// the steps do not differ.
std::vector<double> sizesOfSteps(const StepTrace& step);

/// The GPU for a step: the memory without CUDA's context and NCCL's buffers, under PYTORCH_CUDA_ALLOC_CONF `settings`.
/// Error (badInput): wrong settings; the sentence names the setting.
Result<Card> cardFor(const DeviceSpec& gpu, const StepTrace& step, std::string_view settings);
/// The card `text`: the name of a GPU, or a size such as 21GiB, as memory for the allocator. Without `settings`, the
/// settings of the recorded program count. Error (badInput): neither a known GPU nor a size, wrong settings.
Result<Card> cardFor(std::string_view text, const StepTrace& step, const std::optional<std::string>& settings);

/// A training run on a card, from the first step until all repeats (simulateAllocator).
struct CardRun
{
    bool runs = false;
    Bytes reservedPeak = 0; ///< most bytes of segments, workspaces included; of a run that fails, up to there
    Bytes reservedWithoutWorkspaces = 0; ///< most bytes of segments if no block of the allocator is a workspace
    Bytes left = 0; ///< what the card gives, margin included, without reservedPeak
    std::int64_t retries = 0; ///< times in a step that the card was full and unused segments went back
    bool repeats = true; ///< the run was followed until segments repeat
    bool wasFull = false; ///< the card was full in some step, and segments went back
    int failedStep = 0; ///< the step that runs out of memory, from 1; 0: none
    std::string reason; ///< where and why, as a sentence without an end; empty: the training runs
    std::optional<AllocatorRun::Failure> failure; ///< the request without room; nullopt: the training runs
    /// What the answer rests on and the recording does not show, a sentence each without an end.
    std::vector<std::string> assumptions;
};

/// Notes in a policy how training under the policy runs on the card, and the settings of the allocator that the user
/// chose. `leastMemory` 0: not known.
void noteCard(Policy& policy, const Card& card, const CardRun& run, Bytes leastMemory,
              const std::optional<std::string>& chosenSettings);

/// The card and the run as JSON, as `torch-headroom plan --card --json` prints `card`.
nlohmann::ordered_json cardRunJson(const Card& card, const StepTrace& step, const CardRun& run);

/// Runs the step under a plan's timeline on the card. Libraries' workspaces lie between the program's blocks, and the
/// place depends on unrecorded events (another thread's first product). A step counts as running only if the step runs
/// in all of these cases: with workspaces where the recorded ops ask for workspaces, without workspaces but with as
/// many bytes less, and without workspaces. All cases leave the margin free, and run with steps of other sizes
/// (sizesOfSteps) in turn, too. Stopped by `stop`, the result is of no use.
CardRun runOnCard(const Card& card, const StepTrace& step, const Timeline& timeline, const std::stop_token& stop = {});

/// The least capacity, to 2 MiB and margin included, for a training run of the timeline on a card with the settings and
/// workspaces of `card`; the least share of the GPU in bytes, if the program has a share (per_process_memory_fraction).
/// With less memory PyTorch gives unused segments back, so that a run may fit below its reserved peak. For a large step
/// the search ends after ten seconds, and the result is a capacity that is enough.
Bytes leastMemory(Card card, const StepTrace& step, const Timeline& timeline);

/// The caching allocator's memory for the step: as the file has it, or replayed under the program's own settings.
struct OwnAllocator
{
    std::string settings;
    std::string leftOut; ///< why the settings are not applied; empty: applied
    AllocatorRules rules;
    CachingAllocator::Stats stats;
    bool activeMeasured = false; ///< the file of a real device has the peak; otherwise the peak is replayed
    bool reservedMeasured = false;
};
OwnAllocator ownAllocator(const StepTrace& trace, const Timeline& timeline);

/// The GPU that the step was recorded for, with the recorded program's settings of the allocator; nullopt: the GPU or a
/// setting is unknown.
std::optional<Card> recordedCard(const StepTrace& trace);

} // namespace headroom
