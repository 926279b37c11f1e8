// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
//
// The formulas follow the sources of torch 2.11: aten/src/ATen/native/cuda/Reduce.cuh, Embedding.cu,
// EmbeddingBackwardKernel.cu, SoftMax.cu, and transformers/cuda/attention_backward.cu.
#include "core/cost/card_memory.h"
#include "core/cost/op_work.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

namespace headroom {
namespace {

using namespace std::string_view_literals;

constexpr std::int64_t most32Bit = std::numeric_limits<std::int32_t>::max();

std::int64_t ceilDiv(std::int64_t value, std::int64_t by)
{
    return (value + by - 1) / by;
}

std::int64_t roundedUp(std::int64_t value, std::int64_t to)
{
    return ceilDiv(value, to) * to;
}

std::int64_t product(const std::vector<std::int64_t>& sizes)
{
    return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

/// Product of numbers of several tensors; far less than 64 bits hold, whatever a file says.
std::int64_t volume(std::initializer_list<std::int64_t> numbers)
{
    constexpr std::int64_t most = std::int64_t{1} << 56;
    std::int64_t result = 1;
    for (const std::int64_t number : numbers)
        result = number == 0 ? 0 : result > most / number ? most : result * number;
    return result;
}

/// Whether a card can have the tensor. A step file may have any numbers.
bool isPossible(const TensorShape& tensor)
{
    constexpr std::int64_t most = std::int64_t{1} << 40;
    if (tensor.itemSize < 1 || tensor.itemSize > 16 || tensor.strides.size() != tensor.sizes.size())
        return false;
    auto bytes = static_cast<double>(tensor.itemSize);
    double extent = 0;
    for (std::size_t place = 0; place < tensor.sizes.size(); ++place) {
        const std::int64_t size = tensor.sizes[place];
        const std::int64_t stride = tensor.strides[place];
        if (size < 0 || size > most || stride < 0 || stride > most)
            return false;
        bytes *= static_cast<double>(std::max<std::int64_t>(size, 1));
        extent += static_cast<double>(size) * static_cast<double>(stride);
    }
    return bytes <= static_cast<double>(most) && extent <= static_cast<double>(most);
}

/// Bytes of a contiguous copy.
Bytes copyOf(const TensorShape& tensor)
{
    return roundedToBlock(product(tensor.sizes) * tensor.itemSize);
}

bool isContiguous(const TensorShape& tensor)
{
    std::int64_t stride = 1;
    for (std::size_t place = tensor.sizes.size(); place-- > 0;) {
        if (tensor.sizes[place] != 1 && tensor.strides[place] != stride)
            return false;
        stride *= tensor.sizes[place];
    }
    return true;
}

/// A dimension of a reduction as TensorIterator orders the dimensions; strides in bytes. `out` is 0 if reduced.
struct Dimension
{
    std::int64_t size = 1;
    std::int64_t in = 0;
    std::int64_t out = 0;
};
using Dimensions = std::vector<Dimension>;

/// Above 0: `second` comes before `first`; below 0: the order is right; 0: both orders are (reorder_dimensions()).
int orderOf(const Dimension& first, const Dimension& second)
{
    if ((first.out == 0) != (second.out == 0))
        return second.out == 0 ? 1 : -1;
    for (const auto& [one, other] : {std::pair(first.out, second.out), std::pair(first.in, second.in)}) {
        if (one == 0 || other == 0)
            continue;
        if (one != other)
            return one < other ? -1 : 1;
        if (first.size > second.size)
            return 1;
    }
    return 0;
}

/// The dimensions in TensorIterator's order, without dimensions that continue the dimension before.
Dimensions ordered(Dimensions dimensions)
{
    std::ranges::reverse(dimensions);
    for (std::size_t next = 1; next < dimensions.size(); ++next) {
        std::size_t place = next;
        for (std::size_t before = next; before-- > 0;) {
            const int order = orderOf(dimensions[before], dimensions[place]);
            if (order < 0)
                break;
            if (order > 0)
                std::swap(dimensions[std::exchange(place, before)], dimensions[before]);
        }
    }
    Dimensions joined;
    for (const Dimension& next : dimensions) {
        Dimension* const last = joined.empty() ? nullptr : &joined.back();
        if (last && last->size == 1)
            *last = next;
        else if (last && (next.size == 1 || (last->size * last->in == next.in && last->size * last->out == next.out)))
            last->size *= next.size;
        else
            joined.push_back(next);
    }
    return joined;
}

/// The multiprocessors of a GPU.
struct Multiprocessors
{
    std::int64_t count = 0;
    std::int64_t threads = 0; ///< resident at once

    explicit Multiprocessors(const DeviceSpec& card)
        : count(card.multiprocessors)
    {
        switch (card.computeCapability) {
        case 75:
            threads = 1024;
            break;
        case 86:
        case 89:
        case 120:
            threads = 1536;
            break;
        default:
            threads = 2048;
        }
    }
};

/// How a reduction accumulates.
struct Accumulation
{
    std::int64_t inputBytes = 4; ///< of an element
    std::int64_t bytes = 4; ///< of an accumulator
    bool inOutput = true; ///< sums of parts may be kept in the output
};

constexpr std::int64_t loadedAtOnce = 4; ///< elements, by a thread
constexpr std::int64_t threadsOfBlock = 512;

std::int64_t vectorOfOutputs(const Dimensions& dimensions, std::size_t first, std::int64_t inputBytes)
{
    std::int64_t vector = loadedAtOnce;
    const auto fit = [&](std::int64_t number) {
        while (number % vector != 0)
            vector /= 2;
    };
    fit(dimensions[first].size);
    for (std::size_t place = 0; place < dimensions.size(); ++place)
        if (place != first)
            fit(dimensions[place].in / inputBytes);
    return vector;
}

/// Bytes of the partial results that the blocks of a reduction exchange (setReduceConfig() in Reduce.cuh).
Bytes exchanged(const Dimensions& dimensions, const Accumulation& how, const Multiprocessors& gpu)
{
    const auto reduced = static_cast<std::size_t>(
        std::ranges::count_if(dimensions, [](const Dimension& dimension) { return dimension.out == 0; }));
    std::int64_t outputs = 1;
    std::int64_t inputs = 1;
    for (const Dimension& dimension : dimensions)
        (dimension.out == 0 ? inputs : outputs) *= dimension.size;
    const bool alongFastest = reduced == dimensions.size() || dimensions[0].in < dimensions[reduced].in;
    std::int64_t width = alongFastest ? inputs : outputs;
    const std::int64_t height = alongFastest ? outputs : inputs;
    const std::int64_t stride = dimensions.empty() ? how.inputBytes : dimensions[alongFastest ? 0 : reduced].in;
    std::int64_t outputVector = 1;
    if (stride == how.inputBytes) {
        if (alongFastest && width >= 128 && reduced == 1) {
            width /= loadedAtOnce;
        } else if (!alongFastest) {
            outputVector = vectorOfOutputs(dimensions, reduced, how.inputBytes);
            width /= outputVector;
        }
    }
    const std::int64_t mostThreads = threadsOfBlock / outputVector;
    const auto powerOf2 = [&](std::int64_t size) {
        return size < mostThreads
            ? static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1))))
            : mostThreads;
    };
    constexpr std::int64_t warp = 32;
    std::int64_t blockWidth = std::min(powerOf2(width), warp);
    const std::int64_t blockHeight = std::min(powerOf2(height), mostThreads / blockWidth);
    blockWidth = std::min(powerOf2(width), mostThreads / blockHeight);

    std::int64_t stepOutput = alongFastest ? 1 : blockWidth;
    std::int64_t stepInput = alongFastest ? blockWidth : 1;
    constexpr std::int64_t fewValues = 16;
    constexpr std::int64_t manyValues = 256;
    const bool acrossWarps = ceilDiv(inputs, stepInput) >= std::min(blockHeight * fewValues, manyValues);
    (acrossWarps ? stepInput : stepOutput) *= blockHeight;
    const std::int64_t values = ceilDiv(inputs, stepInput);
    const std::int64_t target = gpu.count * (gpu.threads / (blockWidth * blockHeight));
    const std::int64_t grid = ceilDiv(outputs / outputVector, stepOutput);
    if (!acrossWarps || values < manyValues || grid > target)
        return 0;
    const std::int64_t blocks
        = std::max(std::min(ceilDiv(target, grid), ceilDiv(values, fewValues)), ceilDiv(values, manyValues));
    if (blocks <= 1)
        return 0;
    const std::int64_t lanes = alongFastest ? 1 : blockWidth * outputVector;
    return roundedToBlock(how.bytes * outputs * blocks * lanes)
        + roundedToBlock(static_cast<std::int64_t>(sizeof(std::int32_t)) * grid);
}

