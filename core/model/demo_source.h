// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/model/source.h"
#include "core/record/module_call.h"
#include "core/record/recorder.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>

#include <cmath>
#include <functional>
#include <string>
#include <string_view>

namespace headroom::demo {

/// The initial values of a new parameter or buffer. Tensors on the simulated device have no values.
struct Initial
{
    enum class Distribution { zero, one, normal, uniform } distribution = Distribution::zero;
    double scale = 1; ///< standard deviation of normal, bound of uniform

    static Initial zero() { return {Distribution::zero, 0}; }
    static Initial one() { return {Distribution::one, 1}; }
    static Initial normal(double deviation) { return {Distribution::normal, deviation}; }
    static Initial uniform(double bound) { return {Distribution::uniform, bound}; }
};

/// Builds a ModelTree as nn.Module's constructors do. Modules are in the order of model.modules(): a module before its
/// children, children in the order of assignment. Names are as in ModTracker.
class ModuleBuilder
{
public:
    ModuleBuilder(at::Device device, at::ScalarType dtype);

    ModuleId root(std::string_view type);
    ModuleId child(ModuleId parent, std::string_view name, std::string_view type);

    at::Tensor parameter(ModuleId owner, std::string_view name, at::IntArrayRef sizes, Initial initial);
    at::Tensor buffer(ModuleId owner, std::string_view name, at::IntArrayRef sizes, Initial initial);
    /// Creates a buffer of a single int64, as BatchNorm's num_batches_tracked.
    at::Tensor counter(ModuleId owner, std::string_view name);
    /// Adds a second owner of a parameter: a tied weight.
    void share(ModuleId owner, std::string_view name, const at::Tensor& parameter);

    ModelTree take() { return std::move(tree_); }

private:
    at::Tensor create(ModuleId owner, std::string_view name, at::IntArrayRef sizes, at::ScalarType dtype,
                      Initial initial, Category category);

    at::TensorOptions options_;
    ModelTree tree_;
};

// Layers of torch.nn in training, each with the ops and the temporaries of its Python forward.

/// Calls a module and reports the call to the Recorder.
template <class Module>
at::Tensor announced(Module& module, const at::Tensor& input)
{
    AnnouncedCall call(module.id, input);
    at::Tensor result = module.forward(input);
    call.returns(result);
    return result;
}

/// Does what Module.__call__ does: reports the call, and checkpoints it if a policy says so. It holds the argument
/// until forward has returned, as Python's frame does. The argument moves into a local variable, since a C++ parameter
/// may live until the end of the caller's full expression: in `w2(gelu(w1(x)))` the result of `w1(x)` would live too
/// long.
template <class Module>
at::Tensor call(Module& module, at::Tensor argument)
{
    const at::Tensor input = std::move(argument);
    ModuleCallHandler* handler = ModuleCallHandler::of(module.id);
    if (!handler)
        return announced(module, input);
    const auto open = handler->open(module.id, {input}, [&module](const Values& inputs) {
        return Values{announced(module, inputs.front().toTensor())};
    });
    at::Tensor result = announced(module, input);
    open->complete();
    return result;
}

/// Calls modules in order, as nn.Sequential's forward does.
template <class... Modules>
at::Tensor callInOrder(const at::Tensor& x, Modules&... modules)
{
    at::Tensor input = x;
    ((input = call(modules, input)), ...);
    return input;
}

/// nn.Linear.
struct Linear
{
    ModuleId id;
    at::Tensor weight;
    std::optional<at::Tensor> bias;

    Linear(ModuleBuilder& builder, ModuleId parent, std::string_view name, std::int64_t in, std::int64_t out,
           bool withBias = true)
        : id(builder.child(parent, name, "Linear"))
    {
        const Initial initial = Initial::uniform(1 / std::sqrt(static_cast<double>(in)));
        weight = builder.parameter(id, "weight", {out, in}, initial);
        if (withBias)
            bias = builder.parameter(id, "bias", {out}, initial);
    }
    /// A layer that shares a weight with another module.
    Linear(ModuleBuilder& builder, ModuleId parent, std::string_view name, at::Tensor tiedWeight)
        : id(builder.child(parent, name, "Linear"))
        , weight(std::move(tiedWeight))
    {
        builder.share(id, "weight", weight);
    }
    at::Tensor forward(const at::Tensor& x) const { return at::linear(x, weight, bias); }
};

/// nn.Embedding.
struct Embedding
{
    ModuleId id;
    at::Tensor weight;

    Embedding(ModuleBuilder& builder, ModuleId parent, std::string_view name, std::int64_t rows, std::int64_t width)
        : id(builder.child(parent, name, "Embedding"))
        , weight(builder.parameter(id, "weight", {rows, width}, Initial::normal(1)))
    {
    }
    at::Tensor forward(const at::Tensor& indices) const { return at::embedding(weight, indices); }
};

/// nn.LayerNorm over the last dimension.
struct LayerNorm
{
    ModuleId id;
    at::Tensor weight;
    at::Tensor bias;

