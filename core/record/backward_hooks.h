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

/// Marks when gradients pass the borders of a module's call, as ModTracker does (torch/distributed/_tools/
/// mod_tracker.py, register_multi_grad_hook of torch/autograd/graph.py): backwardExit when the gradients of all
/// `arguments` are there, or after the backward pass when none needs one.
void hookArguments(const std::shared_ptr<StepRecording>& recording, CallId call, at::ArrayRef<at::Tensor> arguments);
/// backwardEnter when the gradient of the first of `results` is there.
void hookResults(const std::shared_ptr<StepRecording>& recording, CallId call, at::ArrayRef<at::Tensor> results);

/// Hooks of parameters, which make what arrives a gradient: as MemTracker, when it arrives and again when it has been
/// accumulated. They are taken away with this object, since parameters outlive the step.
class GradientHooks
{
public:
    GradientHooks() = default;
    ~GradientHooks();
    GradientHooks(const GradientHooks&) = delete;
    GradientHooks& operator=(const GradientHooks&) = delete;

    void add(const std::shared_ptr<StepRecording>& recording, const at::Tensor& parameter);
    void removeAll();

private:
    struct Hooked
    {
        at::Tensor parameter;
        const torch::autograd::FunctionPreHook* arrival = nullptr;
    };
    std::vector<Hooked> hooked_;
};

} // namespace headroom
