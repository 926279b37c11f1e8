// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace headroom::sim {

/// Runs an op on the simulated device through the op's Meta kernel, which must exist. Arguments become meta tensors
/// that share storages as the originals do. The storage of a result follows from identity: the same tensor as an
/// argument is an op in place, the same storage is a view, anything else gets new memory.
void callMeta(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Saves libtorch's own Meta kernels, which callMeta() then prefers. Call this before Python imports torch: the import
/// replaces many kernels with kernels written in Python. libtorch's own Meta kernels create results with the code of
/// CUDA's kernels, and take a tenth of the time.
void keepOwnMetaKernels();
/// Returns whether keepOwnMetaKernels() saved a kernel for the op.
bool hasOwnMetaKernel(const c10::OperatorHandle& op);

/// Runs an op that has no kernel on CPU tensors of zeros, to learn the shapes of its results, and counts the call. This
/// last resort computes for real, and refuses an op that would need more memory than lastResortLimit.
void callOnZeros(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// The dispatch keys that a kernel of the device excludes during its calls of libtorch for shapes: autograd's keys, and
/// the recorder's.
c10::DispatchKeySet keysAboveBackend();

} // namespace headroom::sim
