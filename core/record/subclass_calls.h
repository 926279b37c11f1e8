// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace headroom {

/// Hands an op to Python, whose dispatch modes and tensor subclasses (__torch_dispatch__) make other ops of it.
void callPython(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Whether a tensor subclass makes other ops of an op now, in this thread.
bool isInSubclass();

/// Counts also what libtorch itself hands to Python: from torch 2.13 on it does so before ops come to the interceptor.
void countSubclassCalls();

} // namespace headroom