    LayerNorm(ModuleBuilder& builder, ModuleId parent, std::string_view name, std::int64_t width)
        : id(builder.child(parent, name, "LayerNorm"))
        , weight(builder.parameter(id, "weight", {width}, Initial::one()))
        , bias(builder.parameter(id, "bias", {width}, Initial::zero()))
    {
    }
    at::Tensor forward(const at::Tensor& x) const { return at::layer_norm(x, weight.sizes(), weight, bias, 1e-5); }
};

/// A layer without parameters.
struct Layer
{
    ModuleId id;
    std::function<at::Tensor(const at::Tensor&)> forward;
};

/// nn.Dropout.
inline Layer dropoutLayer(ModuleBuilder& builder, ModuleId parent, std::string_view name, double probability)
{
    return {builder.child(parent, name, "Dropout"),
            [probability](const at::Tensor& x) { return at::dropout(x, probability, true); }};
}

/// nn.GELU.
inline Layer geluLayer(ModuleBuilder& builder, ModuleId parent, std::string_view name)
{
    return {builder.child(parent, name, "GELU"), [](const at::Tensor& x) { return at::gelu(x); }};
}

/// nn.ReLU.
inline Layer reluLayer(ModuleBuilder& builder, ModuleId parent, std::string_view name, bool inPlace)
{
    return {builder.child(parent, name, "ReLU"), [inPlace](const at::Tensor& x) {
                at::Tensor same = x; // relu_() returns its argument; this is a second handle, as in Python
                return inPlace ? at::relu_(same) : at::relu(x);
            }};
}

/// nn.MaxPool2d(kernel_size=3, stride=2, padding=1).
inline Layer maxPoolLayer(ModuleBuilder& builder, ModuleId parent, std::string_view name)
{
    return {builder.child(parent, name, "MaxPool2d"), [](const at::Tensor& x) {
                return at::max_pool2d(x, {3, 3}, {2, 2}, {1, 1});
            }};
}

/// nn.AdaptiveAvgPool2d((1, 1)).
inline Layer averagePoolLayer(ModuleBuilder& builder, ModuleId parent, std::string_view name)
{
    return {builder.child(parent, name, "AdaptiveAvgPool2d"), [](const at::Tensor& x) {
                return at::adaptive_avg_pool2d(x, {1, 1});
            }};
}

/// nn.Conv2d without bias, square kernel.
struct Conv2d
{
    ModuleId id;
    at::Tensor weight;
    std::int64_t stride;
    std::int64_t padding;

    struct Shape
    {
        std::int64_t in;
        std::int64_t out;
        std::int64_t kernel;
        std::int64_t stride = 1;
        std::int64_t padding = 0;
    };
    Conv2d(ModuleBuilder& builder, ModuleId parent, std::string_view name, const Shape& shape)
        : id(builder.child(parent, name, "Conv2d"))
        , weight(builder.parameter(
              id, "weight", {shape.out, shape.in, shape.kernel, shape.kernel},
              Initial::normal(std::sqrt(2.0 / static_cast<double>(shape.out * shape.kernel * shape.kernel)))))
        , stride(shape.stride)
        , padding(shape.padding)
    {
    }
    at::Tensor forward(const at::Tensor& x) const
    {
        return at::conv2d(x, weight, {}, {stride, stride}, {padding, padding});
    }
};

/// nn.BatchNorm2d.
struct BatchNorm2d
{
    ModuleId id;
    at::Tensor weight;
    at::Tensor bias;
    at::Tensor runningMean;
    at::Tensor runningVar;
    at::Tensor batches;

    BatchNorm2d(ModuleBuilder& builder, ModuleId parent, std::string_view name, std::int64_t channels)
        : id(builder.child(parent, name, "BatchNorm2d"))
        , weight(builder.parameter(id, "weight", {channels}, Initial::one()))
        , bias(builder.parameter(id, "bias", {channels}, Initial::zero()))
        , runningMean(builder.buffer(id, "running_mean", {channels}, Initial::zero()))
        , runningVar(builder.buffer(id, "running_var", {channels}, Initial::one()))
        , batches(builder.counter(id, "num_batches_tracked"))
    {
    }
    at::Tensor forward(const at::Tensor& x)
    {
        batches.add_(1);
        return at::batch_norm(x, weight, bias, runningMean, runningVar, true, 0.1, 1e-5, true);
    }
};

/// The largest batch of a demo.
inline constexpr std::int64_t mostSamples = 65'536;

/// Returns a batch of random numbers, without values on the simulated device.
inline at::Tensor randomInput(const ModelRequest& request, const std::vector<std::int64_t>& sizes)
{
    const auto options = at::TensorOptions(request.device).dtype(request.dtype.value_or(at::kFloat));
    return computes(request.device) ? at::randn(sizes, options) : at::empty(sizes, options);
}

/// A demo model with a batch. `Model` has `id` and `forward(const at::Tensor&)`.
template <class Model>
class DemoSource final : public ModelSource
{
public:
    /// `longest` is the longest sequence; 0: the model has no sequence dimension.
    DemoSource(ModelTree tree, Model model, const at::Tensor& input, std::int64_t longest)
        : tree_(std::move(tree))
        , model_(std::move(model))
        , inputs_{input}
        , longest_(longest)
    {
    }
    const ModelTree& tree() const override { return tree_; }
    const std::vector<at::Tensor>& inputs() const override { return inputs_; }
    std::vector<at::Tensor> forward() override { return {call(model_, inputs_.front())}; }
    std::int64_t batch() const override { return inputs_.front().size(0); }
    std::int64_t sequence() const override { return longest_ != 0 ? inputs_.front().size(1) : 0; }
    std::vector<StepInfo::Dimension> dimensions() const override
    {
        std::vector<StepInfo::Dimension> dimensions{{"batch", batch(), 1, mostSamples}};
        if (longest_ != 0)
            dimensions.push_back({"sequence", sequence(), 1, longest_});
        return dimensions;
    }

private:
    ModelTree tree_;
    Model model_;
    std::vector<at::Tensor> inputs_;
    std::int64_t longest_;
};

} // namespace headroom::demo
