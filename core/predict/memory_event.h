// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <cstdint>

namespace headroom {

/// What an event does to memory, as far as no plan decides that: `memory` is a LiveMemory or has its functions. What a
/// plan decides is `plan`'s: opEnd(op), enter(call), and autograd(kind, pack) for packs, unpacks, their ends and
/// releases.
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

/// What autograd does where the plan leaves it alone: a saved tensor is held until its release, an unpacked one until
/// its node ends.
template <class Memory>
inline void holdForAutograd(Memory& memory, const StepTrace& trace, EventKind kind, PackId pack)
{
    const StorageId storage = trace.packs.storage[pack];
    if (!storage.valid())
        return;
    if (kind == EventKind::pack || kind == EventKind::unpack)
        memory.hold(storage.value);
    else
        memory.drop(storage.value);
}

} // namespace headroom
