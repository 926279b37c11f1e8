// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/allocator/caching_allocator.h"
#include "core/timeline/timeline.h"

namespace headroom {

/// What PyTorch's caching allocator would have handed out and reserved during a step: the timeline's allocations and
/// frees in their order, on an allocator that starts empty. The state before the step is allocated first, in the order
/// of its storages.
CachingAllocator::Stats replay(const StepTrace& trace, const Timeline& timeline, AllocatorRules rules = {});

} // namespace headroom
