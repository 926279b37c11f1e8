// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"

#include <cstdint>
#include <string>
#include <vector>

namespace headroom::cupti {

/// What the GPU did: a kernel, a copy or a fill, as one record of CUPTI says.
struct GpuActivity
{
    enum class Kind : std::uint8_t { kernel, memcpy, memset };

    Kind kind = Kind::kernel;
    std::uint32_t correlation = 0; ///< of the call of CUDA that launched it; a graph's kernels share one
    std::uint32_t device = 0;
    std::uint32_t context = 0;
    std::uint32_t stream = 0;
    std::uint32_t name = 0; ///< in ActivityLog::names; 0: none
    std::uint64_t start = 0; ///< ns
    std::uint64_t end = 0; ///< not after start: the record came before the work was done
    Bytes bytes = 0; ///< copied or filled
};

/// Time of the CPU: a wait for the GPU, or what CUPTI and the driver spent on tracing, compiling and loading.
struct HostActivity
{
    std::uint64_t start = 0; ///< ns
    std::uint64_t end = 0;
};

/// A call of CUDA was made while `id` was the innermost number of its kind in that thread.
struct ExternalId
{
    enum class Kind : std::uint8_t { op, call };

    Kind kind = Kind::op;
    std::uint32_t correlation = 0;
    std::uint64_t id = 0;
};

/// The records of a step, in the order in which CUPTI's buffers came: none in particular.
struct ActivityLog
{
    std::vector<GpuActivity> gpu;
    std::vector<HostActivity> synchronizations;
    std::vector<HostActivity> overheads;
    std::vector<ExternalId> externals;
    std::vector<std::string> names{""};
    std::uint64_t dropped = 0; ///< records that CUPTI or Headroom's own limit of memory threw away
};

} // namespace headroom::cupti