/// exchanged(), of a tensor with more elements than 32 bits count: PyTorch halves the dimension of the largest extent.
Bytes exchangedInParts(Dimensions dimensions, const Accumulation& how, const Multiprocessors& gpu)
{
    std::int64_t lastIn = 1;
    std::int64_t lastOut = 1;
    Dimension* largest = nullptr;
    std::int64_t extent = -1;
    for (Dimension& dimension : dimensions) {
        lastIn += (dimension.size - 1) * dimension.in;
        lastOut += (dimension.size - 1) * dimension.out;
        const std::int64_t own = (dimension.size - 1) * std::max(dimension.in, dimension.out);
        if (own >= extent) {
            extent = own;
            largest = &dimension;
        }
    }
    if (std::max(lastIn, lastOut) <= most32Bit || !largest || largest->size < 2)
        return exchanged(dimensions, how, gpu);
    largest->size -= largest->size / 2;
    return exchangedInParts(std::move(dimensions), how, gpu);
}

/// Scratch memory of a reduction over the dimensions that `isReduced` names.
template <class IsReduced>
Bytes reduction(const TensorShape& input, const Accumulation& how, const Multiprocessors& gpu, IsReduced isReduced)
{
    Dimensions dimensions(input.sizes.size());
    std::int64_t outputs = 1;
    for (std::size_t place = dimensions.size(); place-- > 0;) {
        dimensions[place].size = input.sizes[place];
        dimensions[place].in = input.strides[place] * how.inputBytes;
        if (isReduced(place))
            continue;
        dimensions[place].out = outputs;
        outputs *= input.sizes[place];
    }
    if (product(input.sizes) == 0)
        return 0;
    dimensions = ordered(std::move(dimensions));
    const std::int64_t last = std::accumulate(
        dimensions.begin(), dimensions.end(), std::int64_t{1},
        [](std::int64_t sum, const Dimension& dimension) { return sum + (dimension.size - 1) * dimension.in; });
    const Bytes parts = last > most32Bit && !how.inOutput ? roundedToBlock(outputs * how.bytes) : 0;
    return parts + exchangedInParts(std::move(dimensions), how, gpu);
}

