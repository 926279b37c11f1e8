// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/device/simulated_allocator.h"
#include "core/timeline/timeline.h"

#include <vector>

namespace headroom {

/// Memory of a step as allocations see it. What is freed between two of them comes in no order that could be told apart
/// by a peak, so only the level after each allocation counts.
struct MemoryLevels
{
    struct Allocation
    {
        Bytes bytes = 0; ///< rounded
        Bytes live = 0; ///< afterwards, everything on the device
        bool operator==(const Allocation&) const = default;
    };
    Bytes start = 0;
    std::vector<Allocation> allocations;
    Bytes end = 0;
    Bytes peak() const;
};

/// The same of a predicted or recorded step; `changes` are the places of the allocations in the timeline's.
MemoryLevels levelsOf(const Timeline& timeline, std::vector<std::size_t>* changes = nullptr);

/// Watches the simulated device's memory while it lives, without any of the recorder's doing: what a step really takes.
/// No recorder may be active.
class ExecutedMemory final : public sim::BlockObserver
{
public:
    ExecutedMemory();
    ~ExecutedMemory() override;
    ExecutedMemory(const ExecutedMemory&) = delete;
    ExecutedMemory& operator=(const ExecutedMemory&) = delete;

    MemoryLevels levels() const;

    void allocated(sim::Block& block) override;
    void freed(sim::Block& block) override;
    void moved(sim::Block& old, sim::Block& replacement) override;

private:
    void change(Bytes delta);

    MemoryLevels levels_;
    Bytes live_ = 0;
    const sim::Block* movedAway_ = nullptr; ///< counted as gone before it is freed
};

} // namespace headroom
