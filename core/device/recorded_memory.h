// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/device/simulated_allocator.h"

#include <c10/core/StorageImpl.h>

#include <memory>
#include <vector>

namespace headroom {

/// The memory of the device on which a step is recorded: finds the block behind a storage and reports changes to an
/// observer.
class RecordedMemory
{
public:
    virtual ~RecordedMemory() = default;
    /// Returns the block behind a storage; null for a storage that is not on the device.
    virtual sim::Block* blockOf(const c10::StorageImpl& storage) = 0;
    /// Blocks that exist now, oldest first.
    virtual std::vector<sim::Block*> liveBlocks() = 0;
    /// At most one; null to stop observing.
    virtual void setObserver(std::shared_ptr<sim::BlockObserver> observer) = 0;
};

} // namespace headroom
