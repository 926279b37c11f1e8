// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/torch/replay.h"

#include <algorithm>

namespace headroom {
namespace {

class Holders
{
public:
    explicit Holders(const StepTrace& trace)
        : trace_(trace)
        , holders_(trace.storages.size(), 0)
        , bytes_(trace.storages.bytes.begin(), trace.storages.bytes.end())
    {
    }

    void apply(EventIndex event)
    {
        const std::uint32_t a = trace_.events.a[event];
        switch (trace_.events.kind[event]) {
        case EventKind::alloc:
            return hold(StorageId(a));
        case EventKind::free:
            return drop(StorageId(a));
        case EventKind::pack:
        case EventKind::unpack:
            return hold(trace_.packs.storage[PackId(a)]);
        case EventKind::unpackEnd:
        case EventKind::release:
            return drop(trace_.packs.storage[PackId(a)]);
        case EventKind::resize:
            return resize(a, trace_.resizes.bytes[trace_.events.b[event]]);
        default:
            return;
        }
    }

    Bytes live() const { return live_; }

private:
    void hold(StorageId storage)
    {
        if (storage.valid() && holders_[storage.value]++ == 0)
            live_ += bytes_[storage.value];
    }
    void drop(StorageId storage)
    {
        if (storage.valid() && --holders_[storage.value] == 0)
            live_ -= bytes_[storage.value];
    }
    void resize(std::uint32_t storage, Bytes bytes)
    {
        if (holders_[storage] > 0)
            live_ += bytes - bytes_[storage];
        bytes_[storage] = bytes;
    }

    const StepTrace& trace_;
    std::vector<int> holders_;
    std::vector<Bytes> bytes_;
    Bytes live_ = 0;
};

std::string describe(const StepTrace& trace, EventIndex event)
{
    const std::uint32_t a = trace.events.a[event];
    const EventKind kind = trace.events.kind[event];
    const std::string id = std::to_string(a);
    switch (kind) {
    case EventKind::alloc:
        return "alloc " + id + ' ' + std::string(categoryName(trace.storages.category[StorageId(a)])) + ' '
            + std::to_string(trace.storages.bytes[StorageId(a)]);
    case EventKind::opBegin: {
        const std::string node(trace.strings[trace.ops.node[OpId(a)]]);
        return "op " + std::string(trace.opName(OpId(a))) + " in "
            + std::string(trace.moduleFqn(trace.ops.module[OpId(a)])) + (node.empty() ? "" : " of " + node);
    }
    case EventKind::opEnd:
        return "end";
    case EventKind::enter:
    case EventKind::exit:
    case EventKind::backwardEnter:
    case EventKind::backwardExit:
        return std::string(eventKindName(kind)) + ' ' + std::string(trace.moduleFqn(trace.calls.module[CallId(a)]));
    case EventKind::pack: {
        const StorageId storage = trace.packs.storage[PackId(a)];
        return "pack " + id + (storage.valid() ? " of " + std::to_string(storage.value) : "") + " by "
            + std::string(trace.opName(trace.packs.op[PackId(a)]));
    }
    case EventKind::retype:
        return "retype " + id + ' ' + std::string(categoryName(static_cast<Category>(trace.events.b[event])));
    case EventKind::mark:
        return "mark " + std::string(markName(static_cast<Mark>(a)));
    default:
        return std::string(eventKindName(kind)) + ' ' + id;
    }
}

} // namespace

Replay replay(const StepTrace& trace)
{
    Replay result;
    Holders holders(trace);
    for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
        holders.apply(EventIndex(i));
        if (trace.events.kind[EventIndex(i)] == EventKind::mark)
            result.atMarks.push_back(holders.live());
        if (!result.atMarks.empty())
            result.peak = std::max(result.peak, holders.live());
    }
    result.end = holders.live();
    return result;
}

std::vector<std::string> listing(const StepTrace& trace)
{
    std::vector<std::string> lines;
    for (std::uint32_t i = 0; i < trace.events.size(); ++i)
        lines.push_back(describe(trace, EventIndex(i)));
    return lines;
}

} // namespace headroom
