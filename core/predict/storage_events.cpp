// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/storage_events.h"

namespace headroom {

namespace {

/// Calls visit(storage, pack, event) for each event of a storage or a pack; the other id is invalid if there is none.
template <class Visit>
void forEachEvent(const StepTrace& trace, Visit visit)
{
    const auto end = static_cast<std::uint32_t>(trace.events.size());
    for (std::uint32_t event = 0; event < end; ++event) {
        const std::uint32_t a = trace.events.a[EventIndex(event)];
        switch (trace.events.kind[EventIndex(event)]) {
        case EventKind::alloc:
        case EventKind::free:
        case EventKind::resize:
            visit(StorageId(a), PackId(), event);
            break;
        case EventKind::pack:
        case EventKind::unpack:
        case EventKind::unpackEnd:
        case EventKind::release:
            visit(trace.packs.storage[PackId(a)], PackId(a), event);
            break;
        default:
            break;
        }
    }
}

} // namespace

StorageEvents::StorageEvents(const StepTrace& trace)
{
    byStorage_.first.assign(trace.storages.size() + 1, 0);
    byPack_.first.assign(trace.packs.size() + 1, 0);
    forEachEvent(trace, [this](StorageId storage, PackId pack, std::uint32_t) {
        if (storage.valid())
            ++byStorage_.first[storage.value + 1];
        if (pack.valid())
            ++byPack_.first[pack.value + 1];
    });
    for (Table* table : {&byStorage_, &byPack_}) {
        for (std::size_t i = 1; i < table->first.size(); ++i)
            table->first[i] += table->first[i - 1];
        table->events.resize(table->first.back());
    }
    std::vector<std::uint32_t> nextOfStorage = byStorage_.first;
    std::vector<std::uint32_t> nextOfPack = byPack_.first;
    forEachEvent(trace, [&](StorageId storage, PackId pack, std::uint32_t event) {
        if (storage.valid())
            byStorage_.events[nextOfStorage[storage.value]++] = event;
        if (pack.valid())
            byPack_.events[nextOfPack[pack.value]++] = event;
    });
}

} // namespace headroom
