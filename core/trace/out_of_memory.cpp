// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/out_of_memory.h"

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

/// Bytes in blocks that the program or autograd holds, event by event.
class ActiveBytes
{
public:
    explicit ActiveBytes(const StepTrace& step)
        : step_(step)
        , holders_(step.storages.size())
        , sizes_(step.storages.bytes.begin(), step.storages.bytes.end())
    {
    }

    Bytes bytes() const { return bytes_; }

    void apply(EventIndex event)
    {
        const std::uint32_t subject = step_.events.a[event];
        switch (step_.events.kind[event]) {
        case EventKind::alloc:
            return hold(StorageId(subject), 1);
        case EventKind::free:
            return hold(StorageId(subject), -1);
        case EventKind::pack:
        case EventKind::unpack:
            return hold(step_.packs.storage[PackId(subject)], 1);
        case EventKind::unpackEnd:
        case EventKind::release:
            return hold(step_.packs.storage[PackId(subject)], -1);
        case EventKind::resize:
            return resize(StorageId(subject), step_.resizes.bytes[step_.events.b[event]]);
        default:
            return;
        }
    }

private:
    bool isPyTorchs(StorageId storage) const
    {
        return storage.valid() && step_.storages.category[storage] != Category::nonPyTorch;
    }
    void hold(StorageId storage, int change)
    {
        if (!isPyTorchs(storage))
            return;
        const bool wasHeld = holders_[storage.value] > 0;
        holders_[storage.value] += change;
        const bool isHeld = holders_[storage.value] > 0;
        if (wasHeld != isHeld)
            bytes_ += isHeld ? sizes_[storage.value] : -sizes_[storage.value];
    }
    void resize(StorageId storage, Bytes bytes)
    {
        if (isPyTorchs(storage) && holders_[storage.value] > 0)
            bytes_ += bytes - sizes_[storage.value];
        sizes_[storage.value] = bytes;
    }

    const StepTrace& step_;
    std::vector<int> holders_;
    std::vector<Bytes> sizes_;
    Bytes bytes_ = 0;
};

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
    ActiveBytes active(step);
    std::size_t row = 0;
    for (std::uint32_t i = 0; i < step.events.size(); ++i) {
        const EventIndex event(i);
        while (row < step.reserved.size() && step.reserved.event[row] <= event)
            ++row;
        active.apply(event);
        const OpId op(step.events.a[event]);
        if (step.events.kind[event] == EventKind::opEnd) {
            now += step.ops.ms[op];
        } else if (step.events.kind[event] == EventKind::opBegin
                   && std::ranges::find(names, step.ops.name[op]) != names.end()) {
            OutOfMemory made = *parsed(step.opName(op));
            made.ms = now;
            made.op = op;
            made.reserved = row > 0 ? step.reserved.bytes[row - 1] : 0;
            made.active = active.bytes();
            found.push_back(made);
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
