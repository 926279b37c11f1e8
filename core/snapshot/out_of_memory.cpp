// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/snapshot/out_of_memory.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace headroom {

namespace {

constexpr std::string_view before = "out of memory (asked for ";
constexpr std::string_view between = " bytes, ";
constexpr std::string_view after = " free on the device)";

/// Takes a number and the text behind it.
std::optional<Bytes> take(std::string_view& text, std::string_view behind)
{
    Bytes value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (error != std::errc() || !text.starts_with(behind))
        return std::nullopt;
    text.remove_prefix(behind.size());
    return value;
}

std::optional<OutOfMemory> parsed(std::string_view name)
{
    if (!name.starts_with(before))
        return std::nullopt;
    name.remove_prefix(before.size());
    OutOfMemory event;
    const auto requested = take(name, between);
    const auto deviceFree = requested ? take(name, after) : std::nullopt;
    if (!deviceFree)
        return std::nullopt;
    event.requested = *requested;
    event.deviceFree = *deviceFree;
    return event;
}

} // namespace

std::string outOfMemoryName(Bytes requested, Bytes deviceFree)
{
    return std::string(before) + std::to_string(requested) + std::string(between) + std::to_string(deviceFree)
        + std::string(after);
}

std::vector<OutOfMemory> outOfMemoryEvents(const StepTrace& step)
{
    std::vector<OutOfMemory> found;
    // Names are few, ops are many: most steps have no such name.
    std::vector<StringId> names;
    for (std::uint32_t i = 0; i < step.strings.size(); ++i)
        if (parsed(step.strings[StringId(i)]))
            names.emplace_back(i);
    if (names.empty())
        return found;
    double now = 0;
    Bytes active = 0;
    std::size_t row = 0;
    for (std::uint32_t i = 0; i < step.events.size(); ++i) {
        const EventIndex event(i);
        while (row < step.reserved.size() && step.reserved.event[row] <= event)
            ++row;
        const std::uint32_t a = step.events.a[event];
        switch (step.events.kind[event]) {
        case EventKind::alloc:
            active += step.storages.bytes[StorageId(a)];
            break;
        case EventKind::free:
            active -= step.storages.bytes[StorageId(a)];
            break;
        case EventKind::opBegin:
            if (std::ranges::find(names, step.ops.name[OpId(a)]) != names.end()) {
                OutOfMemory made = *parsed(step.opName(OpId(a)));
                made.ms = now;
                made.op = OpId(a);
                made.reserved = row > 0 ? step.reserved.bytes[row - 1] : 0;
                made.active = active;
                found.push_back(made);
            }
            break;
        case EventKind::opEnd:
            now += step.ops.ms[OpId(a)];
            break;
        default:
            break;
        }
    }
    return found;
}

std::string whyOutOfMemory(const OutOfMemory& event)
{
    std::string text = "The program asked for " + formatBytes(event.requested) + ", and the device had "
        + formatBytes(event.deviceFree) + " left";
    if (event.reserved <= 0)
        return text + ".";
    text += " beside the " + formatBytes(event.reserved) + " that PyTorch had reserved";
    const Bytes cached = event.reserved - event.active;
    if (cached >= event.requested)
        return text + ", of which " + formatBytes(cached)
            + " were not in use, but in no single free block that was large enough: fragmentation.";
    return text + ", of which " + formatBytes(event.active) + " were in use.";
}

} // namespace headroom
