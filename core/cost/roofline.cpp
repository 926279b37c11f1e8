// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/roofline.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

namespace headroom {

Bytes bytesOf(const TensorShape& tensor)
{
    return std::accumulate(tensor.sizes.begin(), tensor.sizes.end(), Bytes{tensor.itemSize}, std::multiplies());
}

double elements(const TensorShape& tensor)
{
    double count = 1;
    for (std::size_t i = 0; i < tensor.sizes.size(); ++i)
        if (i >= tensor.strides.size() || tensor.strides[i] != 0)
            count *= static_cast<double>(tensor.sizes[i]);
    return count;
}

double sizeAt(const TensorShape& tensor, std::ptrdiff_t dimension)
{
    const auto rank = static_cast<std::ptrdiff_t>(tensor.sizes.size());
    const std::ptrdiff_t place = dimension < 0 ? rank + dimension : dimension;
    return place >= 0 && place < rank ? static_cast<double>(tensor.sizes[static_cast<std::size_t>(place)]) : 1;
}

std::vector<std::size_t> layoutOf(const TensorShape& tensor)
{
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < std::min(tensor.sizes.size(), tensor.strides.size()); ++i)
        if (tensor.sizes[i] > 1 && tensor.strides[i] != 0)
            order.push_back(i);
    std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return tensor.strides[i]; });
    return order;
}

bool isDense(const TensorShape& tensor)
{
    double expected = 1; // a double, so that sizes of a damaged file do not overflow
    auto order = layoutOf(tensor);
    for (auto i = order.rbegin(); i != order.rend(); ++i) {
        if (static_cast<double>(tensor.strides[*i]) != expected)
            return false;
        expected *= static_cast<double>(tensor.sizes[*i]);
    }
    return true;
}

bool isChannelsLast(const TensorShape& image)
{
    const std::size_t rank = image.sizes.size();
    if (rank < 4 || image.strides.size() != rank || image.strides[1] == 0)
        return false;
    double least = 0; // a double, so that sizes of a damaged file do not overflow
    const auto follows = [&](std::size_t d) {
        const auto stride = static_cast<double>(image.strides[d]);
        const bool isOutside = stride >= least;
        least = stride * static_cast<double>(std::max<std::int64_t>(image.sizes[d], 1));
        return isOutside;
    };
    bool isLast = follows(1);
    for (std::size_t d = rank - 1; d > 1; --d)
        isLast = isLast && follows(d);
    return isLast && least != static_cast<double>(image.strides[1]) && follows(0);
}

namespace {

using Shape = std::span<const std::int64_t>;
using Shapes = std::span<const TensorShape>;

struct Arguments
{
    Shapes inputs;
    Shapes outputs;
    const ConvolutionArguments& convolution;
    const NestedAttention& nested;
};

double product(Shape shape)
{
    double result = 1;
    for (const std::int64_t size : shape)
        result *= static_cast<double>(size);
    return result;
}

/// Flops of the product of matrices [m, k] and [k, n], or of batches of them.
double matrixProduct(Shapes inputs, std::size_t first)
{
    if (inputs.size() < first + 2)
        return 0;
    const Shape a = inputs[first].sizes;
    const Shape b = inputs[first + 1].sizes;
    if (a.size() < 2 || a.size() != b.size())
        return 0;
    return product(a) * static_cast<double>(b.back()) * 2;
}

double mm(const Arguments& arguments)
{
    return matrixProduct(arguments.inputs, 0);
}

/// addmm, baddbmm: the first argument is added.
double addmm(const Arguments& arguments)
{
    return matrixProduct(arguments.inputs, 1);
}

/// Flops of a convolution: at each point the whole filter, for each pair of channels.
double convolutionCount(double batch, Shape points, Shape weight)
{
    return product(points) * product(weight) * batch * 2;
}

double convolutionFlops(const Arguments& arguments)
{
    if (arguments.inputs.size() < 2 || arguments.outputs.empty())
        return 0;
    const Shape x = arguments.inputs[0].sizes;
    const Shape weight = arguments.inputs[1].sizes;
    const Shape out = arguments.outputs[0].sizes;
    if (x.size() < 2 || out.size() < 2)
        return 0;
    return convolutionCount(static_cast<double>(x[0]), (arguments.convolution.transposed ? x : out).subspan(2), weight);
}

/// The gradients of input and weight have the shapes of input and weight, so results are not needed.
double convolutionBackwardFlops(const Arguments& arguments)
{
    if (arguments.inputs.size() < 3)
        return 0;
    const Shape gradOut = arguments.inputs[0].sizes;
    const Shape x = arguments.inputs[1].sizes;
    const Shape weight = arguments.inputs[2].sizes;
    if (gradOut.size() < 2 || x.size() < 2 || weight.size() < 2)
        return 0;
    const bool transposed = arguments.convolution.transposed;
    double count = 0;
    if (arguments.convolution.gradInput)
        count += convolutionCount(static_cast<double>(gradOut[0]), (transposed ? x : gradOut).subspan(2), weight);
    if (arguments.convolution.gradWeight) {
        // As a convolution of the input by the output's gradient (the other way round when transposed), batch and
        // channels exchanged.
        const Shape image = transposed ? gradOut : x;
        const Shape filter = transposed ? x : gradOut;
        count += convolutionCount(static_cast<double>(image[1]), weight.subspan(2), filter);
    }
    return count;
}

/// Batch, heads, length and width of attention's query, and length and width of key and value.
struct Attention
{
    double batchHeads = 0;
    double query = 0;
    double key = 0;
    double width = 0;
    double valueWidth = 0;

