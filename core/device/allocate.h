// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Tensor.h>

namespace headroom::sim {

/// Creates a tensor on the simulated device without a dispatch, so that a kernel's allocation is attributed to the op.
at::Tensor emptyTensor(at::IntArrayRef sizes, at::ScalarType type);
at::Tensor emptyTensor(at::IntArrayRef sizes, at::ScalarType type, at::MemoryFormat format);
at::Tensor emptyStrided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type);

/// Creates a tensor as at::empty_like does with torch.preserve_format.
at::Tensor emptyLike(const at::Tensor& tensor, at::ScalarType type);
at::Tensor emptyLike(const at::Tensor& tensor);

/// Creates a contiguous tensor with the sizes and the type of `tensor`.
at::Tensor emptyContiguous(const at::Tensor& tensor);

/// Resizes the out= argument of an op to other sizes.
void resizeOut(const at::Tensor& out, at::IntArrayRef sizes);

/// Returns the value of a size. Sizes are never symbolic on this device.
std::int64_t number(const c10::SymInt& size);

} // namespace headroom::sim
