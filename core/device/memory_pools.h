// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>

namespace headroom::sim {

/// Whose allocations go to a private pool: those of this thread, or those on its current stream by any thread, as while
/// a CUDA graph is captured.
enum class PoolUser { thread, stream };

/// From here on allocations of `user` go to the private pool of this number, which is not 0. The latest call wins.
void beginAllocateToPool(std::uint32_t pool, PoolUser user);
/// Ends the latest beginAllocateToPool() of this pool.
void endAllocateToPool(std::uint32_t pool);

/// Nobody uses the pool any more: its free segments go back to the device with those of other pools.
void giveUpPool(std::uint32_t pool);
bool isGivenUp(std::uint32_t pool);

/// Where this thread allocates now: stream and pool as in storages.stream (core/trace/graph_ops.h).
std::uint32_t currentPlace();

} // namespace headroom::sim
