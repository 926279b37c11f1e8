// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/allocator/caching_allocator.h"
#include "core/trace/step_trace.h"

namespace headroom {

/// The setting of a step (StepInfo::settings) with the segments of private pools at its end: "PLACE:small:BYTES" or
/// "PLACE:large:BYTES" for each segment, separated by spaces, with PLACE as in storages.stream. A simulation of the
/// step alone could get other segments, since the warm-up runs of CUDA graphs allocated them.
inline constexpr std::string_view privatePoolsSetting = "private pools";

/// Adds the segments of the setting, all free, to an allocator without segments. Other text in it is ignored.
void addPrivatePools(CachingAllocator& allocator, const StepInfo& info);
/// Returns the sum of the bytes of these segments.
Bytes privatePoolBytes(const StepInfo& info);

} // namespace headroom
