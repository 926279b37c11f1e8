// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

namespace headroom {

class RealDevice;

/// What core/cuda exports, and openCuda() looks for: a library of its own, so that programs start where no CUDA is.
inline constexpr const char* cudaLibraryName = "libheadroom_cuda.so";
inline constexpr const char* openCudaDeviceName = "headroom_open_cuda_device";

/// A new device for the caller, or null and the error.
using OpenCudaDevice = RealDevice*(int index, Error* error) noexcept;

} // namespace headroom