/// A reduction as an op's schema has it.
struct ReductionOp
{
    std::string_view name;
    int dimensions = 1; ///< the argument with the dimensions; none: all are reduced
    int accumulator = 0; ///< bytes; 0: as the dtype's
};
constexpr int asInput = -1;
constexpr std::array reductionOps{
    ReductionOp{"aten.sum"}, ReductionOp{"aten.nansum"}, ReductionOp{"aten.mean"}, ReductionOp{"aten.prod"},
    ReductionOp{"aten.linalg_vector_norm", 2}, ReductionOp{"aten.norm", 2}, ReductionOp{"aten.logsumexp"},
    ReductionOp{"aten.count_nonzero"}, ReductionOp{"aten.amax", 1, asInput}, ReductionOp{"aten.amin", 1, asInput},
    ReductionOp{"aten.any", 1, 1}, ReductionOp{"aten.all", 1, 1},
    // Mean, sum of squares and two counts; a value and an index.
    ReductionOp{"aten.var", 1, 16}, ReductionOp{"aten.std", 1, 16}, ReductionOp{"aten.var_mean", 1, 16},
    ReductionOp{"aten.std_mean", 1, 16}, ReductionOp{"aten.max", 1, 16}, ReductionOp{"aten.min", 1, 16},
    ReductionOp{"aten.argmax", 1, 16}, ReductionOp{"aten.argmin", 1, 16}};

