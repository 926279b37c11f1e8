// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace headroom::sim {

/// Runs an op on the simulated device through its Meta kernel: arguments get meta twins that share storages as the
/// originals do, results get storages of the device by the identity of theirs (the same tensor: in place; the same
/// storage: a view; else new memory). Nothing of the schema is needed for it. The op must have a Meta kernel.
void callMeta(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Before Python imports torch, which puts Meta kernels written in Python in front of many of libtorch's: from now on
/// callMeta() takes libtorch's where there is one. They are the code by which CUDA's own kernels make their results,
/// and take a tenth of the time.
void keepOwnMetaKernels();
/// Whether libtorch's was there then.
bool hasOwnMetaKernel(const c10::OperatorHandle& op);

/// The last resort for an op without a kernel: runs it on CPU tensors of zeros to learn the shapes of its results, and
/// counts it. It really computes; an op that would need more than lastResortLimit of memory is refused.
void callOnZeros(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Keys that a kernel of the device leaves out while it calls libtorch for shapes: autograd, and the recorder's key.
c10::DispatchKeySet keysAboveBackend();

} // namespace headroom::sim
