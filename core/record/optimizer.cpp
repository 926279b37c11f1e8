// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/native/ForeachUtils.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

namespace headroom {
namespace {

constexpr double learningRate = 1e-3; // the default of torch.optim's SGD, Adam and AdamW

using Tensors = std::vector<at::Tensor>;
using Optionals = std::vector<std::optional<at::Tensor>>;

Tensors plain(const Optionals& tensors)
{
    Tensors list;
    for (const auto& tensor : tensors)
        list.push_back(*tensor);
    return list;
}

/// torch/optim/sgd.py, _multi_tensor_sgd.
class Sgd final : public Optimizer
{
public:
    Sgd(const OptimizerChoice& choice, Tensors parameters)
        : Optimizer(std::move(parameters))
        , momentum_(choice.momentum)
        , buffers_(this->parameters().size())
    {
    }

    void step() override
    {
        const at::NoGradGuard noGrad;
        Optionals params;
        Optionals grads;
        Optionals buffers;
        std::vector<std::size_t> positions;
        for (std::size_t index = 0; index < parameters().size(); ++index) {
            const at::Tensor& parameter = parameters()[index];
            if (!parameter.grad().defined())
                continue;
            params.emplace_back(parameter);
            grads.emplace_back(parameter.grad());
            if (momentum_ != 0)
                buffers.emplace_back(buffers_[index].defined() ? std::optional(buffers_[index]) : std::nullopt);
            positions.push_back(index);
        }
        if (params.empty())
            return;
        const auto groups
            = at::native::_group_tensors_by_first_tensors_device_and_dtype({params, grads, buffers}, true);
        for (const auto& [key, group] : groups) {
            const auto& [lists, indices] = group;
            Tensors directions = plain(lists[1]);
            if (momentum_ != 0)
                directions = updatedBuffers(lists[2], directions, indices, positions);
            at::_foreach_add_(plain(lists[0]), directions, -learningRate);
        }
    }

    Tensors state() const override
    {
        Tensors state;
        for (const at::Tensor& buffer : buffers_)
            if (buffer.defined())
                state.push_back(buffer);
        return state;
    }

private:
    Tensors updatedBuffers(const Optionals& old, const Tensors& grads, const std::vector<std::size_t>& indices,
                           const std::vector<std::size_t>& positions)
    {
        if (std::ranges::all_of(old, [](const auto& buffer) { return buffer.has_value(); })) {
            Tensors buffers = plain(old);
            at::_foreach_mul_(buffers, momentum_);
            at::_foreach_add_(buffers, grads, 1);
            return buffers;
        }
        Tensors buffers;
        for (std::size_t index = 0; index < old.size(); ++index) {
            at::Tensor& kept = buffers_[positions[indices[index]]];
            if (old[index])
                kept.mul_(momentum_).add_(grads[index], 1);
            else
                kept = grads[index].detach().clone();
            buffers.push_back(kept);
        }
        return buffers;
    }

    double momentum_;
    Tensors buffers_;
};

/// torch/optim/adam.py, _multi_tensor_adam with capturable=False; AdamW is Adam with decoupled weight decay.
class Adam final : public Optimizer
{
public:
    Adam(double decoupledWeightDecay, Tensors parameters)
        : Optimizer(std::move(parameters))
        , weightDecay_(decoupledWeightDecay)
        , states_(this->parameters().size())
    {
    }

    void step() override
    {
        const at::NoGradGuard noGrad;
        Optionals params;
        Optionals grads;
        Optionals averages;
        Optionals squares;
        Optionals steps;
        for (std::size_t index = 0; index < parameters().size(); ++index) {
            const at::Tensor& parameter = parameters()[index];
            if (!parameter.grad().defined())
                continue;
            State& state = states_[index];
            if (!state.step.defined())
                state = newState(parameter);
            params.emplace_back(parameter);
            grads.emplace_back(parameter.grad());
            averages.emplace_back(state.average);
            squares.emplace_back(state.square);
            steps.emplace_back(state.step);
        }
        if (params.empty())
            return;
        const auto groups = at::native::_group_tensors_by_first_tensors_device_and_dtype(
            {params, grads, averages, squares, steps}, false);
        // A local variable of the Python function: the roots of a group live until the next group has roots.
        Tensors roots;
        for (const auto& [key, group] : groups) {
            const auto& lists = std::get<0>(group);
            update(plain(lists[0]), plain(lists[1]), plain(lists[2]), plain(lists[3]), plain(lists[4]), roots);
        }
    }

