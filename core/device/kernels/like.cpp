// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Tensors like another one. libtorch composes them of other ops, which would all be dispatched; optimizers and backward
// create many.
#include "core/device/allocate.h"
#include "core/device/simulated_state.h"

#include <ATen/ops/empty_like_native.h>
#include <ATen/ops/full_like_native.h>
#include <ATen/ops/ones_like_native.h>
#include <ATen/ops/zeros_like_native.h>
#include <torch/library.h>

#include <optional>

namespace headroom::sim {
namespace {

using at::Tensor;

/// The options in which the new tensor differs from the original.
struct Differences
{
    std::optional<at::ScalarType> type;
    std::optional<at::Layout> layout;
    std::optional<at::Device> device;
    std::optional<bool> pinned;
    std::optional<at::MemoryFormat> format;
};

/// Returns whether the dimensions of the tensor have names. Torch 2.13 removed them.
bool hasNames(const auto& self)
{
    if constexpr (requires { self.has_names(); })
        return self.has_names();
    else
        return false;
}

/// Returns whether original and result are dense, unnamed tensors on the simulated device.
bool isOrdinary(const Tensor& self, const Differences& other)
{
    return isSimulated(self.device()) && isSimulated(other.device.value_or(self.device()))
        && self.layout() == at::kStrided && other.layout.value_or(at::kStrided) == at::kStrided
        && !other.pinned.value_or(false) && !hasNames(self);
}

Tensor like(const Tensor& self, const Differences& other)
{
    const at::ScalarType type = other.type.value_or(self.scalar_type());
    const at::MemoryFormat format = other.format.value_or(at::MemoryFormat::Preserve);
    return format == at::MemoryFormat::Preserve ? emptyLike(self, type) : emptyTensor(self.sizes(), type, format);
}

/// The kernel of empty_like, zeros_like and ones_like; `native` is libtorch's own function.
template <auto native>
Tensor likeKernel(const Tensor& self, std::optional<at::ScalarType> type, std::optional<at::Layout> layout,
                  std::optional<at::Device> device, std::optional<bool> pinned, std::optional<at::MemoryFormat> format)
{
    const Differences other{type, layout, device, pinned, format};
    return isOrdinary(self, other) ? like(self, other) : native(self, type, layout, device, pinned, format);
}

Tensor fullLike(const Tensor& self, const at::Scalar& value, std::optional<at::ScalarType> type,
                std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool> pinned,
                std::optional<at::MemoryFormat> format)
{
    const Differences other{type, layout, device, pinned, format};
    return isOrdinary(self, other) ? like(self, other)
                                   : at::native::full_like(self, value, type, layout, device, pinned, format);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library)
{
    library.impl("empty_like", likeKernel<at::native::empty_like>);
    library.impl("zeros_like", likeKernel<at::native::zeros_like>);
    library.impl("ones_like", likeKernel<at::native::ones_like>);
    library.impl("full_like", fullLike);
}

} // namespace
} // namespace headroom::sim
