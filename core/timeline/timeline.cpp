// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/timeline/timeline.h"

#include "core/trace/memory_event.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <string>

namespace headroom {

Bytes total(const CategoryBytes& bytes) noexcept
{
    return std::accumulate(bytes.begin(), bytes.end(), Bytes{0});
}

namespace {

/// The Memory of replays that keeps the state of each storage.
struct RecordedMemory : TimelessMemory
{
    void hold(std::uint32_t storage) { held[storage].hold(); }
    void drop(std::uint32_t storage) { held[storage].drop(); }
    void resize(std::uint32_t storage, Bytes bytes) { held[storage].resize(bytes); }
    void retype(StorageId storage, Category category) { categories[storage.value] = category; }

    std::vector<HeldBlock> held;
    std::vector<Category> categories;
};

/// The blocks that Timeline::start sums up, by storage; 0 bytes: not alive.
std::vector<LiveBlock> aliveAtStart(const StepTrace& trace)
{
    RecordedMemory memory;
    for (const Bytes bytes : trace.storages.bytes)
        memory.held.push_back({bytes});
    memory.categories.assign(trace.storages.category.begin(), trace.storages.category.end());
    for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
        const EventIndex event(i);
        if (trace.events.kind[event] == EventKind::mark && static_cast<Mark>(trace.events.a[event]) == Mark::stepBegin)
            break;
        applyRecordedEvent(memory, trace, i);
    }
    std::vector<LiveBlock> blocks(trace.storages.size());
    for (std::uint32_t i = 0; i < blocks.size(); ++i)
        if (const StorageId storage(i); memory.held[i].isHeld())
            blocks[i] = {storage, memory.held[i].bytes, memory.categories[i], trace.storages.creator[storage], false};
    return blocks;
}

} // namespace

std::vector<LiveBlock> liveBlocks(const StepTrace& trace, const Timeline& timeline, std::size_t count)
{
    // A storage may be alive twice: the recorded storage, and a recomputed copy in the second half of `blocks`.
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

nlohmann::ordered_json toJson(const StepInfo& info, const CategoryBytes& bytes)
{
    auto json = nlohmann::ordered_json::object();
    for (std::size_t category = 0; category < categoriesOf(info); ++category)
        json[std::string(categoryName(static_cast<Category>(category)))] = bytes[category];
    return json;
}

void addAccount(nlohmann::ordered_json& document, const StepInfo& info, const Timeline& timeline)
{
    document["at_peak"] = toJson(info, timeline.atPeak);
    auto& phases = document["phases"] = nlohmann::ordered_json::object();
    for (const Timeline::Snapshot& snapshot : timeline.snapshots)
        phases[std::string(markName(snapshot.mark))] = toJson(info, snapshot.bytes);
}

} // namespace headroom
