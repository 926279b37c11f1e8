// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/util/FunctionRef.h>

namespace headroom {

/// Reports every op of this thread to the active recording for as long as the object lives. Ops are seen below autograd
/// and above all backends, so op names are the names of PyTorch's dispatch modes. Autograd's threads inherit the
/// dispatch keys of the thread that calls backward, so the ops of autograd's threads are reported too.
class Interception
{
public:
    Interception();
    ~Interception();
    Interception(const Interception&) = delete;
    Interception& operator=(const Interception&) = delete;

private:
    bool outer_; ///< whether interception was on before
};

/// Intercepts the ops that a program calls, at the same level as Interception: an interposer sees what PyTorch's
/// dispatch modes see, not the ops that a composite kernel calls.
class OpInterposer
{
public:
    virtual ~OpInterposer() = default;

    /// Handles an op. `run` runs the op: the arguments on top of `stack` become the results. An interposer may run the
    /// op itself.
    virtual void call(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::function_ref<void()> run) = 0;
};

/// Passes the ops of this thread through `interposer` for as long as the scope lives. Scopes nest: the innermost comes
/// first, and `run` continues with the next outer scope.
class InterpositionScope
{
public:
    explicit InterpositionScope(OpInterposer& interposer);
    ~InterpositionScope();
    InterpositionScope(const InterpositionScope&) = delete;
    InterpositionScope& operator=(const InterpositionScope&) = delete;

    OpInterposer& interposer() const { return interposer_; }
    const InterpositionScope* outer() const { return outer_; }

private:
    Interception interception_;
    OpInterposer& interposer_;
    const InterpositionScope* outer_;
};

/// Turns interception on for the rest of this thread's life. Interception routes ops to the simulated CUDA device, so
/// every thread of a program on that device needs interception (core/device/cuda_device.h).
void interceptThread();

} // namespace headroom