    Tensors state() const override
    {
        Tensors tensors;
        for (const State& state : states_)
            if (state.step.defined())
                tensors.insert(tensors.end(), {state.step, state.average, state.square});
        return tensors;
    }

private:
    struct State
    {
        at::Tensor step; ///< on the CPU
        at::Tensor average; ///< exp_avg
        at::Tensor square; ///< exp_avg_sq
    };
    static constexpr double beta1 = 0.9;
    static constexpr double beta2 = 0.999;
    static constexpr double epsilon = 1e-8;

    static State newState(const at::Tensor& parameter)
    {
        return {at::scalar_tensor(0.0, at::TensorOptions(at::kCPU).dtype(at::kFloat)),
                at::zeros_like(parameter, at::MemoryFormat::Preserve),
                at::zeros_like(parameter, at::MemoryFormat::Preserve)};
    }

    void update(const Tensors& params, const Tensors& grads, const Tensors& averages, const Tensors& squares,
                const Tensors& steps, Tensors& roots) const
    {
        at::_foreach_add_(steps, at::scalar_tensor(1.0, at::TensorOptions(at::kCPU).dtype(at::kFloat)), 1.0);
        if (weightDecay_ != 0)
            at::_foreach_mul_(params, 1 - learningRate * weightDecay_);
        at::_foreach_lerp_(averages, grads, 1 - beta1);
        at::_foreach_mul_(squares, beta2);
        at::_foreach_addcmul_(squares, grads, grads, 1 - beta2);

        std::vector<at::Scalar> stepSizes;
        for (const at::Tensor& step : steps)
            stepSizes.emplace_back(learningRate / (1 - std::pow(beta1, step.item<double>())) * -1);
        std::vector<at::Scalar> corrections;
        for (const at::Tensor& step : steps)
            corrections.emplace_back(std::sqrt(1 - std::pow(beta2, step.item<double>())));
        roots = at::_foreach_sqrt(squares);
        at::_foreach_div_(roots, corrections);
        at::_foreach_add_(roots, epsilon);
        at::_foreach_addcdiv_(params, averages, roots, stepSizes);
    }

    double weightDecay_;
    std::vector<State> states_;
};

} // namespace

Result<OptimizerChoice::Algorithm> parseOptimizer(std::string_view name)
{
    if (name == "sgd")
        return OptimizerChoice::Algorithm::sgd;
    if (name == "adam")
        return OptimizerChoice::Algorithm::adam;
    if (name == "adamw")
        return OptimizerChoice::Algorithm::adamw;
    return badInput("unknown optimizer '" + std::string(name) + "'; known are sgd, adam, adamw");
}

Optimizer::Optimizer(std::vector<at::Tensor> parameters)
    : parameters_(std::move(parameters))
{
}

std::unique_ptr<Optimizer> Optimizer::make(const OptimizerChoice& choice, std::vector<at::Tensor> parameters)
{
    switch (choice.kind) {
    case OptimizerChoice::Algorithm::sgd:
        return std::make_unique<Sgd>(choice, std::move(parameters));
    case OptimizerChoice::Algorithm::adam:
        return std::make_unique<Adam>(0, std::move(parameters));
    case OptimizerChoice::Algorithm::adamw:
        return std::make_unique<Adam>(1e-2, std::move(parameters));
    }
    return nullptr;
}

void Optimizer::zeroGrad()
{
    for (const at::Tensor& parameter : parameters_)
        parameter.mutable_grad().reset();
}

} // namespace headroom
