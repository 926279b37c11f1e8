// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Results on the simulated device have the sizes, strides and aliasing that they have on the CPU.
#include "tests/torch/device_fixture.h"

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace headroom {
namespace {

/// Ops on tensors of one device; what they give is compared between CPU and the simulated device.
using Make = std::function<Tensor(std::vector<std::int64_t>)>;
struct Case
{
    std::string name;
    std::function<Tensors(const Make&)> run;
};

/// Shown by GoogleTest when a case fails.
void PrintTo(const Case& c, std::ostream* out)
{
    *out << c.name;
}

class ShapesOf : public Device, public ::testing::WithParamInterface<Case>
{
};

std::string describe(const Tensors& tensors)
{
    std::string text;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const Tensor& t = tensors[i];
        if (!t.defined()) {
            text += "undefined\n";
            continue;
        }
        std::size_t alias = i;
        for (std::size_t j = i; j-- > 0;)
            alias = tensors[j].defined() && tensors[j].storage().is_alias_of(t.storage()) ? j : alias;
        text += c10::str(t.scalar_type(), " sizes ", t.sizes(), " strides ", t.strides(), " offset ",
                         t.storage_offset(), " storage of ", alias, " bytes ", t.storage().nbytes(), "\n");
    }
    return text;
}

TEST_P(ShapesOf, AreThoseOfTheCpu)
{
    const auto makeOn = [](at::Device device) {
        return [device](std::vector<std::int64_t> sizes) {
            return at::zeros(sizes, at::TensorOptions().device(device)).set_requires_grad(true);
        };
    };
    const std::size_t fallbacks = sim::fallbacks().size();
    const std::string expected = describe(GetParam().run(makeOn(at::kCPU)));
    EXPECT_EQ(describe(GetParam().run(makeOn(sim::device()))), expected);
    EXPECT_EQ(sim::fallbacks().size(), fallbacks) << "an op ran on zero CPU tensors";
}

/// Gradients of the sum of `result` by `leaves`, after them.
Tensors withGradients(Tensors leaves, const Tensor& result)
{
    result.sum().backward();
    leaves.push_back(result);
    const std::size_t count = leaves.size() - 1;
    for (std::size_t i = 0; i < count; ++i)
        leaves.push_back(leaves[i].grad());
    return leaves;
}

const Case cases[] = {
    {"Linear",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 5, 8});
         Tensor w = make({6, 8});
         Tensor b = make({6});
         return withGradients({x, w, b}, at::linear(x, w, b));
     }},
    {"LinearWithoutBias",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 5, 8});
         Tensor w = make({6, 8});
         return withGradients({x, w}, at::linear(x, w));
     }},
    {"Bmm",
     [](const Make& make) -> Tensors {
         Tensor x = make({3, 5, 8});
         Tensor y = make({3, 8, 4});
         return withGradients({x, y}, at::bmm(x, y));
     }},
    {"BroadcastArithmetic",
     [](const Make& make) -> Tensors {
         Tensor x = make({3, 1, 8});
         Tensor y = make({5, 1});
         return withGradients({x, y}, (x * y + x) / 2.0 - y);
     }},
    {"TransposedPointwise",
     [](const Make& make) -> Tensors {
         Tensor x = make({3, 5});
         return withGradients({x}, at::exp(x.t()));
     }},
    {"Gelu",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         return withGradients({x}, at::gelu(x));
     }},
    {"Relu",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         return withGradients({x}, at::relu(x));
     }},
    {"Silu",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         return withGradients({x}, at::silu(x));
     }},
    {"Softmax",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         return withGradients({x}, at::softmax(x, -1));
     }},
    {"LogSoftmax",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         return withGradients({x}, at::log_softmax(x, 1));
     }},
    {"LayerNorm",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 8});
         Tensor w = make({8});
         Tensor b = make({8});
         return withGradients({x, w, b}, at::layer_norm(x, {8}, w, b));
     }},
    {"Embedding",
     [](const Make& make) -> Tensors {
         Tensor w = make({10, 4});
         const Tensor i = at::zeros({2, 3}, w.options().dtype(at::kLong).requires_grad(false));
         return withGradients({w}, at::embedding(w, i));
     }},
    {"MseLoss",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         Tensor y = make({4, 6});
         return withGradients({x, y}, at::mse_loss(x, y));
     }},
    {"CrossEntropy",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         const Tensor t = at::zeros({4}, x.options().dtype(at::kLong).requires_grad(false));
         return withGradients({x}, at::cross_entropy_loss(x, t));
     }},
    {"BinaryCrossEntropy",
     [](const Make& make) -> Tensors {
         Tensor x = make({4});
         const Tensor t = at::zeros({4}, x.options().requires_grad(false));
         return withGradients({x}, at::binary_cross_entropy(at::sigmoid(x), t));
     }},
    {"Convolution",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 9, 9});
         Tensor w = make({4, 3, 3, 3});
         Tensor b = make({4});
         return withGradients({x, w, b}, at::conv2d(x, w, b, 2, 1));
     }},
    {"TracedConvolution",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 9, 9});
         Tensor w = make({4, 3, 3, 3});
         const std::vector<std::int64_t> two{2, 2}, one{1, 1}, none{0, 0};
         return withGradients({x, w},
                              at::_convolution(x, w, {}, two, one, one, false, none, 1, false, false, true, true));
     }},
    {"TransposedConvolution",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 9, 9});
         Tensor w = make({3, 4, 3, 3});
         return withGradients({x, w}, at::conv_transpose2d(x, w, {}, 2, 1, 1));
     }},
    {"GroupedConvolution1d",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 4, 9});
         Tensor w = make({8, 2, 3});
         return withGradients({x, w}, at::conv1d(x, w, {}, 1, at::IntArrayRef{1}, 1, 2));
     }},
    {"MaxPool",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 8, 8});
         return withGradients({x}, at::max_pool2d(x, 2));
     }},
    {"AdaptiveAveragePool",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 8, 8});
         return withGradients({x}, at::adaptive_avg_pool2d(x, {3, 3}));
     }},
    {"GlobalAveragePool",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 8, 8});
         return withGradients({x}, at::adaptive_avg_pool2d(x, {1, 1}));
     }},
    {"Where",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 1});
         Tensor y = make({6});
         return withGradients({x, y}, at::where(x > y, x, y));
     }},
    {"MaskedFill",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         return withGradients({x}, x.masked_fill(x > 0, 0.0));
     }},
    {"Views",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         const Tensor y = x * 2;
         return Tensors({x, y, y.t(), y.view({24}), y.slice(1, 2, 5), y.select(0, 1), y.unsqueeze(0).expand({3, 4, 6}),
                         y.t().reshape({24}), y.narrow(0, 1, 2).contiguous()});
     }},
    {"Unbind",
     [](const Make& make) -> Tensors {
         Tensor x = make({3, 4});
         Tensors parts = (x * 2).unbind(0);
         parts.insert(parts.begin(), x);
         return parts;
     }},
    {"SplitAndCat",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         const Tensors parts = x.split(2, 1);
         return withGradients({x}, at::cat({parts[2], parts[0]}, 1));
     }},
    {"InPlace",
     [](const Make& make) -> Tensors {
         const Tensor x = make({4, 6}) * 2;
         Tensor y = x.relu_();
         y.add_(1);
         return Tensors({x, y});
     }},
    {"Out",
     [](const Make& make) -> Tensors {
         const Tensor x = make({4, 6}).detach();
         Tensor out = at::empty({0}, x.options());
         at::mul_out(out, x, x);
         return Tensors({x, out});
     }},
    {"Resize",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6}).detach();
         x.resize_({10, 10});
         return Tensors({x});
     }},
    {"Reductions",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6, 2});
         return Tensors({x.sum(), x.sum(1), x.mean(at::IntArrayRef{0, 2}, true), x.amax(0), x.max(), x.min(),
                         x.argmax(1), std::get<1>(x.max(1)), x.var(1), x.std(), x.prod(), x.norm(), x.cumsum(0)});
     }},
    {"TypeConversion",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         return Tensors({x, x.to(at::kHalf), x.to(at::kFloat), x.t().to(at::kDouble)});
     }},
    {"Indexing",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         const Tensor i = at::zeros({3}, x.options().dtype(at::kLong).requires_grad(false));
         return withGradients({x}, x.index({i}) + x.index_select(0, i));
     }},
    {"GatherScatter",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         const Tensor i = at::zeros({4, 2}, x.options().dtype(at::kLong).requires_grad(false));
         return withGradients({x}, x.gather(1, i));
     }},
    {"Sorting",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         auto [values, indices] = x.topk(2);
         auto [sorted, order] = x.sort();
         return Tensors({x, values, indices, sorted, order});
     }},
    {"Factories",
     [](const Make& make) -> Tensors {
         const Tensor x = make({4}).detach();
         return Tensors({at::arange(5, x.options()), at::ones({2, 3}, x.options()), at::full({2}, 7, x.options()),
                         at::zeros_like(x), at::eye(3, x.options()), at::tril(at::ones({3, 3}, x.options()))});
     }},
    {"TensorsLikeOthers",
     [](const Make& make) -> Tensors {
         const Tensor x = make({2, 3, 4, 5}).detach();
         const std::vector<Tensor> sources{
             x,
             x.contiguous(at::MemoryFormat::ChannelsLast),
             x.permute({3, 0, 2, 1}),
             x.slice(1, 0, 3, 2),
             x.permute({1, 2, 0, 3}).slice(0, 1, 3),
             x.select(1, 0).unsqueeze(1).expand({2, 6, 4, 5}),
             make({0, 3}).detach(),
             make({}).detach(),
         };
         Tensors made;
         for (const Tensor& source : sources) {
             made.insert(made.end(),
                         {at::empty_like(source), at::zeros_like(source, at::kHalf),
                          at::ones_like(source, at::MemoryFormat::Contiguous),
                          at::full_like(source, 2.5, source.options().dtype(at::kLong))});
             if (source.dim() == 4)
                 made.push_back(at::zeros_like(source, at::MemoryFormat::ChannelsLast));
         }
         return made;
     }},
    {"ChannelsLast",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 8, 8}).detach().contiguous(at::MemoryFormat::ChannelsLast);
         const Tensor w = make({4, 3, 3, 3}).detach();
         return Tensors({x, x.relu(), at::conv2d(x, w), at::max_pool2d(x, 2)});
     }},
    {"Hardtanh",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         return withGradients({x}, at::hardtanh(x, 0, 6));
     }},
    {"HuberLoss",
     [](const Make& make) -> Tensors {
         Tensor x = make({4});
         const Tensor y = make({4}).detach();
         return withGradients({x}, at::huber_loss(x, y));
     }},
    {"Glu",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         return withGradients({x}, at::glu(x));
     }},
    {"Prelu",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 4});
         Tensor w = make({3});
         return withGradients({x, w}, at::prelu(x, w));
     }},
    {"FloorDivide",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 1});
         return {x, at::floor_divide(x, make({6})), at::rsub(x, make({6}))};
     }},
    {"GroupNorm",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 4, 3, 3});
         Tensor w = make({4});
         Tensor b = make({4});
         return withGradients({x, w, b}, at::group_norm(x, 2, w, b));
     }},
    {"EmbeddingBag",
     [](const Make& make) -> Tensors {
         Tensor w = make({10, 4});
         const auto l = w.options().dtype(at::kLong).requires_grad(false);
         const Tensor i = at::zeros({6}, l);
         const Tensor o = at::zeros({2}, l);
         return withGradients({w}, std::get<0>(at::embedding_bag(w, i, o)));
     }},
    {"AdaptiveAveragePool3d",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 8, 8, 8});
         return withGradients({x}, at::adaptive_avg_pool3d(x, {3, 3, 3}));
     }},
    {"MaxPool3d",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 9, 9, 9});
         return withGradients({x}, at::max_pool3d(x, 3, 2, 1, 1, true));
     }},
    {"Padding",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 4, 5});
         return withGradients({x},
                              at::pad(x, {1, 2, 2, 1}, "reflect") + at::pad(x, {1, 2, 2, 1}, "replicate")
                                  + at::pad(x, {1, 2, 2, 1}));
     }},
    {"GridSampler",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 4, 5});
         Tensor g = make({2, 6, 7, 2});
         return withGradients({x, g}, at::grid_sampler(x, g, 0, 0, false));
     }},
    {"FoldAndUnfold",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 8, 9});
         const Tensor columns = at::im2col(x, {3, 2}, {1, 1}, {1, 0}, {2, 1});
         return withGradients({x},
                              at::col2im(columns, {8, 9}, {3, 2}, {1, 1}, {1, 0}, {2, 1}) + x.unfold(2, 2, 2).sum());
     }},
    {"Interpolation",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 4, 5});
         return withGradients({x}, at::upsample_bilinear2d(x, {8, 10}, false) + at::upsample_nearest2d(x, {8, 10}));
     }},
    {"Foreach",
     [](const Make& make) -> Tensors {
         const Tensors a{make({4}).detach(), make({2, 3}).detach()};
         Tensors roots = at::_foreach_sqrt(a);
         at::_foreach_add_(roots, 1.0);
         at::_foreach_addcdiv_(roots, a, a, 0.5);
         return roots;
     }},
};

INSTANTIATE_TEST_SUITE_P(Ops, ShapesOf, ::testing::ValuesIn(cases),
                         [](const auto& instance) { return instance.param.name; });

} // namespace
} // namespace headroom
