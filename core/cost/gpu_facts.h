// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/roofline.h"

#include <string>

namespace headroom {

/// What CUDA says of a GPU.
struct GpuFacts
{
    std::string name; ///< "NVIDIA H200"
    Bytes memory = 0;
    int computeCapability = 0; ///< 90
    int multiprocessors = 0;
    int clockKHz = 0; ///< of the multiprocessors, the highest
    int memoryClockKHz = 0;
    int busWidth = 0; ///< bits
};

/// The known card of these facts, or, of one that resources/devices.json does not have, a spec whose rates follow from
/// its clocks and its architecture.
DeviceSpec deviceSpecOf(const GpuFacts& facts);

} // namespace headroom
