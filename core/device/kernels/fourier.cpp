// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Fourier transforms (aten/src/ATen/native/cuda/SpectralOps.cpp): cuFFT transforms the innermost dimensions, and the
// result keeps the order of dimensions after cuFFT. Plans and workspaces are not simulated.
#include "core/device/allocate.h"

#include <c10/core/ScalarType.h>
#include <torch/library.h>

#include <algorithm>
#include <vector>

namespace headroom::sim {
namespace {

using at::IntArrayRef;
using at::Tensor;

using Dimensions = std::vector<std::int64_t>;

std::size_t index(std::int64_t dimension)
{
    return static_cast<std::size_t>(dimension);
}

/// Returns all dimensions in the order of memory after a transform of `transformed`: the others by falling stride, then
/// the transformed dimensions.
Dimensions memoryOrder(IntArrayRef strides, const Dimensions& transformed)
{
    Dimensions order;
    for (std::int64_t dim = 0; dim < static_cast<std::int64_t>(strides.size()); ++dim) {
        if (std::find(transformed.begin(), transformed.end(), dim) == transformed.end())
            order.push_back(dim);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return strides[index(a)] > strides[index(b)]; });
    order.insert(order.end(), transformed.begin(), transformed.end());
    return order;
}

Dimensions stridesIn(const Dimensions& order, IntArrayRef sizes)
{
    Dimensions strides(sizes.size());
    std::int64_t step = 1;
    for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
        strides[index(*dim)] = step;
        step *= std::max<std::int64_t>(sizes[index(*dim)], 1);
    }
    return strides;
}

constexpr std::size_t dimensionsAtOnce = 3; // of a cuFFT plan

/// Returns the strides after a transform of `dims`, a few at a time, beginning with the smallest strides.
Dimensions transformedStrides(Dimensions strides, IntArrayRef sizes, Dimensions dims)
{
    while (!dims.empty()) {
        std::stable_sort(dims.begin(), dims.end(),
                         [&](std::int64_t a, std::int64_t b) { return strides[index(a)] > strides[index(b)]; });
        const auto first = dims.end() - static_cast<std::ptrdiff_t>(std::min(dimensionsAtOnce, dims.size()));
        strides = stridesIn(memoryOrder(strides, Dimensions(first, dims.end())), sizes);
        dims.erase(first, dims.end());
    }
    return strides;
}

/// Returns whether cuFFT transforms all of `dims` in a single plan, including the real dimension.
bool inOnePlan(const Dimensions& dims)
{
    return dims.size() <= dimensionsAtOnce && !(dims.size() >= 2 && dims[0] == 0 && dims[1] == 1);
}

Dimensions wrapped(const Tensor& self, IntArrayRef dims)
{
    Dimensions result = dims.vec();
    for (std::int64_t& dim : result)
        dim = dim < 0 ? dim + self.dim() : dim;
    return result;
}

Tensor complexToComplex(const Tensor& self, c10::SymIntArrayRef dims, std::int64_t, bool)
{
    if (dims.empty())
        return emptyLike(self);
    const Dimensions strides
        = transformedStrides(self.strides().vec(), self.sizes(), wrapped(self, C10_AS_INTARRAYREF_SLOW(dims)));
    return emptyStrided(self.sizes(), strides, self.scalar_type());
}

/// If a single plan is not enough, the last dimension is transformed first, since the result is half as long.
Tensor realToComplex(const Tensor& self, IntArrayRef dims, std::int64_t, bool oneSided)
{
    Dimensions rest = wrapped(self, dims);
    const std::int64_t last = rest.back();
    Dimensions sizes = self.sizes().vec();
    if (oneSided)
        sizes[index(last)] = self.size(last) / 2 + 1;
    if (inOnePlan(rest))
        return emptyStrided(sizes, stridesIn(memoryOrder(self.strides(), rest), sizes),
                            c10::toComplexType(self.scalar_type()));
    rest.pop_back();
    Dimensions strides = stridesIn(memoryOrder(self.strides(), {last}), sizes);
    strides = transformedStrides(std::move(strides), sizes, std::move(rest));
    return emptyStrided(sizes, strides, c10::toComplexType(self.scalar_type()));
}

/// cuFFT overwrites the input, so the input is copied. The last dimension is transformed last.
Tensor complexToReal(const Tensor& self, IntArrayRef dims, std::int64_t, c10::SymInt lastSize)
{
    Dimensions rest = wrapped(self, dims);
    const std::int64_t last = rest.back();
    Dimensions sizes = self.sizes().vec();
    sizes[index(last)] = number(lastSize);
    const at::ScalarType type = c10::toRealValueType(self.scalar_type());
    const Tensor copy = emptyContiguous(self);
    if (inOnePlan(rest))
        return emptyStrided(sizes, stridesIn(memoryOrder(copy.strides(), rest), sizes), type);
    rest.pop_back();
    const Dimensions between
        = rest.empty() ? copy.strides().vec() : transformedStrides(self.strides().vec(), self.sizes(), std::move(rest));
    return emptyStrided(sizes, stridesIn(memoryOrder(between, {last}), sizes), type);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library)
{
    library.impl("_fft_c2c", complexToComplex);
    library.impl("_fft_r2c", realToComplex);
    library.impl("_fft_c2r", complexToReal);
}

} // namespace
} // namespace headroom::sim
