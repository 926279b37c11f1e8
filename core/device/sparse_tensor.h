// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

namespace headroom {

/// Calls visit(tensor) for the tensor, or for the values and the indices of a sparse one, which hold its memory.
void forEachDense(const at::Tensor& tensor, c10::function_ref<void(const at::Tensor&)> visit);

/// Returns the sparse tensor with other values and indices, without its autograd history.
at::Tensor withDense(const at::Tensor& sparse, const at::Tensor& values, const at::Tensor& indices);

namespace sim {

/// Replaces the function for CUDA with which libtorch computes on the indices of sparse tensors past the dispatcher.
void claimSparseStubs();

} // namespace sim
} // namespace headroom
