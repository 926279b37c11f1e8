// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/timeline/timeline.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>

namespace headroom {

Bytes total(const CategoryBytes& bytes) noexcept
{
    return std::accumulate(bytes.begin(), bytes.end(), Bytes{0});
}

namespace {

/// Storages by who holds them, up to the mark stepBegin: what Timeline::start sums up.
std::vector<LiveBlock> aliveAtStart(const StepTrace& trace)
{
    std::vector<LiveBlock> blocks(trace.storages.size());
    std::vector<int> holders(trace.storages.size(), 0);
    for (std::size_t i = 0; i < trace.events.size(); ++i) {
        const EventIndex event(static_cast<std::uint32_t>(i));
        const EventKind kind = trace.events.kind[event];
        const std::uint32_t a = trace.events.a[event];
        const std::uint32_t b = trace.events.b[event];
        if (kind == EventKind::mark && static_cast<Mark>(a) == Mark::stepBegin)
            break;
        if (kind == EventKind::alloc) {
            const StorageId storage(a);
            blocks[a] = {storage, trace.storages.bytes[storage], trace.storages.category[storage],
                         trace.storages.creator[storage], false};
            holders[a] = 1;
        } else if (kind == EventKind::free) {
            --holders[a];
        } else if (kind == EventKind::retype) {
            blocks[a].category = static_cast<Category>(b);
        } else if (kind == EventKind::resize) {
            blocks[a].bytes = trace.resizes.bytes[b];
        } else if (kind == EventKind::pack || kind == EventKind::unpack || kind == EventKind::unpackEnd
                   || kind == EventKind::release) {
            const bool holds = kind == EventKind::pack || kind == EventKind::unpack;
            if (const StorageId saved = trace.packs.storage[PackId(a)]; saved.valid())
                holders[saved.value] += holds ? 1 : -1;
        }
    }
    for (std::size_t i = 0; i < blocks.size(); ++i)
        if (holders[i] == 0)
            blocks[i] = {};
    return blocks;
}

} // namespace

std::vector<LiveBlock> liveBlocks(const StepTrace& trace, const Timeline& timeline, std::size_t count)
{
    // Every storage may be alive twice, the recorded one and a recomputed copy; 0 bytes: it is not.
    const std::size_t storages = trace.storages.size();
    std::vector<LiveBlock> blocks = aliveAtStart(trace);
    blocks.resize(2 * storages);
    for (const MemoryChange& change : std::span(timeline.changes).first(std::min(count, timeline.changes.size()))) {
        LiveBlock& block = blocks[change.storage.value + (change.recomputed ? storages : 0)];
        const Bytes bytes = block.bytes + change.delta;
        if (change.delta > 0)
            block = {change.storage, bytes, change.category, trace.storages.creator[change.storage], change.recomputed};
        block.bytes = bytes;
    }
    std::erase_if(blocks, [](const LiveBlock& block) { return block.bytes == 0; });
    std::ranges::stable_sort(blocks, std::ranges::greater(), &LiveBlock::bytes);
    return blocks;
}

} // namespace headroom
