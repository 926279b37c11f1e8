// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace headroom::sim {

/// Deferred values of large CPU tensors. Programs build and initialise models on the CPU and then move them to the
/// device, where the values are lost. So the random values of a large CPU tensor are drawn only at the first read: by
/// any op that reads values, or by makeValues(). The program sees no difference: the generator advances at once by the
/// count of the values, and the values are drawn later from the saved state. Tensors that are only moved to the device
/// never cost their pages.
///
/// An optimizer on the CPU continues with such values, and with gradients that are unread copies from the device. The
/// elementwise ops of an optimizer are deferred too, and run in the order of the program when a result is read.
///
/// Defers an op on the CPU. Returns false if the op has to run now.
bool deferFill(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Computes the deferred values of all CPU tensors that an op is about to read.
void makeArguments(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

/// Computes the deferred values of a tensor, before a program reads its memory without an op.
void makeValues(const at::Tensor& tensor);

/// Does what makeValues() does, and computes all later values of the tensor's storage at once, before a program keeps
/// the address of the memory.
void exposeValues(const at::Tensor& tensor);

/// Enables deferral, which is off at first. The caller must use makeValues() before reads of memory without an op.
void enableDeferredFills();

} // namespace headroom::sim
