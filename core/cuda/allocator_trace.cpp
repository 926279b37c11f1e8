// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cuda/allocator_trace.h"

namespace headroom {

using c10::CachingDeviceAllocator::TraceEntry;

void tell(AddressedMemory& memory, const TraceEntry& entry)
{
    const auto* const address = reinterpret_cast<const void*>(entry.addr_);
    const auto size = static_cast<Bytes>(entry.size_);
    switch (entry.action_) {
    case TraceEntry::ALLOC:
        memory.allocated(address, size, reinterpret_cast<std::uintptr_t>(entry.stream_));
        break;
    case TraceEntry::FREE_REQUESTED:
        memory.freed(address);
        break;
    case TraceEntry::SEGMENT_ALLOC:
    case TraceEntry::SEGMENT_MAP:
        memory.reservedMore(size);
        break;
    case TraceEntry::SEGMENT_FREE:
    case TraceEntry::SEGMENT_UNMAP:
        memory.reservedMore(-size);
        break;
    case TraceEntry::OOM:
        memory.refused(size, static_cast<Bytes>(entry.addr_)); // for OOM, addr_ is the number of free bytes
        break;
    default:
        break;
    }
}

} // namespace headroom