/// Whether PyTorch sums the dtype as int64, in a copy.
bool isWidened(DType dtype)
{
    return dtype == DType::int8 || dtype == DType::uint8 || dtype == DType::int16 || dtype == DType::int32
        || dtype == DType::boolean;
}

/// The tensor in a dense copy of another dtype.
TensorShape as(TensorShape tensor, DType dtype, int itemSize)
{
    tensor.dtype = dtype;
    tensor.itemSize = itemSize;
    return tensor;
}

Accumulation accumulationOf(const TensorShape& input, int accumulator)
{
    Accumulation how;
    how.inputBytes = input.itemSize;
    how.inOutput = input.itemSize >= 4;
    if (accumulator > 0)
        how.bytes = accumulator;
    else if (accumulator == asInput || input.itemSize > 4)
        how.bytes = input.itemSize;
    return how;
}

Bytes reductionScratch(const ReductionOp& op, const OpSignature& signature, const Multiprocessors& gpu)
{
    const TensorShape* const tensor = signature.tensor(0);
    if (!tensor)
        return 0;
    const TensorShape* const result = signature.result();
    if (!result || (result->sizes.size() >= tensor->sizes.size() && product(result->sizes) == product(tensor->sizes)))
        return 0; // nothing is reduced: the larger of two tensors
    TensorShape input = *tensor;
    Bytes scratch = 0;
    if (op.name == "aten.count_nonzero") {
        input = as(input, DType::boolean, 1); // the comparison with zero
        scratch += copyOf(input);
    }
    const bool sums = op.name == "aten.sum" || op.name == "aten.prod" || op.name == "aten.count_nonzero";
    if (sums && isWidened(input.dtype)) {
        input = as(input, DType::int64, 8);
        scratch += copyOf(input);
    }
    if (op.name == "aten.logsumexp")
        scratch += copyOf(input) + roundedToBlock(product(result->sizes) * input.itemSize);
    const auto place = static_cast<std::size_t>(op.dimensions);
    std::vector<std::int64_t> over = place < signature.arguments.size()
            && signature.arguments[place].kind == OpSignature::Value::ValueType::integers
        ? signature.arguments[place].integers
        : std::vector<std::int64_t>();
    for (std::int64_t& dimension : over)
        dimension += dimension < 0 ? static_cast<std::int64_t>(input.sizes.size()) : 0;
    return scratch + reduction(input, accumulationOf(input, op.accumulator), gpu, [&](std::size_t dimension) {
               return over.empty() || std::ranges::find(over, static_cast<std::int64_t>(dimension)) != over.end();
           });
}

/// Scratch memory of a loss: the loss of each element, and the mean or sum of all.
Bytes lossScratch(const OpSignature& signature, std::size_t reductionArgument, int copies, const Multiprocessors& gpu)
{
    const TensorShape* const input = signature.tensor(0);
    if (!input || signature.integer(reductionArgument, 0, 1) == 0)
        return 0;
    return copies * copyOf(*input)
        + reduction(*input, accumulationOf(*input, 0), gpu, [](std::size_t) { return true; });
}

