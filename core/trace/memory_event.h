// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <cassert>
#include <cstdint>

namespace headroom {

/// A block of memory during a replay of a step. The block is live while it has holders.
struct HeldBlock
{
    Bytes bytes = 0;
    std::uint32_t holders = 0;

    bool isHeld() const { return holders > 0; }
    Bytes live() const { return isHeld() ? bytes : 0; }
    bool hold() { return holders++ == 0; } ///< adds a holder; returns whether the block had none
    bool drop() ///< removes a holder; returns whether the block has none left
    {
        assert(isHeld());
        return --holders == 0;
    }
    Bytes resize(Bytes to) ///< returns the change of live(), in bytes
    {
        const Bytes before = live();
        bytes = to;
        return live() - before;
    }
};

/// Base class for a `Memory` of applyEvent() that ignores time and categories. The derived class adds hold(), drop()
/// and resize().
struct TimelessMemory
{
    void retype(StorageId, Category) {}
    void beginOp(OpId, double) {}
    void endOp() {}
    void mark(Mark) {}
};

/// Whether an event of this kind adds a holder to a storage; false for the events that end a hold.
inline bool holds(EventKind kind)
{
    return kind == EventKind::alloc || kind == EventKind::pack || kind == EventKind::unpack;
}

/// Applies the event at index `at` to `memory`, which has the functions of LiveMemory; place() is optional. The plan
/// decides the effect of some events, which go to `plan`: opEnd(op), enter(call), and autograd(kind, pack) for pack,
/// unpack, unpackEnd and release.
template <class Memory, class Plan>
inline void applyEvent(Memory& memory, Plan& plan, const StepTrace& trace, std::uint32_t at)
{
    const EventIndex event(at);
    const std::uint32_t a = trace.events.a[event];
    switch (const EventKind kind = trace.events.kind[event]) {
    case EventKind::alloc:
        memory.hold(a);
        break;
    case EventKind::free:
        memory.drop(a);
        break;
    case EventKind::retype:
        memory.retype(StorageId(a), static_cast<Category>(trace.events.b[event]));
        break;
    case EventKind::resize:
        if constexpr (requires { memory.place(a, std::uint32_t()); }) {
            if (!trace.resizes.stream.empty())
                memory.place(a, trace.resizes.stream[trace.events.b[event]]);
        }
        memory.resize(a, trace.resizes.bytes[trace.events.b[event]]);
        break;
    case EventKind::opBegin:
        memory.beginOp(OpId(a), trace.ops.ms[OpId(a)]);
        break;
    case EventKind::opEnd:
        memory.endOp();
        plan.opEnd(OpId(a));
        break;
    case EventKind::mark:
        memory.mark(static_cast<Mark>(a));
        break;
    case EventKind::enter:
        plan.enter(CallId(a));
        break;
    case EventKind::pack:
    case EventKind::unpack:
    case EventKind::unpackEnd:
    case EventKind::release:
        plan.autograd(kind, PackId(a));
        break;
    case EventKind::exit:
    case EventKind::backwardEnter:
    case EventKind::backwardExit:
        break;
    }
}

/// Applies an event of autograd outside of checkpointed regions: autograd holds a saved tensor until its release, and
/// a node holds an unpacked tensor until the node ends.
template <class Memory>
inline void holdForAutograd(Memory& memory, const StepTrace& trace, EventKind kind, PackId pack)
{
    const StorageId storage = trace.packs.storage[pack];
    if (!storage.valid())
        return;
    if (holds(kind))
        memory.hold(storage.value);
    else
        memory.drop(storage.value);
}

/// Applies an event as in the recorded step, without a plan.
template <class Memory>
inline void applyRecordedEvent(Memory& memory, const StepTrace& trace, std::uint32_t at)
{
    struct
    {
        Memory& memory;
        const StepTrace& trace;
        void autograd(EventKind kind, PackId pack) { holdForAutograd(memory, trace, kind, pack); }
        void enter(CallId) {}
        void opEnd(OpId) {}
    } recorded{memory, trace};
    applyEvent(memory, recorded, trace, at);
}

} // namespace headroom
