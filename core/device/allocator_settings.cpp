// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/allocator_settings.h"

#include "core/device/simulated_state.h"

#include <c10/core/AllocatorConfig.h>
#include <c10/util/Exception.h>
#include <c10/util/env.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <string>

namespace headroom::sim {
namespace {

using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;

std::atomic<bool> applied{false};

/// The program may have set the variables after libtorch read them, and before the card allocates.
void readEnvironment()
{
    for (const char* const name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
        if (const auto settings = c10::utils::get_env(name)) {
            c10::CachingAllocator::setAllocatorSettings(*settings);
            return;
        }
    }
}

/// `rules` with PyTorch's settings. PyTorch keeps some settings that a later text does not name.
AllocatorRules withPyTorchsSettings(AllocatorRules rules)
{
    const auto bytes = [](std::size_t size) {
        return size == std::numeric_limits<std::size_t>::max() ? AllocatorRules::unlimited : static_cast<Bytes>(size);
    };
    rules.largeSegment = bytes(Config::large_segment_size());
    rules.maxSplit = bytes(Config::max_split_size());
    rules.maxNonSplitRounding = bytes(Config::max_non_split_rounding_size());
    rules.expandableSegments = Config::use_expandable_segments();
    rules.garbageCollection = Config::garbage_collection_threshold();
    const std::vector<std::size_t>& divisions = Config::roundup_power2_divisions();
    const std::size_t known = std::min(divisions.size(), rules.powerOfTwoDivisions.size());
    std::transform(divisions.begin(), divisions.begin() + static_cast<std::ptrdiff_t>(known),
                   rules.powerOfTwoDivisions.begin(),
                   [](std::size_t count) { return static_cast<std::uint32_t>(count); });
    return rules;
}

} // namespace

void applyAllocatorSettings()
{
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    const bool isFirst = !applied;
    if (isFirst)
        readEnvironment();
    SimulatedAllocator& allocator = simulatedState().allocator;
    AllocatorRules rules = withPyTorchsSettings(allocator.rules());
    const Result<AllocatorRules> read = withAllocatorSettings(rules, Config::last_allocator_settings());
    TORCH_CHECK_VALUE(read.ok(), read.error().message);
    if (isFirst && rules.memoryFraction == 0) // PyTorch reads this variable at the start only
        rules.memoryFraction = read->memoryFraction;
    allocator.setRules(rules);
    applied = true;
}

void applyAllocatorSettingsOnce()
{
    if (!applied)
        applyAllocatorSettings();
}

} // namespace headroom::sim