/// Whether cuBLAS reads a matrix without a copy: the last two dimensions of a tensor.
bool isReadable(const TensorShape& matrix)
{
    const std::size_t size = matrix.sizes.size();
    if (size < 2)
        return true;
    const auto isOrdered = [&](std::size_t inner, std::size_t outer) {
        return matrix.strides[inner] == 1 && matrix.strides[outer] >= std::max<std::int64_t>(1, matrix.sizes[inner]);
    };
    return isOrdered(size - 1, size - 2) || isOrdered(size - 2, size - 1);
}

Bytes productScratch(const OpSignature& signature, std::size_t first)
{
    Bytes scratch = 0;
    for (const TensorShape* const matrix : {signature.tensor(first), signature.tensor(first + 1)})
        if (matrix && !isReadable(*matrix))
            scratch += copyOf(*matrix);
    return scratch;
}

/// The sizes of an attention's tensor.
struct Heads
{
    std::int64_t batch = 1;
    std::int64_t heads = 1;
    std::int64_t length = 0;
    std::int64_t width = 0;
};

/// `inKernelOrder`: the sizes are batch, length, heads, width; of sequences of different lengths, the lengths' sum,
/// heads, width.
Heads headsOf(const TensorShape& tensor, bool inKernelOrder)
{
    const std::vector<std::int64_t>& sizes = tensor.sizes;
    if (sizes.size() == 3)
        return {1, sizes[1], sizes[0], sizes[2]};
    if (sizes.size() != 4)
        return {};
    return inKernelOrder ? Heads{sizes[0], sizes[2], sizes[1], sizes[3]}
                         : Heads{sizes[0], sizes[1], sizes[2], sizes[3]};
}

constexpr std::int64_t floatBytes = 4;

/// mha_bwd() and mha_varlen_bwd(): the query's gradient in float32, sums with the result, and the gradients of key
/// and value for each head of the query.
Bytes flashBackwardScratch(const OpSignature& signature, const Heads& q, const Heads& k, const Multiprocessors& gpu)
{
    const TensorShape& query = *signature.tensor(1);
    constexpr std::int64_t rows = 128;
    std::int64_t queries = roundedUp(q.length, rows);
    if (query.sizes.size() == 3) {
        const TensorShape* const starts = signature.tensor(6);
        queries = q.length + rows * (starts ? std::max<std::int64_t>(product(starts->sizes) - 1, 1) : 1);
    }
    const std::int64_t width = q.width <= 192 ? roundedUp(q.width, 32) : 256;
    const std::int64_t splits = (signature.modes & deterministicKernels) != 0
        ? std::max<std::int64_t>(ceilDiv(gpu.count, std::max<std::int64_t>(q.batch * q.heads, 1)), 1)
        : 1;
    Bytes scratch = roundedToBlock(volume({splits, q.batch, queries, q.heads, width, floatBytes}))
        + roundedToBlock(volume({q.batch, q.heads, queries, floatBytes}));
    if (k.heads != q.heads)
        scratch += 2 * roundedToBlock(volume({k.batch, k.length, q.heads, q.width, query.itemSize}));
    return scratch;
}

/// _efficient_attention_backward(): the query's gradient in float32 by tiles of 64 columns and 64 or 128 rows, and of
/// wide heads in half precision the gradients of key and value. Tiles have a few bytes more, of a size that depends on
/// the kernel.
Bytes efficientBackwardScratch(const OpSignature& signature, const Heads& q, const Heads& k)
{
    constexpr std::int64_t tile = 64;
    const std::int64_t width = roundedUp(q.width, tile);
    std::int64_t elements = volume({roundedUp(q.length, q.width > tile ? 2 * tile : tile), width});
    elements += elements / (tile * tile) * 16;
    if (signature.tensor(1)->itemSize == 2 && q.width > 128)
        elements += 2 * volume({roundedUp(k.length, tile), width});
    return roundedToBlock(volume({q.batch, q.heads, elements, floatBytes}))
        + roundedToBlock(volume({q.batch, q.heads, q.length, floatBytes}));
}

