// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <cstdint>
#include <span>
#include <vector>

namespace headroom {

/// The events of a step by the storage and by the saved tensor that they are about: what lets a few storages be
/// replayed without the rest of the step. Built once for a step.
class StorageEvents
{
public:
    explicit StorageEvents(const StepTrace& trace);

    /// alloc, free, resize, and the events of packs of the storage; ascending.
    std::span<const std::uint32_t> of(StorageId storage) const { return byStorage_.of(storage.value); }
    /// pack, unpack, unpackEnd, release; ascending.
    std::span<const std::uint32_t> of(PackId pack) const { return byPack_.of(pack.value); }

private:
    struct Table
    {
        std::vector<std::uint32_t> first;
        std::vector<std::uint32_t> events;
        std::span<const std::uint32_t> of(std::uint32_t id) const
        {
            return std::span(events).subspan(first[id], first[id + 1] - first[id]);
        }
    };
    Table byStorage_;
    Table byPack_;
};

} // namespace headroom
