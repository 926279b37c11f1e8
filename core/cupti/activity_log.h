// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"

#include <cstdint>
#include <string>
#include <vector>

namespace headroom::cupti {

/// An activity of the GPU, from a record of CUPTI: a kernel, a copy or a fill.
struct GpuActivity
{
    enum class ActivityKind : std::uint8_t { kernel, memcpy, memset };

    ActivityKind kind = ActivityKind::kernel;
    std::uint32_t correlation = 0; ///< id of the launching CUDA call; shared by a graph's kernels
    std::uint32_t device = 0;
    std::uint32_t context = 0;
    std::uint32_t stream = 0;
    std::uint32_t name = 0; ///< index in ActivityLog::names; 0: none
    std::uint64_t start = 0; ///< ns
    std::uint64_t end = 0; ///< ns; not after `start` if the record was written before the work had ended
    Bytes bytes = 0; ///< copied or filled
};

/// A stretch of CPU time: a wait for the GPU, or the time of CUPTI and the driver for tracing, compiling and loading.
struct HostActivity
{
    std::uint64_t start = 0; ///< ns
    std::uint64_t end = 0;
};

/// Links a CUDA call to the innermost id of a kind in the calling thread.
struct ExternalId
{
    enum class IdKind : std::uint8_t { op, call };

    IdKind kind = IdKind::op;
    std::uint32_t correlation = 0;
    std::uint64_t id = 0;
};

/// The records of a step, in the order of CUPTI's buffers. The order is arbitrary.
struct ActivityLog
{
    std::vector<GpuActivity> gpu;
    std::vector<HostActivity> synchronizations;
    std::vector<HostActivity> overheads;
    std::vector<ExternalId> externals;
    std::vector<std::string> names{""};
    std::uint64_t dropped = 0; ///< number of records that CUPTI or Headroom's own memory limit discarded
};

} // namespace headroom::cupti
