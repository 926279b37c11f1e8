// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/cost/collective_model.h"

namespace headroom {

/// Memory that NCCL holds on a GPU, outside of PyTorch's allocator.
struct NcclMemory
{
    int communicators = 0;
    Bytes bytes = 0; ///< an estimate

    friend bool operator==(const NcclMemory&, const NcclMemory&) = default;
};

/// Bytes of one communicator; `pairs`: it runs an all-to-all.
Bytes ncclCommunicator(const GroupShape& group, const Topology& topology, bool pairs);

/// The memory of all process groups in which the step's collectives ran: PyTorch makes a communicator for each at its
/// first collective. NCCL has one set of buffers for each channel (nccl/issues/864, by its author). Measured on 4 A100
/// with 24 channels: 544 MiB for two ranks and 688 MiB for more (nccl/issues/964). An all-to-all connects each GPU of a
/// node with each other one: 448 MiB for each of the others on 8 H100 (nccl/issues/1685).
NcclMemory ncclMemory(const StepTrace& step, const Topology& topology);

} // namespace headroom
