// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/simulated_allocator.h"

#include <c10/util/Exception.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <chrono>

namespace headroom::sim {

namespace {

/// Whether PyTorch can unwind frames of C++ on this machine.
bool unwinds()
{
    static const bool can = [] {
        try {
            return torch::CapturedTraceback::gather(/*python=*/false, /*script=*/false, /*cpp=*/true) != nullptr;
        } catch (const c10::Error&) {
            return false;
        }
    }();
    return can;
}

} // namespace

void AllocationHistory::start(const Options& options)
{
    if (options.clears)
        entries_.clear();
    options_ = options;
    stacks_ = options.stacks;
    cpp_ = options.cpp;
    while (entries_.size() > options_.maxEntries)
        entries_.pop_front();
}

void AllocationHistory::stop()
{
    start({.clears = true});
    blocks_.clear();
    segments_.clear();
}

AllocationHistory::Stack AllocationHistory::stack() const
{
    if (stacks_.load() == Stacks::none)
        return nullptr;
    return torch::CapturedTraceback::gather(/*python=*/true, /*script=*/true, cpp_.load() && unwinds());
}

AllocationHistory::Stack AllocationHistory::stackOfFree() const
{
    return stacks_.load() == Stacks::ofFrees ? stack() : nullptr;
}

void AllocationHistory::add(Action action, Address address, Bytes size, std::uint32_t place, const Stack& stack)
{
    Stack shown = stack;
    if (action == Action::freeRequested || action == Action::freeCompleted)
        shown = stack ? stack : stackOfBlock(address);
    else if (action == Action::segmentFree || action == Action::segmentUnmap)
        shown = stack ? stack : stackOfSegment(address);
    if (stack && action == Action::alloc)
        blocks_.insert_or_assign(address, stack);
    else if (stack && action == Action::segmentAlloc)
        segments_.insert_or_assign(address, stack);
    else if (action == Action::freeCompleted)
        blocks_.erase(address);
    else if (action == Action::segmentFree)
        segments_.erase(address);
    if (options_.maxEntries == 0 || (options_.skipped >> static_cast<unsigned>(action) & 1U) != 0)
        return;
    if (entries_.size() == options_.maxEntries)
        entries_.pop_front();
    const bool hasStack = options_.stacks >= Stacks::ofAllocations;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    entries_.push_back({action, address, size, place,
                        std::chrono::duration_cast<std::chrono::microseconds>(now).count(), hasStack ? shown : nullptr,
                        metadata_});
}

AllocationHistory::Stack AllocationHistory::find(const StackByAddress& stacks, Address address)
{
    const auto found = stacks.find(address);
    return found == stacks.end() ? nullptr : found->second;
}

} // namespace headroom::sim
