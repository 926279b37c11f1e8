// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/roofline.h"

#include <string>

namespace headroom {

/// The properties of a GPU as CUDA reports them.
struct GpuFacts
{
    std::string name; ///< "NVIDIA H200"
    Bytes memory = 0;
    int computeCapability = 0; ///< 90
    int multiprocessors = 0;
    int clockKHz = 0; ///< highest clock of the multiprocessors
    int memoryClockKHz = 0;
    int busWidth = 0; ///< bits
};

/// What CUDA reports of a GPU of resources/devices.json.
GpuFacts gpuFactsOf(const DeviceSpec& spec);

/// The DeviceSpec of a GPU, from resources/devices.json or with rates computed from clocks and architecture.
DeviceSpec deviceSpecOf(const GpuFacts& facts);

} // namespace headroom
