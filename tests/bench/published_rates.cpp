// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/bench/published_bench.h"
#include "tests/bench/rate_picture.h"

#include <map>

namespace headroom {
namespace {

/// [batch, heads, length, width] as SDPA takes them.
OpSignature attentionCall(const Json& config, bool backward)
{
    const auto number = [&](const char* name) { return config.at(name).get<std::int64_t>(); };
    const TensorShape x
        = tensor({number("batch"), number("heads"), number("seq"), number("head_dim")}, DType::bfloat16);
    OpSignature call;
    const bool causal = config.at("causal").get<bool>();
    for (int i = 0; i < (backward ? 6 : 3); ++i)
        call.arguments.push_back(given(x));
    if (backward)
        for (int i = 0; i < 5; ++i)
            call.arguments.push_back(numbers({}));
    call.arguments.resize(backward ? 11 : 4);
    call.arguments.push_back(numbers({causal}));
    for (int i = 0; i < (backward ? 3 : 1); ++i)
        call.results.push_back(given(x));
    return call;
}

/// Attention of single ops, as flash-attention's benchmark runs it for comparison (benchmarks/
/// benchmark_flash_attention.py): q, k and v, which lie beside each other, are copied into the products' layout, a mask
/// is added, a softmax; the way back copies gradients into theirs and stacks them.
double standardAttention(const Bench& bench, const Json& config, bool withBackward, const DeviceSpec& card)
{
    const auto number = [&](const char* name) { return config.at(name).get<std::int64_t>(); };
    const std::int64_t batch = number("batch") * number("heads");
    const std::int64_t length = number("seq");
    const std::int64_t width = number("head_dim");
    const auto product = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
        OpSignature call;
        call.arguments = {given(tensor({batch, m, k}, DType::float16)), given(tensor({batch, k, n}, DType::float16))};
        call.results = {given(tensor({batch, m, n}, DType::float16))};
        return bench.us("aten.bmm", call, card);
    };
    const TensorShape scores = tensor({batch, length, length}, DType::float16);
    OpSignature softmax;
    softmax.arguments = {given(scores), numbers({-1}), numbers({0})};
    softmax.results = {given(scores)};
    OpSignature softmaxBackward;
    softmaxBackward.arguments = {given(scores), given(scores), numbers({-1}), {}};
    softmaxBackward.results = {given(scores)};
    OpSignature mask;
    mask.arguments = {given(scores), given(tensor({length, length}, DType::float16))};
    mask.results = {given(scores)};
    const std::int64_t heads = number("heads");
    OpSignature rearrange; // (b h) t d of b t 3 h d
    TensorShape inProjection = tensor({number("batch"), heads, length, width}, DType::float16);
    TensorShape inProduct = inProjection;
    inProjection.strides = {3 * heads * length * width, width, 3 * heads * width, 1};
    rearrange.arguments = {given(inProjection)};
    rearrange.results = {given(inProduct)};
    const double copy = bench.us("aten.clone", rearrange, card);
    double us = product(length, length, width) + product(length, width, length)
        + bench.us("aten._softmax", softmax, card) + 3 * copy;
    if (config.at("causal").get<bool>())
        us += bench.us("aten.add", mask, card);
    if (withBackward)
        us += product(length, length, width) + 3 * product(length, width, length)
            + bench.us("aten._softmax_backward_data", softmaxBackward, card) + 4 * copy;
    return us;
}

} // namespace

