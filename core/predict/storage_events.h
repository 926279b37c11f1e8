// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <cstdint>
#include <span>
#include <vector>

namespace headroom {

/// The events of a step by storage and by pack, so that a few storages can be replayed without the rest of the step.
/// Built once for a step.
class StorageEvents
{
public:
    explicit StorageEvents(const StepTrace& trace);

    /// Events alloc, free and resize of the storage, and the events of its packs; ascending.
    std::span<const std::uint32_t> of(StorageId storage) const { return byStorage_.of(storage.value); }
    /// Events pack, unpack, unpackEnd and release of the pack; ascending.
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
