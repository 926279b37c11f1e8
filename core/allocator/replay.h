// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/allocator/caching_allocator.h"
#include "core/timeline/timeline.h"

namespace headroom {

/// What PyTorch's caching allocator hands out and reserves during a step that is repeated, as in training: the
/// timeline's allocations and frees are played twice, the first time on an allocator that holds the state before the
/// step, and the second time, whose peaks are returned, on the cache that the first one left.
CachingAllocator::Stats replay(const StepTrace& trace, const Timeline& timeline, AllocatorRules rules = {});

} // namespace headroom
