// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

namespace headroom {

/// Calls visit(tensor) for the tensor. For a sparse tensor, calls visit() for the values and the indices, which hold
/// the memory.
void forEachDense(const at::Tensor& tensor, c10::function_ref<void(const at::Tensor&)> visit);

/// Returns the sparse tensor with other values and indices, without autograd history.
at::Tensor withDense(const at::Tensor& sparse, const at::Tensor& values, const at::Tensor& indices);

namespace sim {

/// Replaces libtorch's CUDA function for the indices of sparse tensors: libtorch calls that function past the
/// dispatcher.
void claimSparseStubs();

} // namespace sim
} // namespace headroom
