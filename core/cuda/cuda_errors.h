// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <cuda_runtime_api.h>

namespace headroom {

/// Why CUDA cannot be used, and what to do about it, as one sentence (noDevice).
Error cudaFailure(cudaError_t code);

} // namespace headroom
