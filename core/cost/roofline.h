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

/// A GPU as far as the roofline needs it. Source: resources/devices.json, compiled in; where its figures come from is
/// said there. Rates count a multiply-add as two.
struct DeviceSpec
{
    std::string name; ///< "a100-80gb": what --gpu takes
    std::string title; ///< "NVIDIA A100-SXM4-80GB"
    Bytes memory = 0; ///< capacity as PyTorch reports it, a little less than the nominal one
    double gigabytesPerSecond = 0; ///< DRAM, 1e9 bytes
    double float32Flops = 0; ///< peak per second without tensor cores
    double tensorFloat32Flops = 0;
    double halfFlops = 0; ///< float16, and bfloat16 from compute capability 8.0
    int computeCapability = 0; ///< 80, 90, …: decides which attention kernel CUDA takes
    int multiprocessors = 0; ///< what torch.cuda.get_device_properties() says
    double float64Flops = 0;
    double float8Flops = 0;
    Bytes l2 = 0; ///< cache that all multiprocessors share
};

/// What --gpu takes when it is not given.
inline constexpr std::string_view defaultDeviceName = "h100-80gb";

std::span<const DeviceSpec> deviceSpecs();
Result<DeviceSpec> findDeviceSpec(std::string_view name); ///< the error lists the names

/// Shape of one tensor that an op read or wrote, as far as costs need it.
struct TensorShape
{
    std::vector<std::int64_t> sizes;
    std::vector<std::int64_t> strides; ///< as long as sizes; a dimension of stride 0 is an expanded one
    DType dtype = DType::float32;
    int itemSize = 4; ///< bytes an element
    bool onHost = false; ///< in the CPU's memory

    bool operator==(const TensorShape&) const = default;
};

/// Bytes that an op moves: all tensor arguments and results, dimensions of stride 0 counted once
/// (torch/utils/_runtime_estimation.py, get_transfer_time).
Bytes transferBytes(std::span<const TensorShape> tensors);

/// What the formulas of convolutions need beside shapes.
struct ConvolutionArguments
{
    bool transposed = false;
    bool gradInput = true; ///< output_mask of convolution_backward
    bool gradWeight = true;
};

/// Attention over sequences of different length (cum_seq_q and cum_seq_k are given): every one of `sequences` counts as
/// the longest, as PyTorch counts them when lengths are not known. Only the ops `_flash_attention_…` and
/// `_efficient_attention_…` have it.
struct NestedAttention
{
    std::int64_t sequences = 0; ///< 0: an ordinary batch
    std::int64_t maxQuery = 0;
    std::int64_t maxKey = 0;
};

/// Flops by PyTorch's formulas (torch/utils/flop_counter.py), multiply and add as two; 0 for an op without one.
/// `name` is the overload packet, "aten.addmm"; an overload's name ("aten.addmm.default") is the same op. `inputs` are
/// the tensor arguments in the schema's order (optional ones that are not given left out), `outputs` the results, of
/// which only the first of a convolution is read. Shapes that no formula fits give 0. Other libraries' products count.
double flops(std::string_view name, std::span<const TensorShape> inputs, std::span<const TensorShape> outputs,
             const ConvolutionArguments& convolution = {}, const NestedAttention& nested = {});

/// Peak rate at which the device multiplies matrices of `dtype`, flops per second.
double peakFlops(const DeviceSpec& device, DType dtype);

/// Time of an op in ms on a device: the larger of moving `bytes` and computing `flops` at 75 % of the peak; 0 for views
/// and free factories (RuntimeEstimator's roofline). As PyTorch does, half of `flops` is set against the peak: it takes
/// a multiply-add for one operation, though the peak counts two.
double rooflineMs(const DeviceSpec& device, Bytes bytes, double flops, DType dtype, std::uint16_t flags);

} // namespace headroom
