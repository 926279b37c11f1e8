// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/device_specs.h"
#include "core/trace/step_trace.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// Shape and element type of a tensor argument or result of an op.
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

/// Arguments of a convolution that the flop formula needs besides shapes.
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

/// The name of an op without the overload: "aten.addmm.default" → "aten.addmm".
std::string_view overloadPacket(std::string_view name);

/// Flops by PyTorch's formulas (torch/utils/flop_counter.py), a multiply-add counted as two; 0 for an op without a
/// formula, and for shapes that do not fit it. `name` is an overload packet ("aten.addmm") or an overload
/// ("aten.addmm.default"). `inputs` are the tensor arguments in the schema's order, without optional ones that are not
/// given; `outputs` are the results; only the first result of a convolution is read. Matrix products of other libraries
/// have formulas too.
double flops(std::string_view name, std::span<const TensorShape> inputs, std::span<const TensorShape> outputs,
             const ConvolutionArguments& convolution = {}, const NestedAttention& nested = {});

/// Peak rate of matrix products of `dtype`, in flops per second.
double peakFlops(const DeviceSpec& device, DType dtype);

/// RuntimeEstimator's roofline: time of an op in ms, the larger of moving `bytes` and computing `flops` at 75 % of the
/// peak; 0 for views and for factories of _CREATE_OPS. Like PyTorch it divides half of `flops` by the peak: it counts a
/// multiply-add as one operation, though the peak counts two.
double rooflineMs(const DeviceSpec& device, Bytes bytes, double flops, DType dtype, std::uint16_t flags);

/// Number of elements in memory: dimensions of stride 0 counted once.
double elements(const TensorShape& tensor);

/// Bytes of all elements, as of a tensor without expanded dimensions.
Bytes bytesOf(const TensorShape& tensor);

/// Size of a dimension, counted from the end if negative; 1 for a dimension that does not exist.
double sizeAt(const TensorShape& tensor, std::ptrdiff_t dimension);

/// The dimensions by descending stride, without dimensions of a single element and expanded dimensions.
std::vector<std::size_t> layoutOf(const TensorShape& tensor);

/// Whether the elements are adjacent in memory, in any order of dimensions.
bool isDense(const TensorShape& tensor);

/// Whether an image is channels-last, by the rule of is_channels_last_strides_2d() in c10/core/MemoryFormat.h: a tensor
/// with ambiguous strides, such as the filter of a 1x1 convolution, is not.
bool isChannelsLast(const TensorShape& image);

} // namespace headroom
