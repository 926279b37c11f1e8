// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <span>

namespace headroom::sim {

/// The number of the result of an op that says which elements were chosen along a dimension by their values (topk,
/// argmax, sort, multinomial); -1 of other ops.
int chosenResult(const c10::OperatorHandle& op);

/// What such an op chooses where the values are not known, as a CPU tensor like its result `chosen`: within a row no
/// element twice, and going on from row to row, so that all are chosen equally often. The experts of a mixture are sent
/// as many tokens each as in a training that balances them.
at::Tensor evenChoice(const c10::OperatorHandle& op, std::span<const c10::IValue> arguments, const at::Tensor& chosen);

} // namespace headroom::sim
