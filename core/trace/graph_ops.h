// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <cstdint>
#include <vector>

namespace headroom {

/// storages.stream says where the allocator places a storage: on a stream, and, in the upper half of the number, in a
/// private pool (of CUDA graphs, or a torch.cuda.MemPool), whose segments serve nothing else. Pool 0 is the usual one.
inline constexpr unsigned poolShift = 16;

constexpr std::uint32_t placeOf(std::uint32_t stream, std::uint32_t pool)
{
    return (pool << poolShift) | stream;
}
constexpr std::uint32_t streamOfPlace(std::uint32_t place)
{
    return place & ((1U << poolShift) - 1);
}
constexpr std::uint32_t poolOfPlace(std::uint32_t place)
{
    return place >> poolShift;
}

/// An OpFlag more: the op ran inside of a graph of torch.compile, whose single results no checkpoint can keep.
inline constexpr std::uint16_t opInCompiledGraph = 2048;

/// By op: the place in a private pool where it allocates, as an op of a CUDA graph does; 0: none. Empty: no op does.
std::vector<std::uint32_t> graphPlaces(const StepTrace& trace);

} // namespace headroom
