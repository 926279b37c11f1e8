// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Pooling, padding, sampling and folding of images that have no Meta kernel in C++.
#include "core/device/allocate.h"

#include <ATen/native/Pool.h>
#include <torch/library.h>

#include <array>
#include <tuple>
#include <vector>

namespace headroom::sim {
namespace {

using at::IntArrayRef;
using at::Tensor;

/// Returns a parameter for a dimension: a single number for all spatial dimensions, or a number for each.
std::int64_t valueAt(IntArrayRef values, std::size_t dimension)
{
    return values[values.size() == 1 ? 0 : dimension];
}

/// Returns the sizes of `input` with `spatial` as the last dimensions.
std::vector<std::int64_t> withSpatial(const Tensor& input, c10::SymIntArrayRef spatial)
{
    std::vector<std::int64_t> sizes = input.sizes().vec();
    for (std::size_t i = 0; i < spatial.size(); ++i)
        sizes[sizes.size() - spatial.size() + i] = number(spatial[i]);
    return sizes;
}

Tensor adaptiveAveragePool(const Tensor& input, c10::SymIntArrayRef output)
{
    return emptyTensor(withSpatial(input, output), input.scalar_type(), input.suggest_memory_format());
}

Tensor adaptiveAveragePoolBackward(const Tensor&, const Tensor& input)
{
    return emptyTensor(input.sizes(), input.scalar_type(), input.suggest_memory_format());
}

std::tuple<Tensor, Tensor> maxPool3d(const Tensor& input, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                                     IntArrayRef dilation, bool ceilMode)
{
    constexpr std::size_t spatial = 3;
    std::vector<std::int64_t> sizes = input.sizes().vec();
    for (std::size_t i = 0; i < spatial; ++i) {
        std::int64_t& size = sizes[sizes.size() - spatial + i];
        const std::int64_t step = stride.empty() ? valueAt(kernel, i) : valueAt(stride, i);
        size = at::native::pooling_output_shape(size, valueAt(kernel, i), valueAt(padding, i), step,
                                                valueAt(dilation, i), ceilMode);
    }
    return {emptyTensor(sizes, input.scalar_type()), emptyTensor(sizes, at::kLong)};
}

Tensor maxUnpool2d(const Tensor& input, const Tensor&, c10::SymIntArrayRef output)
{
    return emptyTensor(withSpatial(input, output), input.scalar_type(), input.suggest_memory_format());
}

Tensor maxUnpool3d(const Tensor& input, const Tensor&, c10::SymIntArrayRef output, IntArrayRef, IntArrayRef)
{
    return emptyTensor(withSpatial(input, output), input.scalar_type());
}

Tensor reflectionPad2d(const Tensor& input, c10::SymIntArrayRef padding)
{
    std::vector<std::int64_t> sizes = input.sizes().vec();
    sizes[sizes.size() - 1] += number(padding[0]) + number(padding[1]);
    sizes[sizes.size() - 2] += number(padding[2]) + number(padding[3]);
    return emptyTensor(sizes, input.scalar_type());
}

/// The grid has the output's spatial sizes between the batch and the coordinates.
Tensor gridSampler(const Tensor& input, const Tensor& grid, std::int64_t, std::int64_t, bool)
{
    std::vector<std::int64_t> sizes = grid.sizes().vec();
    sizes.pop_back();
    sizes.insert(sizes.begin() + 1, input.size(1));
    return emptyTensor(sizes, input.scalar_type());
}

std::tuple<Tensor, Tensor> gridSamplerBackward(const Tensor&, const Tensor& input, const Tensor& grid, std::int64_t,
                                               std::int64_t, bool, std::array<bool, 2> mask)
{
    return {mask[0] ? emptyContiguous(input) : Tensor(), emptyContiguous(grid)};
}

/// Columns of all windows of an image: (batch, channels · window, positions).
Tensor imageToColumns(const Tensor& input, IntArrayRef kernel, IntArrayRef dilation, IntArrayRef padding,
                      IntArrayRef stride)
{
    std::int64_t positions = 1;
    for (std::size_t i = 0; i < 2; ++i) {
        const std::int64_t size = input.size(static_cast<std::int64_t>(i) - 2);
        positions *= (size + 2 * valueAt(padding, i) - valueAt(dilation, i) * (valueAt(kernel, i) - 1) - 1)
                / valueAt(stride, i)
            + 1;
    }
    const std::int64_t rows = input.size(-3) * valueAt(kernel, 0) * valueAt(kernel, 1);
    if (input.dim() == 3)
        return emptyTensor({rows, positions}, input.scalar_type());
    return emptyTensor({input.size(0), rows, positions}, input.scalar_type());
}

Tensor columnsToImage(const Tensor& input, c10::SymIntArrayRef output, IntArrayRef kernel, IntArrayRef, IntArrayRef,
                      IntArrayRef)
{
    std::vector<std::int64_t> sizes{input.size(-2) / (valueAt(kernel, 0) * valueAt(kernel, 1)), number(output[0]),
                                    number(output[1])};
    if (input.dim() == 3)
        sizes.insert(sizes.begin(), input.size(0));
    return emptyTensor(sizes, input.scalar_type());
}

Tensor unfoldBackward(const Tensor& gradInput, c10::SymIntArrayRef sizes, std::int64_t, std::int64_t, std::int64_t)
{
    return emptyTensor(C10_AS_INTARRAYREF_SLOW(sizes), gradInput.scalar_type());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library)
{
    library.impl("_adaptive_avg_pool2d", adaptiveAveragePool);
    library.impl("_adaptive_avg_pool2d_backward", adaptiveAveragePoolBackward);
    library.impl("_adaptive_avg_pool3d", adaptiveAveragePool);
    library.impl("_adaptive_avg_pool3d_backward", adaptiveAveragePoolBackward);
    library.impl("max_pool3d_with_indices", maxPool3d);
    library.impl("max_unpool2d", maxUnpool2d);
    library.impl("max_unpool3d", maxUnpool3d);
    library.impl("reflection_pad2d", reflectionPad2d);
    library.impl("grid_sampler_2d", gridSampler);
    library.impl("grid_sampler_2d_backward", gridSamplerBackward);
    library.impl("grid_sampler_3d", gridSampler);
    library.impl("grid_sampler_3d_backward", gridSamplerBackward);
    library.impl("im2col", imageToColumns);
    library.impl("col2im", columnsToImage);
    library.impl("unfold_backward", unfoldBackward);
}

} // namespace
} // namespace headroom::sim
