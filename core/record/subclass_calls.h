// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace headroom {

/// Passes an op to Python. Dispatch modes and tensor subclasses (__torch_dispatch__) handle the op there.
void callPython(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Returns whether a tensor subclass handles an op now, in this thread.
bool isInSubclass();

/// Also counts the ops that libtorch itself passes to Python. From torch 2.13 on libtorch does so before the
/// interceptor.
void countSubclassCalls();

} // namespace headroom
