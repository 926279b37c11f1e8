// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/earlier_steps.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <vector>

namespace headroom {

Bytes savedForBackward(const StepTrace& step)
{
    std::vector<bool> made(step.storages.size(), false), counts(step.storages.size(), false);
    bool begun = false;
    for (std::uint32_t event = 0; event < step.events.size(); ++event) {
        const std::uint32_t a = step.events.a[EventIndex(event)];
        switch (step.events.kind[EventIndex(event)]) {
        case EventKind::mark:
            begun = begun || static_cast<Mark>(a) == Mark::stepBegin;
            break;
        case EventKind::alloc:
            made[a] = begun;
            break;
        case EventKind::free: // what the program keeps is a state, such as a cache
            counts[a] = made[a];
            break;
        default:
            break;
        }
    }
    Bytes saved = 0;
    for (const StorageId storage : step.packs.storage) {
        if (!storage.valid() || !counts[storage.value])
            continue;
        counts[storage.value] = false; // counted once, for the first pack
        saved += step.storages.bytes[storage];
    }
    return saved;
}

std::optional<EarlierSteps> otherEarlierSteps(const StepTrace& step)
{
    const std::string_view text = step.info.setting(EarlierSteps::setting);
    EarlierSteps earlier;
    const char* const end = text.data() + text.size();
    const auto [space, error] = std::from_chars(text.data(), end, earlier.least);
    if (error != std::errc() || space == end || std::from_chars(space + 1, end, earlier.most).ec != std::errc())
        return std::nullopt;
    earlier.own = savedForBackward(step);
    const bool differ = std::max(earlier.most - earlier.own, earlier.own - earlier.least) > earlier.own / 1000;
    return differ ? std::optional(earlier) : std::nullopt;
}

std::set<std::string> modulesThatSave(const StepTrace& step)
{
    std::vector<bool> saves(step.modules.size(), false);
    std::set<std::string> names;
    CallId running;
    bool isBackward = false;
    for (std::uint32_t event = 0; event < step.events.size(); ++event) {
        const std::uint32_t a = step.events.a[EventIndex(event)];
        switch (step.events.kind[EventIndex(event)]) {
        case EventKind::enter:
            running = CallId(a);
            break;
        case EventKind::exit:
            running = step.calls.parent[CallId(a)];
            break;
        case EventKind::mark:
            isBackward = static_cast<Mark>(a) == Mark::forwardEnd;
            break;
        case EventKind::pack:
            for (CallId call = running; !isBackward && call.valid(); call = step.calls.parent[call]) {
                const ModuleId module = step.calls.module[call];
                if (!saves[module.value])
                    names.emplace(step.moduleFqn(module));
                saves[module.value] = true;
            }
            break;
        default:
            break;
        }
    }
    return names;
}

std::string leftOutSetting(const StepTrace& step, const std::set<std::string>& before)
{
    if (before.empty())
        return {};
    std::vector<bool> isCalled(step.modules.size(), false);
    for (const ModuleId module : step.calls.module)
        isCalled[module.value] = true;
    std::set<std::string_view> called;
    for (std::uint32_t module = 0; module < isCalled.size(); ++module)
        if (isCalled[module])
            called.insert(step.moduleFqn(ModuleId(module)));
    std::int64_t count = 0;
    std::string_view first;
    for (const std::string& module : before) {
        const std::string_view name = module;
        const std::string_view around = name.substr(0, std::min(name.rfind('.'), name.size()));
        if (called.contains(name)
            || (around != name && before.contains(std::string(around)) && !called.contains(around)))
            continue;
        if (++count == 1)
            first = name;
    }
    return count > 0 ? std::to_string(count) + ' ' + std::string(first) : std::string();
}

std::optional<LeftOutModules> leftOutModules(const StepTrace& step)
{
    const std::string_view text = step.info.setting(LeftOutModules::setting);
    LeftOutModules leftOut;
    const char* const end = text.data() + text.size();
    const auto [space, error] = std::from_chars(text.data(), end, leftOut.count);
    if (error != std::errc() || space == end || leftOut.count <= 0)
        return std::nullopt;
    leftOut.first.assign(space + 1, end);
    return leftOut;
}

std::string leftOutText(const LeftOutModules& leftOut)
{
    return "the recorded step ran without "
        + (leftOut.count > 1 ? std::to_string(leftOut.count) + " modules" : std::string("a module"))
        + " that earlier steps ran (" + leftOut.first + ")";
}

MemoryBetweenSteps mostBetweenSteps(const StepTrace& step)
{
    const StepTrace::Outside& rows = step.betweenSteps;
    MemoryBetweenSteps most;
    std::map<Bytes, std::size_t> blocks;
    Bytes now = 0;
    for (std::uint32_t row = 0; row < rows.size(); ++row) {
        const Bytes bytes = roundedToBlock(rows.bytes[row]);
        if (rows.kind[row] == OutsideKind::alloc) {
            now += bytes;
            ++blocks[bytes];
            if (now > most.peak)
                most = {now, blocks};
        } else if (rows.kind[row] != OutsideKind::emptyCache) {
            now -= bytes;
            if (rows.kind[row] == OutsideKind::free)
                --blocks[bytes];
        }
    }
    return most;
}

Bytes forwardsOutside(const StepTrace& step)
{
    const std::string_view text = step.info.setting(forwardsOutsideSetting);
    Bytes bytes = 0;
    std::from_chars(text.data(), text.data() + text.size(), bytes);
    return std::max<Bytes>(bytes, 0);
}

std::vector<bool> savedAtTheEnd(const StepTrace& step)
{
    std::vector<bool> released(step.packs.size(), false);
    std::vector<bool> saved(step.storages.size(), false);
    for (std::uint32_t event = 0; event < step.events.size(); ++event)
        if (step.events.kind[EventIndex(event)] == EventKind::release)
            released[step.events.a[EventIndex(event)]] = true;
    for (std::uint32_t pack = 0; pack < step.packs.size(); ++pack)
        if (const StorageId storage = step.packs.storage[PackId(pack)]; storage.valid() && !released[pack])
            saved[storage.value] = true;
    return saved;
}

bool retainsGraph(const StepTrace& step)
{
    const std::vector<bool> saved = savedAtTheEnd(step);
    std::vector<bool> used(step.storages.size(), false);
    for (std::uint32_t event = 0; event < step.events.size(); ++event)
        if (const EventIndex at(event); step.events.kind[at] == EventKind::unpack)
            if (const StorageId storage = step.packs.storage[PackId(step.events.a[at])]; storage.valid())
                used[storage.value] = true;
    Bytes kept = 0;
    Bytes usedOfKept = 0;
    for (std::uint32_t storage = 0; storage < saved.size(); ++storage) {
        const bool counts = saved[storage] && step.storages.category[StorageId(storage)] != Category::parameter;
        kept += counts ? step.storages.bytes[StorageId(storage)] : 0;
        usedOfKept += counts && used[storage] ? step.storages.bytes[StorageId(storage)] : 0;
    }
    return usedOfKept > kept / 2;
}

} // namespace headroom
