// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Tensor.h>

namespace headroom::sim {

/// New tensors on the simulated device, without a dispatch: what a kernel allocates belongs to its op.
at::Tensor emptyTensor(at::IntArrayRef sizes, at::ScalarType type);
at::Tensor emptyTensor(at::IntArrayRef sizes, at::ScalarType type, at::MemoryFormat format);
at::Tensor emptyStrided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type);

/// As at::empty_like with the preserve format.
at::Tensor emptyLike(const at::Tensor& tensor, at::ScalarType type);
at::Tensor emptyLike(const at::Tensor& tensor);

/// Contiguous, of the same sizes.
at::Tensor emptyContiguous(const at::Tensor& tensor);

/// The number behind a size that cannot be symbolic here.
std::int64_t number(const c10::SymInt& size);

} // namespace headroom::sim
