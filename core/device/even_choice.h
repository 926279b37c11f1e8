// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <span>

namespace headroom::sim {

/// Returns the index of the result that holds elements chosen along a dimension by their values (topk, argmax, sort,
/// multinomial); -1 for other ops.
int chosenResult(const c10::OperatorHandle& op);

/// Returns indices in place of the choice of an op on unknown values: a CPU tensor with the sizes and the type of its
/// result `chosen`. Within a row no element appears twice, and each row continues where the last one ended, so
/// that all elements are chosen equally often. The experts of a mixture then get equally many tokens, as in a training
/// that balances them.
at::Tensor evenChoice(const c10::OperatorHandle& op, std::span<const c10::IValue> arguments, const at::Tensor& chosen);

} // namespace headroom::sim
