// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/cost/roofline.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>

namespace headroom {

/// The simulated device as DeviceType::CUDA itself, for Python programs that were written for a GPU: real CUDA tensors
/// whose memory is not there. The kernels are those of the device `sim`, at PrivateUse1; ops come to them from the
/// interceptor (core/record/interceptor.h), and from all kernels that were registered for CUDA.
namespace sim {

/// Before Python imports torch, which asks for CUDA's hooks then, and only once.
void claimCuda();

/// After it, once in a process: allocator, guard, kernels, and a memory as large as the card's. Fails when torch took
/// CUDA's own hooks already.
Status simulateCuda(const DeviceSpec& spec);

/// After that: this process is one of a distributed job, and collectives on the CPU too ask no other one.
void joinJob();

/// Runs an op: on the simulated device if that is CUDA and the op concerns it, else where its keys say.
void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

} // namespace sim
} // namespace headroom
