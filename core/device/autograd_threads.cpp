// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/autograd_threads.h"

#include "core/device/simulated_device.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace headroom::sim {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Passes its gradient on. Its backward pass runs no op and leaves no Python object in autograd's thread.
struct Identity : torch::autograd::Function<Identity>
{
    static at::Tensor forward(AutogradContext*, const at::Tensor& input) { return at::empty_like(input); }
    static variable_list backward(AutogradContext*, variable_list gradients) { return gradients; }
};

} // namespace

void awaitAutogradThread()
{
    // The thread runs one task after the other: when this one is done, all earlier ones have been released.
    const c10::AutoGradMode gradients(true);
    const at::TensorOptions none = at::device(device());
    const at::Tensor input = at::empty({0}, none).requires_grad_();
    const at::Tensor output = Identity::apply(input);
    torch::autograd::grad({output}, {input}, {at::empty({0}, none)});
}

} // namespace headroom::sim
