// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/cost/roofline.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>

namespace headroom {

/// The simulated device registered as DeviceType::CUDA, for Python programs written for a GPU: CUDA tensors without
/// memory. The kernels come from the device `sim` at PrivateUse1. Ops reach the kernels through the interceptor
/// (core/record/interceptor.h) and through every kernel that was registered for CUDA.
namespace sim {

/// Call this once, before Python imports torch: the import queries CUDA's hooks.
void claimCuda();

/// Call this once, after the import of torch. Sets up the allocator, the guard, the kernels and the memory limit of the
/// card. Error (badInput): torch has already taken CUDA's own hooks.
Status simulateCuda(const DeviceSpec& spec);

/// Call this after simulateCuda() in a process that simulates one rank of a distributed job: collectives on the CPU too
/// contact no other process.
void joinJob();

/// Runs an op on the simulated device if that device is CUDA and the op concerns the device; otherwise dispatches the
/// op by `keys`.
void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

} // namespace sim
} // namespace headroom
