// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/base/ids.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace headroom {

/// Blocks of PyTorch's caching allocator that are no tensor's: NVIDIA's libraries take them while a step runs.
struct Workspaces
{
    /// Taken by an op, and kept for good.
    struct Kept
    {
        OpId op;
        Bytes bytes = 0;

        friend bool operator==(const Kept&, const Kept&) = default;
    };
    std::vector<Kept> kept; ///< cuBLAS's and cuBLASLt's, in the order of ops
    std::vector<Bytes> during; ///< cuDNN's for each op, taken and given back once its result is there; empty: none

    Bytes keptBytes() const
    {
        return std::accumulate(kept.begin(), kept.end(), Bytes{0},
                               [](Bytes sum, const Kept& block) { return sum + block.bytes; });
    }
    Bytes mostDuringAnOp() const { return during.empty() ? 0 : *std::ranges::max_element(during); }
    Bytes duringOp(OpId op) const { return op && op.value < during.size() ? during[op.value] : 0; }
};

} // namespace headroom