void Bench::rates(const fs::path& file, const fs::path& picture) const
{
    std::map<std::string, Errors> groups;
    RatePicture curves;
    for (const Json& figure : Json::parse(textOf(file))) {
        const std::string kernel = figure.at("kernel");
        const std::string implementation = figure.at("impl");
        const std::string gpu = figure.at("gpu");
        const Json& config = figure.at("config");
        const double rate = figure.at("value");
        const bool isA100 = gpu.starts_with("A100");
        const bool isH100 = gpu.starts_with("H100");
        const bool isSure = isA100 || isH100 || gpu.find("not named; matches H100") == 0;
        if (!isSure)
            continue;
        const DeviceSpec card
            = *findDeviceSpec(isA100 ? (kernel.starts_with("attention") ? "a100-80gb" : "a100-40gb") : "h100-80gb");
        double predicted = 0;
        double published = 0;
        std::string group = kernel;
        if (kernel.starts_with("attention")) {
            const bool both = kernel.ends_with("fwd+bwd");
            const bool isBackward = kernel.ends_with(" bwd");
            std::string op = "aten._scaled_dot_product_flash_attention";
            if (implementation == "PyTorch standard attention")
                op.clear();
            else if (implementation == "cuDNN")
                op = "aten._scaled_dot_product_cudnn_attention";
            else if (!implementation.starts_with("FlashAttention-2") && !implementation.starts_with("torch SDPA"))
                continue;
            group += std::string(", ")
                + (op.empty()                      ? "of single ops, "
                       : implementation == "cuDNN" ? "cuDNN, "
                                                   : "flash, ")
                + card.name;
            const auto number = [&](const char* name) { return config.at(name).get<double>(); };
            // cuDNN's and flash's is_causal stand at different places.
            OpSignature forward = attentionCall(config, false);
            OpSignature backward = attentionCall(config, true);
            if (implementation == "cuDNN") {
                forward.arguments.insert(forward.arguments.begin() + 3, 2, OpSignature::Value());
            }
            const double flops = 4 * number("batch") * number("heads") * number("seq") * number("seq")
                * number("head_dim") * (config.at("causal").get<bool>() ? 0.5 : 1);
            predicted = op.empty() ? standardAttention(*this, config, both, card)
                                   : (isBackward ? 0 : us(op, forward, card))
                    + (both || isBackward ? us(op + "_backward", backward, card) : 0);
            published = flops * (both ? 3.5 : isBackward ? 2.5 : 1) / rate / 1e6;
        } else if (kernel == "gemm") {
            const auto size = [&](const char* name) { return config.at(name).get<std::int64_t>(); };
            OpSignature call;
            call.arguments = {given(tensor({size("M"), size("K")}, DType::float16)),
                              given(tensor({size("K"), size("N")}, DType::float16))};
            call.results = {given(tensor({size("M"), size("N")}, DType::float16))};
            predicted = us("aten.mm", call, card);
            published = 2e-6 * static_cast<double>(size("M") * size("N")) * static_cast<double>(size("K")) / rate;
            group += ", " + card.name;
        } else {
            const auto size = [&](const char* name) { return config.at(name).get<std::int64_t>(); };
            const DType type = config.at("dtype") == "fp32" ? DType::float32 : DType::float16;
            const TensorShape x = tensor({size("M"), size("N")}, type);
            OpSignature call;
            if (kernel.starts_with("softmax")) {
                call.arguments = {given(x), numbers({-1}), numbers({0})};
                call.results = {given(x)};
                predicted = us("aten._softmax", call, card);
                published = 2e-3 * static_cast<double>(size("M") * size("N") * x.itemSize) / rate;
            } else {
                const TensorShape weight = tensor({size("N")}, type);
                const TensorShape statistic = tensor({size("M"), 1}, DType::float32);
                call.arguments = {given(x),         given(x),      numbers({size("N")}), given(statistic),
                                  given(statistic), given(weight), given(weight)};
                call.results = {given(x), given(weight), given(weight)};
                predicted = us("aten.native_layer_norm_backward", call, card);
                published = 3e-3 * static_cast<double>(size("M") * size("N") * x.itemSize) / rate;
            }
        }
        row(figure.at("id").get<std::string>() + ", " + card.name, predicted, published);
        groups[group].add(predicted, published);
        const bool isAttention = kernel.starts_with("attention");
        const double size = isAttention ? config.at("seq").get<double>()
            : kernel == "gemm"
            ? std::cbrt(config.at("M").get<double>() * config.at("N").get<double>() * config.at("K").get<double>())
            : config.at("N").get<double>();
        std::string series = card.name;
        if (isAttention)
            series = "width " + std::to_string(config.at("head_dim").get<int>())
                + (config.at("causal").get<bool>() ? ", causal" : "");
        curves.add({group,
                    isAttention            ? "length"
                        : kernel == "gemm" ? "cube root of m n k"
                                           : "columns",
                    figure.at("unit").get<std::string>()},
                   series, {size, rate * published / predicted, rate});
    }
    if (!picture.empty())
        curves.write(picture);
    for (const auto& [name, errors] : groups)
        errors.print(name);
}

} // namespace headroom
