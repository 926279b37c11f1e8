// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/util/FunctionRef.h>

namespace headroom {

/// While it lives, reports every op of this thread to the active recording. Ops are seen below autograd and above all
/// backends, so that their names are those of PyTorch's dispatch modes. Autograd's threads inherit the dispatch keys of
/// the thread that calls backward, so their ops are reported too.
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

/// Intercepts the ops that a program calls, at the same level as Interception: it sees what PyTorch's dispatch modes
/// see, not the ops that a composite kernel calls.
class OpInterposer
{
public:
    virtual ~OpInterposer() = default;

    /// Handles one op. `run` runs it: the op's arguments on top of `stack` become its results. An interposer may run
    /// the op itself.
    virtual void call(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::function_ref<void()> run) = 0;
};

/// While it lives, the ops of this thread pass through `interposer`. Scopes nest: the innermost comes first, and its
/// `run` continues with the next outer one.
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

/// Turns interception on for the rest of this thread's life. Every thread of a program on a simulated CUDA device needs
/// it: it routes ops to the device (core/device/cuda_device.h).
void interceptThread();

} // namespace headroom
