// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Creating, copying and reading tensors. These kernels run only if the values are not known (known_values.cpp): a value
// that the program reads here is a placeholder, and counted. Then tensors like another tensor: libtorch composes such
// factories of other ops, with a dispatch of each; optimizers and backward create many.

#include "core/device/allocate.h"
#include "core/device/kernels/known_sizes.h"
#include "core/device/known_storage.h"
#include "core/device/placeholder_values.h"
#include "core/device/simulated_hooks.h"
#include "core/device/simulated_state.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/empty_like_native.h>
#include <ATen/ops/full_like_native.h>
#include <ATen/ops/ones_like_native.h>
#include <ATen/ops/zeros_like_native.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/accumulate.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

namespace headroom::sim {
namespace {

using at::Tensor;

at::ScalarType typeOrDefault(std::optional<at::ScalarType> type)
{
    return type.value_or(c10::get_default_dtype_as_scalartype());
}

Tensor empty(c10::SymIntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout>,
             std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format)
{
    return emptyTensor(C10_AS_INTARRAYREF_SLOW(sizes), typeOrDefault(type),
                       format.value_or(at::MemoryFormat::Contiguous));
}

Tensor emptyStridedKernel(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides, std::optional<at::ScalarType> type,
                          std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>)
{
    return emptyStrided(C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides), typeOrDefault(type));
}

Placeholder kindOf(const Tensor& tensor)
{
    return tensor.scalar_type() == at::kBool ? Placeholder::truth : Placeholder::number;
}

/// Fills the destination of a copy from the device, a CPU tensor, with zeros.
void fillPlaceholders(const Tensor& tensor)
{
    if (tensor.device().is_cpu())
        zeroHostMemory(tensor);
    leaveOnHost(tensor, {Known::nothing, {}, {}, std::nullopt, kindOf(tensor)});
}

Tensor& copy(Tensor& self, const Tensor& source, bool)
{
    requireExpandable(source, self);
    if (!isSimulated(self.device()))
        fillPlaceholders(self);
    return self;
}

Tensor copyFrom(const Tensor&, const Tensor& destination, bool)
{
    if (!isSimulated(destination.device()))
        fillPlaceholders(destination);
    return destination;
}

at::Scalar localScalar(const Tensor& tensor)
{
    countPlaceholder(kindOf(tensor));
    if (tensor.scalar_type() == at::kBool)
        return false;
    if (at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false))
        return std::int64_t{1};
    return 1.0;
}

bool equal(const Tensor&, const Tensor&)
{
    countPlaceholder(Placeholder::truth);
    return true;
}

Tensor& setTensor(Tensor& self, const Tensor& source)
{
    c10::TensorImpl* impl = self.unsafeGetTensorImpl();
    impl->set_storage_keep_dtype(source.storage());
    impl->set_sizes_and_strides(source.sizes(), source.strides(), source.storage_offset());
    return self;
}

/// The layout is that of aten/src/ATen/native/cuda/Nonzero.cu: dimension by dimension.
Tensor positionsOf(const Tensor& tensor)
{
    const std::int64_t count = countNonzero(tensor);
    return emptyStrided({count, tensor.dim()}, {1, count}, at::kLong);
}

Tensor& positionsInto(const Tensor& tensor, Tensor& out)
{
    const Tensor positions = positionsOf(tensor);
    if (out.sizes() == positions.sizes())
        return out;
    return setTensor(out, positions);
}

/// Returns how many elements a mask selects. A mask that is expanded selects in each repetition.
std::int64_t selectedBy(const Tensor& self, const Tensor& mask)
{
    const std::int64_t all = c10::multiply_integers(at::infer_size(self.sizes(), mask.sizes()));
    return all == 0 ? 0 : countNonzero(mask) * (all / mask.numel());
}

Tensor maskedSelect(const Tensor& self, const Tensor& mask)
{
    return emptyTensor({selectedBy(self, mask)}, self.scalar_type());
}

Tensor& maskedSelectInto(const Tensor& self, const Tensor& mask, Tensor& out)
{
    return const_cast<Tensor&>(out.resize_({selectedBy(self, mask)}));
}

/// Follows aten/src/ATen/native/TensorAdvancedIndexing.cpp. If the number of selected elements is not known, the source
/// limits the number.
Tensor maskedScatterBackward(const Tensor& gradOutput, const Tensor& mask, c10::SymIntArrayRef sizes)
{
    const at::IntArrayRef shape = C10_AS_INTARRAYREF_SLOW(sizes);
    const std::int64_t elements = c10::multiply_integers(shape);
    const std::int64_t selected = std::min(selectedBy(gradOutput, mask), elements);
    Tensor result = emptyTensor({selected}, gradOutput.scalar_type());
    if (selected < elements) {
        const Tensor zeros = emptyTensor({elements - selected}, gradOutput.scalar_type());
        result = emptyTensor({elements}, gradOutput.scalar_type());
    }
    result.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
    return result;
}

/// The number of unique elements depends on values: the upper bound is the number of elements.
std::tuple<Tensor, Tensor, Tensor> unique(const Tensor& self, bool, bool returnInverse, bool returnCounts)
{
    countPlaceholder(Placeholder::size);
    return {emptyTensor({self.numel()}, self.scalar_type()),
            returnInverse ? emptyTensor(self.sizes(), at::kLong) : emptyTensor({0}, at::kLong),
            emptyTensor({returnCounts ? self.numel() : 0}, at::kLong)};
}

Tensor& setStorageOffset(Tensor& self, at::Storage storage, c10::SymInt offset, c10::SymIntArrayRef sizes,
                         c10::SymIntArrayRef strides)
{
    c10::TensorImpl* impl = self.unsafeGetTensorImpl();
    impl->set_storage_keep_dtype(std::move(storage));
    impl->set_sizes_and_strides(C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides), number(offset));
    return self;
}

Tensor& setStorage(Tensor& self, at::Storage storage)
{
    const auto elements = static_cast<std::int64_t>(storage.nbytes() / self.dtype().itemsize());
    c10::TensorImpl* impl = self.unsafeGetTensorImpl();
    impl->set_storage_keep_dtype(std::move(storage));
    impl->set_sizes_and_strides(at::IntArrayRef(elements), at::IntArrayRef(std::int64_t{1}), 0);
    return self;
}

Tensor& setEmpty(Tensor& self)
{
    return setTensor(self, emptyTensor({0}, self.scalar_type()));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library)
{
    library.impl("empty.memory_format", empty);
    library.impl("empty_strided", emptyStridedKernel);
    library.impl("copy_", copy);
    library.impl("_copy_from", copyFrom);
    library.impl("_local_scalar_dense", localScalar);
    library.impl("equal", equal);
    library.impl("nonzero", positionsOf);
    library.impl("nonzero.out", positionsInto);
    library.impl("masked_select", maskedSelect);
    library.impl("masked_select.out", maskedSelectInto);
    library.impl("masked_scatter_backward", maskedScatterBackward);
    library.impl("_unique2", unique);
    library.impl("set_.source_Storage_storage_offset", setStorageOffset);
    library.impl("set_.source_Storage", setStorage);
    library.impl("set_.source_Tensor", setTensor);
    library.impl("set_", setEmpty);
}

using at::Tensor;

/// The options that differ between the new tensor and the original.
struct Differences
{
    std::optional<at::ScalarType> type;
    std::optional<at::Layout> layout;
    std::optional<at::Device> device;
    std::optional<bool> pinned;
    std::optional<at::MemoryFormat> format;
};

/// Returns whether the dimensions of the tensor have names. Torch 2.13 removed names.
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
