// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/record/step_recording.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace torch::autograd {
struct FunctionPreHook;
}

namespace headroom {

/// Records when the backward pass leaves a module's call, as ModTracker does (torch/distributed/_tools/mod_tracker.py,
/// register_multi_grad_hook of torch/autograd/graph.py): backwardExit once the gradients of all `arguments` are
/// computed, or after the backward pass if no argument requires a gradient.
void hookArguments(const std::shared_ptr<StepRecording>& recording, CallId call, at::ArrayRef<at::Tensor> arguments);
/// Records when the backward pass enters a module's call: backwardEnter once the gradient of any of `results` is
/// computed.
void hookResults(const std::shared_ptr<StepRecording>& recording, CallId call, at::ArrayRef<at::Tensor> results);

/// Hooks on parameters that give gradients the category gradient. As in MemTracker, a hook runs when a gradient arrives
/// and again after the accumulation. The destructor removes the hooks, since parameters outlive the step. GradientHooks
/// holds no parameter.
class GradientHooks
{
public:
    GradientHooks() = default;
    ~GradientHooks();
    GradientHooks(const GradientHooks&) = delete;
    GradientHooks& operator=(const GradientHooks&) = delete;

    void add(const std::shared_ptr<StepRecording>& recording, const at::Tensor& parameter);
    /// Returns the living parameters that had hooks.
    std::vector<at::Tensor> removeAll();

private:
    struct Hooked
    {
        WeakTensor parameter;
        const torch::autograd::FunctionPreHook* arrival = nullptr;
    };
    std::vector<Hooked> hooked_;
};

} // namespace headroom