    double forward() const { return batchHeads * query * key * (width + valueWidth) * 2; }

    /// The scores again, the gradients of scores and value, and the gradients of query and key.
    double backward() const { return batchHeads * query * key * (3 * width + 2 * valueWidth) * 2; }
};

/// The tensors from `first` on are query, key, value.
Attention attentionSizes(const Arguments& arguments, std::size_t first)
{
    if (arguments.inputs.size() < first + 3)
        return {};
    const Shape query = arguments.inputs[first].sizes;
    const Shape key = arguments.inputs[first + 1].sizes;
    const Shape value = arguments.inputs[first + 2].sizes;
    const NestedAttention& nested = arguments.nested;
    if (nested.sequences > 0) {
        if (query.size() < 3 || key.size() < 3 || value.size() < 3)
            return {};
        const std::int64_t heads = query[query.size() - 2];
        return {static_cast<double>(nested.sequences * heads), static_cast<double>(nested.maxQuery),
                static_cast<double>(nested.maxKey), static_cast<double>(query.back()),
                static_cast<double>(value.back())};
    }
    if (query.size() != 4 || key.size() != 4 || value.size() != 4)
        return {};
    return {static_cast<double>(query[0] * query[1]), static_cast<double>(query[2]), static_cast<double>(key[2]),
            static_cast<double>(query[3]), static_cast<double>(value[3])};
}

double attentionForward(const Arguments& arguments)
{
    return attentionSizes(arguments, 0).forward();
}

/// The first argument is the output's gradient.
double attentionBackwardFlops(const Arguments& arguments)
{
    return attentionSizes(arguments, 1).backward();
}

bool isInteger(DType type)
{
    return type == DType::uint8 || type == DType::int8 || type == DType::int16 || type == DType::int32
        || type == DType::int64;
}

/// Whether a tensor can be a matrix [n, k] or [k, n]. A quantized matrix is integers, each of which may hold several
/// elements, in any layout.
bool isWeight(const TensorShape& tensor, std::int64_t n, std::int64_t k)
{
    constexpr std::int64_t mostInOne = 16; // elements of two bits
    const std::vector<std::int64_t>& sizes = tensor.sizes;
    if (sizes.size() != 2)
        return false;
    if (!isInteger(tensor.dtype))
        return (sizes[0] == n && sizes[1] == k) || (sizes[0] == k && sizes[1] == n);
    const std::int64_t stored = sizes[0] * sizes[1];
    if (stored == 0 || n * k % stored != 0)
        return false;
    const std::int64_t inOne = n * k / stored;
    return inOne <= mostInOne && std::has_single_bit(static_cast<std::uint64_t>(inOne));
}

/// Flops of an op of another library, by its shapes: a weight of n × k elements turns [..., k] into [..., n]. If all
/// three have the same shape the op may also be elementwise, and counts none.
double customProduct(const Arguments& arguments)
{
    if (arguments.inputs.empty() || arguments.outputs.empty())
        return 0;
    const std::vector<std::int64_t>& x = arguments.inputs[0].sizes;
    const std::vector<std::int64_t>& out = arguments.outputs[0].sizes;
    if (out.size() < 2 || x.size() != out.size() || !std::equal(out.begin(), out.end() - 1, x.begin()))
        return 0;
    const auto isFactor = [&](const TensorShape& tensor) {
        return isWeight(tensor, out.back(), x.back()) && (tensor.sizes != x || x != out);
    };
    const bool found = std::ranges::any_of(arguments.inputs.subspan(1), isFactor);
    return found ? product(out) * static_cast<double>(x.back()) * 2 : 0;
}

using Formula = double (*)(const Arguments&);

/// flop_registry of torch/utils/flop_counter.py, sorted by name.
constexpr auto registry = std::to_array<std::pair<std::string_view, Formula>>({
    {"aten._convolution", convolutionFlops},
    {"aten._efficient_attention_backward", attentionBackwardFlops},
    {"aten._efficient_attention_forward", attentionForward},
    {"aten._flash_attention_backward", attentionBackwardFlops},
    {"aten._flash_attention_forward", attentionForward},
    {"aten._scaled_dot_product_cudnn_attention", attentionForward},
    {"aten._scaled_dot_product_cudnn_attention_backward", attentionBackwardFlops},
    {"aten._scaled_dot_product_efficient_attention", attentionForward},
    {"aten._scaled_dot_product_efficient_attention_backward", attentionBackwardFlops},
    {"aten._scaled_dot_product_flash_attention", attentionForward},
    {"aten._scaled_dot_product_flash_attention_backward", attentionBackwardFlops},
    {"aten._scaled_mm", mm},
    {"aten._slow_conv2d_forward", convolutionFlops},
    {"aten.addmm", addmm},
    {"aten.baddbmm", addmm},
    {"aten.bmm", mm},
    {"aten.convolution", convolutionFlops},
    {"aten.convolution_backward", convolutionBackwardFlops},
    {"aten.convolution_overrideable", convolutionFlops},
    {"aten.cudnn_convolution", convolutionFlops},
    {"aten.mm", mm},
});
static_assert(std::ranges::is_sorted(registry, {}, &std::pair<std::string_view, Formula>::first));

} // namespace

