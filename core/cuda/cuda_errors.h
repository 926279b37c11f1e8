// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <cuda_runtime_api.h>

namespace headroom {

/// Returns a noDevice error. The sentence says why CUDA cannot be used and what to do.
Error cudaFailure(cudaError_t code);

} // namespace headroom
