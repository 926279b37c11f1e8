// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/allocator/caching_allocator.h"
#include "core/trace/step_trace.h"

namespace headroom {

/// The setting of a step (StepInfo::settings) with the segments that private pools had when it ended:
/// "PLACE:small:BYTES" or "PLACE:large:BYTES" for each, separated by spaces, PLACE as in storages.stream. The runs
/// before, by which CUDA graphs are warmed up, may have taken others than the step alone would.
inline constexpr std::string_view privatePoolsSetting = "private pools";

/// Adds these segments, all free, to an allocator that has none yet. What is no segment in the text is left out.
void addPrivatePools(CachingAllocator& allocator, const StepInfo& info);
/// Returns the bytes of these segments.
Bytes privatePoolBytes(const StepInfo& info);

} // namespace headroom
