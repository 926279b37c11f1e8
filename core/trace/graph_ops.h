// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace headroom {

/// A number of storages.stream is a place in the allocator: the stream in its lower half, and the pool in its upper
/// half. Pool 0 is the default pool. The segments of a private pool (of CUDA graphs, or a torch.cuda.MemPool) serve no
/// other request.
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

/// Another OpFlag: the op ran inside a graph of torch.compile. A checkpoint cannot keep the op's result alone.
inline constexpr std::uint16_t opInCompiledGraph = 2048;

/// Another OpFlag: the op ran inside a backward pass, in a forward that is no recomputation by a checkpoint. A
/// torch.autograd.Function ran the op in backward, as implicit layers do to compute gradients.
inline constexpr std::uint16_t opInBackwardForward = 4096;

/// Returns for each op the place in a private pool where the op allocates, as in a CUDA graph; 0: no private pool.
/// Returns an empty list if no op allocates in a private pool.
std::vector<std::uint32_t> graphPlaces(const StepTrace& trace);

/// Returns whether an op ("aten.cudnn_batch_norm.default"), or an Inductor kernel named after such an op, is a batch
/// normalisation that updates running statistics in training. In training, the other results do not depend on the
/// running statistics; the test of mutating ops runs each such op twice.
bool updatesRunningStatistics(std::string_view opName);

/// Returns whether an op is the backward of a batch normalisation. In training the op gets the running statistics
/// as arguments but does not use them.
bool isBatchNormBackward(std::string_view opName);

} // namespace headroom
