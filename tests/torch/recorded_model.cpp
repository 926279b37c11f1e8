// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/torch/recorded_model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scaled_dot_product_attention.h>

namespace headroom {

using at::Tensor;

const DeviceSpec& card()
{
    static const DeviceSpec spec = *findDeviceSpec("a100-80gb");
    return spec;
}

Tensor emptyOnCard(Sizes sizes, at::ScalarType type)
{
    return at::empty(sizes, at::TensorOptions().device(sim::device()).dtype(type));
}

Model::Model(const std::string& name)
{
    tree_.modules.push_back({name, name, ModuleId()});
}

ModuleId Model::add(const std::string& fqn, ModuleId parent)
{
    tree_.modules.push_back({fqn, "Module", parent});
    return ModuleId(static_cast<std::uint32_t>(tree_.modules.size() - 1));
}

Tensor Model::parameter(ModuleId module, const std::string& name, Sizes sizes, at::ScalarType type)
{
    Tensor tensor = emptyOnCard(std::move(sizes), type).set_requires_grad(true);
    tree_.registered.push_back({module, name, tensor, Category::parameter});
    parameters_.push_back(tensor);
    return tensor;
}

Tensor Model::buffer(ModuleId module, const std::string& name, Sizes sizes)
{
    Tensor tensor = emptyOnCard(std::move(sizes));
    tree_.registered.push_back({module, name, tensor, Category::buffer});
    return tensor;
}

void Model::clearGradients()
{
    for (Tensor& parameter : parameters_)
        parameter.mutable_grad() = Tensor();
}

Tensor Model::call(ModuleId module, const Tensor& input, const std::function<Tensor(const Tensor&)>& forward)
{
    const CallId call = Recorder::enter(module, {input});
    Tensor output = forward(input);
    Recorder::exit(call, {output});
    return output;
}

Forward mlp(Model& model)
{
    const Tensor w1 = model.parameter(ModuleId(0), "w1", {64, 32});
    const Tensor b1 = model.parameter(ModuleId(0), "b1", {64});
    const Tensor w2 = model.parameter(ModuleId(0), "w2", {16, 64});
    const Tensor x = emptyOnCard({100, 32});
    const Tensor y = emptyOnCard({100, 16});
    return [=] {
        return Model::call(ModuleId(0), x, [&](const Tensor& input) {
            Tensor h = at::gelu(at::linear(input, w1, b1));
            h = at::dropout(h, 0.1, true);
            return at::mse_loss(at::relu(at::linear(h, w2)), y);
        });
    };
}

Forward transformer(Model& model, at::ScalarType type)
{
    constexpr std::int64_t width = 64;
    constexpr std::int64_t heads = 4;
    constexpr std::int64_t vocabulary = 200;
    const ModuleId block = model.add("Net.block");
    const ModuleId attention = model.add("Net.block.attention", block);
    const Tensor embedding = model.parameter(ModuleId(0), "embedding", {vocabulary, width}, type);
    const Tensor norm = model.parameter(block, "norm", {width}, type);
    const Tensor qkv = model.parameter(attention, "qkv", {3 * width, width}, type);
    const Tensor out = model.parameter(attention, "out", {width, width}, type);
    const Tensor tokens = emptyOnCard({3, 50}, at::kLong);
    return [=] {
        const Tensor logits = Model::call(ModuleId(0), tokens, [&](const Tensor& ids) {
            Tensor x = at::embedding(embedding, ids);
            x = Model::call(block, x, [&](const Tensor& in) {
                const Tensor normed = at::layer_norm(in, {width}, norm);
                return in + Model::call(attention, normed, [&](const Tensor& y) {
                           const auto parts = at::linear(y, qkv)
                                                  .view({3, 50, 3, heads, width / heads})
                                                  .permute({2, 0, 3, 1, 4})
                                                  .unbind(0);
                           Tensor o = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.1, true);
                           o = o.transpose(1, 2).reshape({3, 50, width});
                           return at::dropout(at::linear(o, out), 0.1, true);
                       });
            });
            return at::linear(x, embedding); // tied
        });
        return at::cross_entropy_loss(logits.view({-1, vocabulary}), tokens.view({-1}));
    };
}

Forward residual(Model& model)
{
    const Tensor w1 = model.parameter(ModuleId(0), "w1", {8, 3, 3, 3});
    const Tensor w2 = model.parameter(ModuleId(0), "w2", {8, 8, 3, 3});
    const Tensor scale = model.parameter(ModuleId(0), "scale", {8});
    const Tensor shift = model.parameter(ModuleId(0), "shift", {8});
    const Tensor head = model.parameter(ModuleId(0), "head", {10, 8});
    const Tensor mean = model.buffer(ModuleId(0), "mean", {8});
    const Tensor var = model.buffer(ModuleId(0), "var", {8});
    const Tensor images = emptyOnCard({4, 3, 32, 32});
    const Tensor classes = emptyOnCard({4}, at::kLong);
    return [=] {
        Tensor x = at::max_pool2d(at::conv2d(images, w1, {}, 1, 1), 2);
        Tensor y = at::batch_norm(at::conv2d(x, w2, {}, 1, 1), scale, shift, mean, var, true, 0.1, 1e-5, true);
        y.add_(x);
        y.relu_();
        x = at::adaptive_avg_pool2d(y, {1, 1}).flatten(1);
        return at::cross_entropy_loss(at::linear(x, head), classes);
    };
}

} // namespace headroom
