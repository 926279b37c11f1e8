// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/allocate.h"

#include "core/device/simulated_state.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>

namespace headroom::sim {

at::Tensor emptyTensor(at::IntArrayRef sizes, at::ScalarType type)
{
    return at::Tensor(
        at::detail::empty_generic(sizes, &simulatedState().allocator, simulatedKeys(), type, std::nullopt));
}

at::Tensor emptyTensor(at::IntArrayRef sizes, at::ScalarType type, at::MemoryFormat format)
{
    return at::Tensor(at::detail::empty_generic(sizes, &simulatedState().allocator, simulatedKeys(), type, format));
}

at::Tensor emptyStrided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type)
{
    return at::Tensor(
        at::detail::empty_strided_generic(sizes, strides, &simulatedState().allocator, simulatedKeys(), type));
}

at::Tensor emptyLike(const at::Tensor& tensor, at::ScalarType type)
{
    if (tensor.is_non_overlapping_and_dense())
        return emptyStrided(tensor.sizes(), tensor.strides(), type);
    return emptyStrided(tensor.sizes(), at::infer_dense_strides(tensor.sizes(), tensor.strides()), type);
}

at::Tensor emptyLike(const at::Tensor& tensor)
{
    return emptyLike(tensor, tensor.scalar_type());
}

at::Tensor emptyContiguous(const at::Tensor& tensor)
{
    return emptyTensor(tensor.sizes(), tensor.scalar_type());
}

void resizeOut(const at::Tensor& out, at::IntArrayRef sizes)
{
    if (out.sizes() != sizes)
        out.resize_(sizes);
}

std::int64_t number(const c10::SymInt& size)
{
    return size.guard_int(__FILE__, __LINE__);
}

} // namespace headroom::sim
