// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/roofline.h"

#include "core/cost/tensor_layout.h"

#include <algorithm>

namespace headroom {

Bytes transferBytes(std::span<const TensorShape> tensors)
{
    Bytes bytes = 0;
    for (const TensorShape& tensor : tensors)
        bytes += static_cast<Bytes>(elements(tensor)) * tensor.itemSize;
    return bytes;
}

double peakFlops(const DeviceSpec& device, DType dtype)
{
    switch (dtype) {
    case DType::float16:
        return device.halfFlops;
    case DType::bfloat16:
        // Before Ampere there are no tensor cores for bfloat16.
        return device.computeCapability >= 80 ? device.halfFlops : device.float32Flops;
    case DType::float8:
        return device.float8Flops;
    case DType::float64:
    case DType::complex128:
        return device.float64Flops;
    default:
        return device.float32Flops;
    }
}

double rooflineMs(const DeviceSpec& device, Bytes bytes, double flops, DType dtype, std::uint16_t flags)
{
    if (flags & (opView | opCreate))
        return 0;
    // The order of operations is PyTorch's, so that the times are the same doubles.
    const double transferNs = static_cast<double>(bytes) / device.gigabytesPerSecond;
    const double computeNs = flops > 0 ? (flops / 2) / (0.75 * peakFlops(device, dtype)) * 1e9 : 0;
    return std::max(transferNs, computeNs) / 1e6;
}

} // namespace headroom
