// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/allocator/allocator_rules.h"

namespace headroom::sim {

/// Applies PyTorch's settings of the caching allocator (c10/core/AllocatorConfig.h) to the simulated card, from its
/// next allocation on. The first call reads PYTORCH_ALLOC_CONF, or else PYTORCH_CUDA_ALLOC_CONF. Throws PyTorch's own
/// error for a wrong setting, and c10::ValueError for a setting that is not simulated.
void applyAllocatorSettings();

/// Calls applyAllocatorSettings() unless a call has succeeded before: the first allocation reads the environment.
void applyAllocatorSettingsOnce();

} // namespace headroom::sim
