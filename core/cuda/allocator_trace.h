// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/device/addressed_memory.h"

#include <c10/core/CachingDeviceAllocator.h>

namespace headroom {

/// Reports a trace entry of a GPU's caching allocator to `memory`. Runs under the allocator's lock, and
/// therefore calls no function of CUDA, torch or Python.
void tell(AddressedMemory& memory, const c10::CachingDeviceAllocator::TraceEntry& entry);

} // namespace headroom
