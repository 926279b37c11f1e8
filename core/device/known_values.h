// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace headroom::sim {

/// A program decides by small numbers (a loss scale, a count, a flag), and by masks, lengths, labels and positions,
/// which come from its data. Tensors whose storage is at most this large keep their contents, as long as these follow
/// from contents that are known; everything larger has none. Integers may be more than others: with those little is
/// computed but comparisons and sums, and all other tensors of that size are weights and activations.
inline Bytes knownValuesLimit(at::ScalarType type)
{
    return at::isIntegralType(type, /*includeBool=*/true) ? 4 * MiB : 64 * KiB;
}

/// The contents of a tensor on the device, as a CPU tensor on the same values; undefined when they are not known.
at::Tensor knownValues(const at::Tensor& tensor);

/// Whether known contents follow from an invented choice (even_choice.h).
bool areInvented(const at::Tensor& tensor);

/// Runs an op on the simulated device, and on the CPU too when the contents of all that it reads are known: its results
/// then have their true values, and their true sizes where these depend on values.
void callWithKnownValues(const c10::OperatorHandle& op, torch::jit::Stack* stack);

} // namespace headroom::sim
