// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/interceptor.h"

#include "core/device/cuda_device.h"
#include "core/device/simulated_state.h"
#include "core/device/source_frames.h"
#include "core/device/unsupported.h"
#include "core/record/captured_graph.h"
#include "core/record/step_recording.h"
#include "core/record/subclass_calls.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/library.h>

#include <optional>
#include <utility>

namespace headroom {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;

/// The key of the interceptor. libtorch reserves the key for fake tensors in C++, but has no such tensors. The key is
/// just below autograd and above Python's dispatch modes; from torch 2.13 on below the modes.
constexpr DispatchKey interceptionKey = DispatchKey::Fake;

/// Number of nested ops that run in this thread: an op that a composite kernel calls is part of the outer op.
thread_local int depth = 0;
thread_local const InterpositionScope* innermost = nullptr;

class DepthScope
{
public:
    DepthScope() { ++depth; }
    ~DepthScope() { --depth; }
    DepthScope(const DepthScope&) = delete;
    DepthScope& operator=(const DepthScope&) = delete;
};

/// Records an op. The destructor ends the op in the recording if the kernel throws.
class OpScope
{
public:
    OpScope(StepRecording& recording, const c10::OperatorHandle& op, const torch::jit::Stack& stack)
        : recording_(recording)
        , fallbacks_(sim::simulatedState().fallbackCount)
        , opaqueFlops_(sim::opaqueFlops())
    {
        running_.flags |= isInSubclass() ? opInSubclass : 0;
        recording_.beginOp(op, stack, running_);
        frame_.emplace(running_.frame);
        recording_.enterTrace(running_);
    }
    ~OpScope()
    {
        if (!ended_)
            end(nullptr);
    }
    OpScope(const OpScope&) = delete;
    OpScope& operator=(const OpScope&) = delete;

    void end(const torch::jit::Stack* stack)
    {
        ended_ = true;
        recording_.leaveTrace(running_);
        if (sim::simulatedState().fallbackCount != fallbacks_)
            running_.flags |= opFallback;
        running_.cost.giveFlops(sim::opaqueFlops() - opaqueFlops_);
        recording_.endOp(running_, stack);
    }

    std::string module() const { return recording_.moduleOf(running_); }

private:
    StepRecording& recording_;
    StepRecording::RunningOp running_;
    std::optional<sim::FrameScope> frame_;
    std::int64_t fallbacks_;
    double opaqueFlops_;
    bool ended_ = false;
};

void run(const c10::OperatorHandle& op, DispatchKeySet below, torch::jit::Stack& stack)
{
    const DepthScope inside;
    const std::shared_ptr<StepRecording> recording = StepRecording::active();
    if (!recording) {
        sim::call(op, below, &stack);
        return;
    }
    OpScope scope(*recording, op, stack);
    try {
        sim::call(op, below, &stack);
    } catch (const sim::CannotSimulate& error) {
        const std::string module = scope.module();
        if (module.empty())
            throw;
        throw error.inModule(module);
    }
    scope.end(&stack);
}

void runThrough(const InterpositionScope* scope, const c10::OperatorHandle& op, DispatchKeySet below,
                torch::jit::Stack& stack)
{
    if (!scope)
        run(op, below, stack);
    else
        scope->interposer().call(op, stack, [&] { runThrough(scope->outer(), op, below, stack); });
}

/// Passes the op to a Python dispatch mode (such as selective checkpointing) or tensor subclass. Ops of the mode or
/// subclass come to the interceptor again; libtorch's own fallback would exclude all keys above Python's, the
/// interceptor's included. From torch 2.13 on the interceptor is below Python, and libtorch's fallback has already run.
void interceptAbovePython(const c10::OperatorHandle& op, DispatchKeySet below, torch::jit::Stack* stack)
{
    using Modes = c10::impl::TorchDispatchModeTLS;
    // Ops on fake tensors, which PyTorch's tracers run, take no memory and no time.
    if (Modes::get_mode(c10::impl::TorchDispatchModeKey::FAKE)) {
        op.redispatchBoxed(below, stack);
        return;
    }
    static const DispatchKeySet abovePython = DispatchKeySet(DispatchKeySet::FULL)
        - (DispatchKeySet(DispatchKeySet::FULL_AFTER, DispatchKey::Python) | DispatchKeySet(DispatchKey::Python));
    const c10::impl::ExcludeDispatchKeyGuard guard(abovePython.remove(interceptionKey));
    callPython(op, stack);
}

void intercept(const c10::OperatorHandle& op, DispatchKeySet keys, torch::jit::Stack* stack)
{
    const DispatchKeySet below = keys & DispatchKeySet(DispatchKeySet::FULL_AFTER, interceptionKey);
    if (below.has(DispatchKey::Python))
        interceptAbovePython(op, below, stack);
    else if (depth > 0)
        sim::call(op, below, stack);
    else
        CapturedGraph::run(op, *stack, [&] { runThrough(innermost, op, below, *stack); });
}

TORCH_LIBRARY_IMPL(_, Fake, library)
{
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&intercept>());
}

} // namespace

Interception::Interception()
    : outer_(c10::impl::tls_is_dispatch_key_included(interceptionKey))
{
    c10::impl::tls_set_dispatch_key_included(interceptionKey, true);
}

Interception::~Interception()
{
    c10::impl::tls_set_dispatch_key_included(interceptionKey, outer_);
}

InterpositionScope::InterpositionScope(OpInterposer& interposer)
    : interposer_(interposer)
    , outer_(std::exchange(innermost, this))
{
}

InterpositionScope::~InterpositionScope()
{
    innermost = outer_;
}

void interceptThread()
{
    c10::impl::tls_set_dispatch_key_included(interceptionKey, true);
}

} // namespace headroom
