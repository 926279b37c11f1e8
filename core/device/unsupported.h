// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace headroom::sim {

/// Kernels for tensors that the simulated device does not support: they throw an error that names the op.
void refuseSparse(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void refuseQuantized(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void refuseNested(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void refuseSymmetric(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Returns whether the op belongs to symmetric memory. The Meta kernels of these ops ignore the communication.
bool isSymmetric(const c10::OperatorHandle& op);

/// Throws if a tensor that an op received or created is not dense.
void refuseOthersThanDense(const c10::OperatorHandle& op, const at::Tensor& tensor);

} // namespace headroom::sim
