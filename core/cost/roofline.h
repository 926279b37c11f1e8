// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/trace/step_trace.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// The properties of a GPU that time models need. Source: resources/devices.json, compiled in, with the source of each
/// figure. Rates count a multiply-add as two.
struct DeviceSpec
{
    std::string name; ///< value of --gpu: "a100-80gb"
    std::string title; ///< "NVIDIA A100-SXM4-80GB"
    Bytes memory = 0; ///< capacity as PyTorch reports it, a little less than the nominal one
    double gigabytesPerSecond = 0; ///< DRAM, 1e9 bytes
    double float32Flops = 0; ///< peak per second without tensor cores
    double tensorFloat32Flops = 0;
    double halfFlops = 0; ///< float16, and bfloat16 from compute capability 8.0
    int computeCapability = 0; ///< 80, 90, …; selects the attention kernel
    int multiprocessors = 0; ///< multi_processor_count of torch.cuda.get_device_properties()
    double float64Flops = 0;
    double sustainedFloat32 = 1; ///< share of float32Flops that a small power limit leaves to matrix products
    double float8Flops = 0;
    Bytes l2 = 0; ///< L2 cache, in bytes
    Bytes context = 0; ///< memory of CUDA's context with its loaded kernels; 0: unknown
};

/// The default of --gpu.
inline constexpr std::string_view defaultDeviceName = "h100-80gb";

std::span<const DeviceSpec> deviceSpecs();
Result<DeviceSpec> findDeviceSpec(std::string_view name); ///< the error lists the names

/// Shape and element type of one tensor argument or result of an op.
struct TensorShape
{
    std::vector<std::int64_t> sizes;
    std::vector<std::int64_t> strides; ///< as many as sizes; stride 0: an expanded dimension
    DType dtype = DType::float32;
    int itemSize = 4; ///< bytes per element
    bool onHost = false; ///< in the CPU's memory

    bool operator==(const TensorShape&) const = default;
};

/// Bytes that an op moves: all tensor arguments and results, dimensions of stride 0 counted once
/// (torch/utils/_runtime_estimation.py, get_transfer_time).
Bytes transferBytes(std::span<const TensorShape> tensors);

/// Arguments of a convolution that its flop formula needs besides shapes.
struct ConvolutionArguments
{
    bool transposed = false;
    bool gradInput = true; ///< output_mask of convolution_backward
    bool gradWeight = true;
};

/// Attention over sequences of different length (with cum_seq_q and cum_seq_k): each of `sequences` counts as long as
/// the longest, as PyTorch counts them when lengths are unknown. Only for the ops `_flash_attention_…` and
/// `_efficient_attention_…`.
struct NestedAttention
{
    std::int64_t sequences = 0; ///< 0: an ordinary batch
    std::int64_t maxQuery = 0;
    std::int64_t maxKey = 0;
};

/// The name of an op without its overload: "aten.addmm.default" → "aten.addmm".
std::string_view overloadPacket(std::string_view name);

/// Flops by PyTorch's formulas (torch/utils/flop_counter.py), a multiply-add counted as two; 0 for an op without a
/// formula, and for shapes that do not fit it. `name` is an overload packet ("aten.addmm") or an overload
/// ("aten.addmm.default"). `inputs` are the tensor arguments in the schema's order, without optional ones that are not
/// given; `outputs` are the results, of which only a convolution's first is read. Matrix products of other libraries
/// have formulas too.
double flops(std::string_view name, std::span<const TensorShape> inputs, std::span<const TensorShape> outputs,
             const ConvolutionArguments& convolution = {}, const NestedAttention& nested = {});

/// Peak rate of matrix products of `dtype`, in flops per second.
double peakFlops(const DeviceSpec& device, DType dtype);

/// RuntimeEstimator's roofline: time of an op in ms, the larger of moving `bytes` and computing `flops` at 75 % of the
/// peak; 0 for views and for factories of _CREATE_OPS. Like PyTorch it divides half of `flops` by the peak: it counts a
/// multiply-add as one operation, though the peak counts two.
double rooflineMs(const DeviceSpec& device, Bytes bytes, double flops, DType dtype, std::uint16_t flags);

} // namespace headroom
