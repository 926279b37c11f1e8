// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <c10/core/Allocator.h>

namespace headroom::sim {

/// Memory of the CPU that calls itself pinned: it has nothing that a GPU would copy from faster.
c10::Allocator* pinnedMemoryAllocator();

/// Whether an address lies in such memory.
bool isPinnedMemory(const void* address);

} // namespace headroom::sim
