// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/util/FunctionRef.h>

namespace headroom {

/// Reports every op that this thread calls to the active recording while it lives: below autograd and above all
/// backends, so that op names are those of PyTorch's dispatch modes. Autograd's threads work with the keys of the
/// thread that calls backward, so theirs are reported too.
class Interception
{
public:
    Interception();
    ~Interception();
    Interception(const Interception&) = delete;
    Interception& operator=(const Interception&) = delete;

private:
    bool outer_; ///< interception was on before
};

/// Stands between a program and the ops that it calls, at the same place: sees what PyTorch's dispatch modes see, not
/// what a composite kernel calls inside of its op.
class OpInterposer
{
public:
    virtual ~OpInterposer() = default;

    /// `run` runs the op: its arguments, the last on the stack, become its results. An interposer may do that itself.
    virtual void call(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::function_ref<void()> run) = 0;
};

/// Ops that this thread calls pass through `interposer` while it lives. Scopes nest: the innermost is asked first, and
/// its `run` passes through the others.
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

/// The same for the rest of this thread's life. On a simulated CUDA device every thread of a program needs it: ops find
/// the device there (core/device/cuda_device.h).
void interceptThread();

} // namespace headroom