Bytes attentionBackwardScratch(std::string_view name, const OpSignature& signature, const Multiprocessors& gpu)
{
    const TensorShape* const query = signature.tensor(1);
    const TensorShape* const key = signature.tensor(2);
    if (!query || !key)
        return 0;
    const bool inKernelOrder = !name.starts_with("aten._scaled_dot_product");
    const Heads q = headsOf(*query, inKernelOrder);
    const Heads k = headsOf(*key, inKernelOrder);
    return name.ends_with("flash_attention_backward") ? flashBackwardScratch(signature, q, k, gpu)
                                                      : efficientBackwardScratch(signature, q, k);
}

/// embedding_dense_backward_cuda(): sorted indices and their places, and sums of parts of 10 rows; a part has a
/// single index. How many indices differ is not known: as many as may.
Bytes embeddingBackwardScratch(const OpSignature& signature)
{
    constexpr std::int64_t fewIndices = 3072;
    constexpr std::int64_t rowsOfAPart = 10;
    constexpr std::int64_t warp = 32;
    constexpr std::int64_t indexBytes = 8;
    const TensorShape* const gradient = signature.tensor(0);
    const TensorShape* const indices = signature.tensor(1);
    if (!gradient || !indices || gradient->sizes.empty())
        return 0;
    const std::int64_t count = product(indices->sizes);
    if (count <= fewIndices)
        return 0;
    const std::int64_t segments = std::clamp<std::int64_t>(signature.integer(2, 0, count), 0, count);
    const std::int64_t parts = count / rowsOfAPart + segments;
    return (isContiguous(*gradient) ? 0 : copyOf(*gradient)) + 2 * roundedToBlock(count * indexBytes)
        + 3 * roundedToBlock(segments * indexBytes) + roundedToBlock(parts * indexBytes)
        + roundedToBlock(volume({parts, roundedUp(gradient->sizes.back(), warp), floatBytes}));
}

} // namespace

Bytes kernelScratch(std::string_view op, const OpSignature& signature, const DeviceSpec& card)
{
    const std::string_view name = overloadPacket(op);
    const Multiprocessors gpu(card);
    for (const std::vector<OpSignature::Value>* const values : {&signature.arguments, &signature.results})
        for (const OpSignature::Value& value : *values)
            if (!std::ranges::all_of(value.tensors, isPossible))
                return 0;
    if (const auto found = std::ranges::find(reductionOps, name, &ReductionOp::name); found != reductionOps.end())
        return reductionScratch(*found, signature, gpu);
    if (name == "aten._softmax_backward_data" && signature.tensor(0))
        return copyOf(*signature.tensor(0)); // the product of gradient and result
    if (name == "aten.mse_loss" || name == "aten.smooth_l1_loss" || name == "aten.huber_loss")
        return lossScratch(signature, 2, 1, gpu);
    if (name == "aten.binary_cross_entropy_with_logits")
        return lossScratch(signature, 4, 2, gpu);
    if (name == "aten.mm" || name == "aten.bmm")
        return productScratch(signature, 0);
    if (name == "aten.addmm" || name == "aten._addmm_activation" || name == "aten.baddbmm")
        return productScratch(signature, 1);
    if (name == "aten._scaled_dot_product_flash_attention_backward" || name == "aten._flash_attention_backward"
        || name == "aten._scaled_dot_product_efficient_attention_backward"
        || name == "aten._efficient_attention_backward")
        return attentionBackwardScratch(name, signature, gpu);
    if (name == "aten.embedding_dense_backward")
        return embeddingBackwardScratch(signature);
    if (name == "aten.convolution_backward" && signature.tensor(0) && signature.integer(10, 2) != 0)
        return reduction(*signature.tensor(0), accumulationOf(*signature.tensor(0), 0), gpu,
                         [](std::size_t dimension) { return dimension != 1; }); // the bias's gradient
    return 0;
}

} // namespace headroom
