// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>

namespace headroom::sim {

/// Selects the allocations that go to a private pool: the allocations of this thread, or of any thread on its current
/// stream, as during the capture of a CUDA graph.
enum class PoolUser { thread, stream };

/// Routes later allocations of `user` to the private pool with this number, which is not 0. The latest call wins.
void beginAllocateToPool(std::uint32_t pool, PoolUser user);
/// Ends the latest beginAllocateToPool() of this pool.
void endAllocateToPool(std::uint32_t pool);

/// Returns the pool of a stream with PoolUser::stream; 0: none.
std::uint32_t poolOfStream(std::uint32_t stream);
/// Adds a stream to the streams of this pool. In the same way, a stream joins a capture when the stream waits for an
/// event of the capture. Does nothing if no beginAllocateToPool(pool, PoolUser::stream) lasts.
void joinPool(std::uint32_t pool, std::uint32_t stream);

/// Declares that the pool is no longer used: its free segments then return to the device when memory is short.
void giveUpPool(std::uint32_t pool);
bool isGivenUp(std::uint32_t pool);

/// Returns the stream and the pool on which this thread allocates now, encoded as in storages.stream
/// (core/trace/graph_ops.h).
std::uint32_t currentPlace();

} // namespace headroom::sim
