// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <c10/core/Allocator.h>

namespace headroom::sim {

/// Allocates ordinary CPU memory that reports itself as pinned: no GPU copies from it.
c10::Allocator* pinnedMemoryAllocator();

/// Makes other memory pinned, as cudaHostRegister() does, until the call of unregisterPinned().
void registerPinned(const void* address, std::size_t bytes);
void unregisterPinned(const void* address);

/// Returns whether an address lies in memory of this allocator, or in registered memory.
bool isPinnedMemory(const void* address);

} // namespace headroom::sim
