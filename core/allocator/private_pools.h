// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/allocator/caching_allocator.h"
#include "core/trace/step_trace.h"

namespace headroom {

/// The setting of a step (StepInfo::settings) with the segments of private pools at the end of the step:
/// "PLACE:small:BYTES" or "PLACE:large:BYTES" for each segment, separated by spaces, with PLACE as in storages.stream.
/// A simulation of the step alone could get other segments, since the warm-up runs of CUDA graphs allocated the
/// recorded segments.
inline constexpr std::string_view privatePoolsSetting = "private pools";

/// Adds the segments of the setting, all free, to an allocator without segments. Other text in the setting is ignored.
void addPrivatePools(CachingAllocator& allocator, const StepInfo& info);
/// Returns the bytes of all segments of the setting.
Bytes privatePoolBytes(const StepInfo& info);

} // namespace headroom
