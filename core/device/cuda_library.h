// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

namespace headroom {

class RealDevice;

/// The library that core/cuda builds, and its one exported function, which openCuda() looks up. It is a separate
/// library so that programs also start on machines without CUDA.
inline constexpr const char* cudaLibraryName = "libheadroom_cuda.so";
inline constexpr const char* openCudaDeviceName = "headroom_open_cuda_device";

/// Opens GPU `index`. Returns a new device that the caller owns, or null with `error` set.
using OpenCudaDevice = RealDevice*(int index, Error* error) noexcept;

} // namespace headroom
