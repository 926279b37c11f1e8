// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/device/simulated_allocator.h"
#include "core/predict/memory_levels.h"

namespace headroom {

/// Measures the memory of a step on the simulated device without the recorder, by observing the allocator. No recorder
/// may be active during the measurement.
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
    void refused(Bytes, Bytes, const sim::FreePieces&) override {}
    void reserved(Bytes) override {}

private:
    void change(Bytes delta);

    MemoryLevels levels_;
    Bytes live_ = 0;
    const sim::Block* movedAway_ = nullptr; ///< old block of a resized storage, which moved() has subtracted
};

} // namespace headroom
