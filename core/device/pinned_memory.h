// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <c10/core/Allocator.h>

namespace headroom::sim {

/// Allocates ordinary CPU memory that reports itself as pinned: no GPU copies from it.
c10::Allocator* pinnedMemoryAllocator();

/// Returns whether an address lies in memory of this allocator.
bool isPinnedMemory(const void* address);

} // namespace headroom::sim
