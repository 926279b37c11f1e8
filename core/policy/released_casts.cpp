// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/released_casts.h"

#include <algorithm>

namespace headroom {
namespace {

/// Adds the stretches from `begin` to `end` before autograd unpacks the storage and after it has released it.
void addWithoutAutograd(const StepTrace& trace, const StorageEvents& events, StorageId storage, std::uint32_t begin,
                        std::uint32_t end, std::vector<PartDeviations::Stretch>& stretches)
{
    std::uint32_t asked = end;
    std::uint32_t released = end;
    for (const std::uint32_t event : events.of(storage)) {
        const EventKind kind = trace.events.kind[EventIndex(event)];
        if (kind == EventKind::unpack)
            asked = std::min(asked, event);
        else if (kind == EventKind::release)
            released = event;
    }
    const Bytes bytes = trace.storages.bytes[storage];
    if (begin < asked)
        stretches.push_back({begin, asked, bytes});
    if (std::max(released, asked) < end)
        stretches.push_back({std::max(released, asked), end, bytes});
}

} // namespace

std::vector<PartDeviations::Stretch> castsThatMayBeGone(const StepModel& model, const StorageEvents& events)
{
    const StepTrace& trace = *model.trace();
    const std::vector<OpId>& casts = model.index().casts;
    std::vector<PartDeviations::Stretch> gone;
    std::uint32_t firstUnpack = StepIndex::never; // since the oldest open cast
    std::vector<std::uint32_t> open; // live casts
    for (std::uint32_t event = 0; !casts.empty() && event < trace.events.size(); ++event) {
        const std::uint32_t a = trace.events.a[EventIndex(event)];
        const EventKind kind = trace.events.kind[EventIndex(event)];
        if (kind == EventKind::unpack && !open.empty())
            firstUnpack = std::min(firstUnpack, event);
        else if (kind == EventKind::alloc && casts[a].valid())
            open.push_back(a);
        else if (kind == EventKind::free && std::erase(open, a) > 0) {
            if (firstUnpack != StepIndex::never)
                addWithoutAutograd(trace, events, StorageId(a), firstUnpack, event, gone);
            if (open.empty())
                firstUnpack = StepIndex::never;
        }
    }
    return gone;
}

} // namespace headroom
