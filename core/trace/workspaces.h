// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/base/ids.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace headroom {

/// Blocks of PyTorch's caching allocator that hold no tensor of the program: the workspaces of NVIDIA's libraries, and
/// scratch memory of PyTorch's kernels, during a step.
struct Workspaces
{
    /// A workspace that an op allocates and nothing frees.
    struct Kept
    {
        OpId op;
        Bytes bytes = 0;
        std::uint32_t place = 0; ///< as in storages.stream; a CUDA graph's workspace is in the graph's pool

        friend bool operator==(const Kept&, const Kept&) = default;
    };
    std::vector<Kept> kept; ///< by cuBLAS and cuBLASLt, in the order of ops
    std::vector<Bytes> during; ///< by OpId: cuDNN's workspace in bytes, allocated and freed inside the op; empty: none
    std::vector<Bytes> scratch; ///< by OpId: bytes of the op's kernels, beside all results; empty: none

    Bytes keptBytes() const
    {
        return std::accumulate(kept.begin(), kept.end(), Bytes{0},
                               [](Bytes sum, const Kept& block) { return sum + block.bytes; });
    }
    Bytes mostDuringAnOp() const { return during.empty() ? 0 : *std::ranges::max_element(during); }
    Bytes mostScratch() const { return scratch.empty() ? 0 : *std::ranges::max_element(scratch); }
    Bytes duringOp(OpId op) const { return op && op.value < during.size() ? during[op.value] : 0; }
    Bytes scratchOf(OpId op) const { return op && op.value < scratch.size() ? scratch[op.value] : 0; }
    bool any() const { return !kept.empty() || mostDuringAnOp() > 0 || mostScratch() > 0; }
};

} // namespace headroom
