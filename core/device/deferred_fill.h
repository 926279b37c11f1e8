// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace headroom::sim {

/// Models are built on the CPU, initialised there and moved to the device, where their values are gone. So the random
/// values of a large CPU tensor are made when they are first read: by any op that is not a view, or by makeValues().
/// What the program sees is the same: the generator is moved on at once by what the values take, and the values are
/// drawn later from the state that it had. Tensors that are only moved to the device never cost their pages.
///
/// Puts an op on the CPU off; false: it is not one of those that fill tensors, or has to run now.
bool deferFill(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Makes the values of all CPU tensors that an op is about to read.
void makeArguments(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

/// The same for one tensor, of which a program reads the memory without an op.
void makeValues(const at::Tensor& tensor);

/// Nothing is put off before this call. The caller promises to use makeValues() where it reads memory without an op.
void enableDeferredFills();

} // namespace headroom::sim
