// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/trace/step_trace.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// A GPU as far as the roofline needs it. Source: resources/devices.json, compiled in.
struct DeviceSpec
{
    std::string name; ///< "a100-80gb": what --gpu takes
    std::string title; ///< "NVIDIA A100-SXM4-80GB"
    Bytes memory = 0; ///< capacity
    double gigabytesPerSecond = 0; ///< DRAM, 1e9 bytes
    double float32Flops = 0; ///< peak per second without tensor cores
    double tensorFloat32Flops = 0;
    double halfFlops = 0; ///< float16 and bfloat16
    int computeCapability = 0; ///< 80, 90, …: decides which attention kernel CUDA takes
};

std::span<const DeviceSpec> deviceSpecs();
Result<DeviceSpec> findDeviceSpec(std::string_view name); ///< the error lists the names

/// Shape of one tensor that an op read or wrote, as far as costs need it.
struct TensorShape
{
    std::vector<std::int64_t> sizes;
    std::vector<std::int64_t> strides;
    DType dtype = DType::float32;
    int itemSize = 4; ///< bytes an element
};

/// Bytes that an op moves: all tensor arguments and results, dimensions of stride 0 counted once
/// (torch/distributed/_tools/_runtime_estimation.py, get_transfer_time).
Bytes transferBytes(std::span<const TensorShape> tensors);

/// Flops by PyTorch's formulas (torch/utils/flop_counter.py), multiply and add as two; 0 for an op without one.
/// `name` is the overload packet: "aten.addmm". `inputs` are the tensor arguments in the schema's order.
/// `convolution` is read only by the convolution formulas.
struct ConvolutionArguments
{
    bool transposed = false;
    bool gradInput = true; ///< output_mask of convolution_backward
    bool gradWeight = true;
};
double flops(std::string_view name, std::span<const TensorShape> inputs, std::span<const TensorShape> outputs,
             const ConvolutionArguments& convolution = {});

/// Time of an op in ms on a device: the larger of moving `bytes` and computing `flops` at 75 % of the peak; 0 for views
/// and free factories (RuntimeEstimator's roofline).
double rooflineMs(const DeviceSpec& device, Bytes bytes, double flops, DType dtype, std::uint16_t flags);

} // namespace headroom