std::string_view overloadPacket(std::string_view name)
{
    const std::size_t first = name.find('.');
    const std::size_t second = first == std::string_view::npos ? first : name.find('.', first + 1);
    return name.substr(0, second);
}

double flops(std::string_view name, std::span<const TensorShape> inputs, std::span<const TensorShape> outputs,
             const ConvolutionArguments& convolution, const NestedAttention& nested)
{
    const std::string_view packet = overloadPacket(name);
    const auto found = std::ranges::lower_bound(registry, packet, {}, &std::pair<std::string_view, Formula>::first);
    const Arguments arguments{inputs, outputs, convolution, nested};
    if (found != registry.end() && found->first == packet)
        return found->second(arguments);
    return packet.starts_with("aten.") ? 0 : customProduct(arguments);
}

Bytes transferBytes(std::span<const TensorShape> tensors)
{
    Bytes bytes = 0;
    for (const TensorShape& tensor : tensors)
        bytes += static_cast<Bytes>(elements(tensor)) * tensor.itemSize;
    return bytes;
}

double peakFlops(const DeviceSpec& device, DType dtype)
{
    switch (dtype) {
    case DType::float16:
        return device.halfFlops;
    case DType::bfloat16:
        // Before Ampere there are no tensor cores for bfloat16.
        return device.computeCapability >= 80 ? device.halfFlops : device.float32Flops;
    case DType::float8:
        return device.float8Flops;
    case DType::float64:
    case DType::complex128:
        return device.float64Flops;
    default:
        return device.float32Flops;
    }
}

double rooflineMs(const DeviceSpec& device, Bytes bytes, double flops, DType dtype, std::uint16_t flags)
{
    if (flags & (opView | opCreate))
        return 0;
    // The order of operations is PyTorch's, so that the times are the same doubles.
    const double transferNs = static_cast<double>(bytes) / device.gigabytesPerSecond;
    const double computeNs = flops > 0 ? (flops / 2) / (0.75 * peakFlops(device, dtype)) * 1e9 : 0;
    return std::max(transferNs, computeNs) / 1e6;
}

} // namespace headroom
