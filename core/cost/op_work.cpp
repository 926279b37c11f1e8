// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/op_work.h"

#include "core/base/words.h"
#include "core/cost/roofline.h"
#include "core/trace/step_trace.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

namespace headroom {
namespace {

using enum WorkClass;

// clang-format off
constexpr auto classNames = std::to_array<std::string_view>({
    "none", "pointwise", "copy", "fill", "transfer", "reduction", "scan", "softmax", "softmax_backward", "layer_norm",
    "layer_norm_backward", "batch_norm", "batch_norm_backward", "group_norm", "group_norm_backward", "matmul",
    "convolution", "convolution_backward", "attention", "attention_backward", "embedding", "embedding_backward",
    "index", "pool", "pool_backward", "foreach", "sort", "opaque"
});
// clang-format on
static_assert(classNames.size() == workClassCount);

/// The ops with a class that does not follow from shapes, by class.
// clang-format off
constexpr auto classes = std::to_array<std::pair<WorkClass, std::string_view>>({
    {none, "_conj _has_compatible_shallow_copy_type _neg_view _nested_tensor_from_mask _reshape_alias _unsafe_view "
           "alias alias_ as_strided as_strided_ chunk detach detach_ diagonal empty empty_like empty_permuted "
           "empty_strided expand is_pinned is_same_size lift_fresh narrow new_empty new_empty_strided permute "
           "pin_memory record_stream resize_ resolve_conj resolve_neg select set_ slice split split_with_sizes "
           "squeeze squeeze_ t t_ tensor_split transpose transpose_ unbind unfold unsafe_chunk unsafe_split "
           "unsafe_split_with_sizes unsqueeze unsqueeze_ view view_as_complex view_as_real"},
    {copy, "_to_copy cat clone constant_pad_nd copy_ repeat select_backward select_scatter slice_backward "
           "slice_scatter split_with_sizes_copy stack"},
    {fill, "arange eye fill fill_ full full_like new_full new_ones new_zeros ones ones_like zero_ zeros zeros_like"},
    {transfer, "_local_scalar_dense"},
    {scan, "cummax cumprod cumsum logcumsumexp"},
    {softmax, "_log_softmax _safe_softmax _softmax"},
    {softmaxBackward, "_log_softmax_backward_data _softmax_backward_data"},
    {layerNorm, "_fused_rms_norm native_layer_norm rms_norm"},
    {layerNormBackward, "_fused_rms_norm_backward native_layer_norm_backward"},
    {batchNorm, "_batch_norm_with_update _native_batch_norm_legit _native_batch_norm_legit_functional "
                "cudnn_batch_norm native_batch_norm"},
    {batchNormBackward, "batch_norm_backward cudnn_batch_norm_backward native_batch_norm_backward"},
    {groupNorm, "native_group_norm"},
    {groupNormBackward, "native_group_norm_backward"},
    {matmul, "_addmm_activation _scaled_mm addbmm addmm addmm_ addmv baddbmm bmm linear mm mv"},
    {convolution, "_convolution convolution cudnn_convolution"},
    {convolutionBackward, "convolution_backward"},
    {attention, "_cudnn_attention_forward _efficient_attention_forward _flash_attention_forward "
                "_scaled_dot_product_cudnn_attention _scaled_dot_product_efficient_attention "
                "_scaled_dot_product_flash_attention"},
    {attentionBackward, "_cudnn_attention_backward _efficient_attention_backward _flash_attention_backward "
                        "_scaled_dot_product_cudnn_attention_backward "
                        "_scaled_dot_product_efficient_attention_backward "
                        "_scaled_dot_product_flash_attention_backward"},
    {embedding, "_embedding_bag embedding"},
    {embeddingBackward, "_embedding_bag_dense_backward embedding_dense_backward"},
    {index, "_index_put_impl_ _unsafe_index gather index index_add index_add_ index_copy_ index_put index_put_ "
            "index_select scatter scatter_ scatter_add scatter_add_ take"},
    {pool, "_adaptive_avg_pool2d adaptive_max_pool2d avg_pool2d max_pool2d_with_indices max_pool3d_with_indices"},
    {poolBackward, "_adaptive_avg_pool2d_backward adaptive_max_pool2d_backward avg_pool2d_backward "
                   "max_pool2d_with_indices_backward max_pool3d_with_indices_backward"},
    {foreach, "_amp_foreach_non_finite_check_and_unscale_"},
    {sort, "_unique2 argsort multinomial nonzero sort topk"},
});
// clang-format on

const std::unordered_map<std::string_view, WorkClass>& classByName()
{
    static const auto table = [] {
        std::unordered_map<std::string_view, WorkClass> byName;
        for (const auto& [kind, names] : classes)
            forEachWord(names, [&, kind = kind](std::string_view name) { byName.emplace(name, kind); });
        return byName;
    }();
    return table;
}

WorkClass classByShape(const OpSignature& signature)
{
    const TensorShape* const out = signature.result();
    double largest = 0;
    for (const OpSignature::Value& value : signature.arguments)
        for (const TensorShape& tensor : value.tensors)
            largest = std::max(largest, numel(tensor));
    return out && largest > 1 && numel(*out) * 2 <= largest ? reduction : pointwise;
}

} // namespace

std::string_view workClassName(WorkClass work)
{
    return classNames[static_cast<std::size_t>(work)];
}

double numel(const TensorShape& tensor)
{
    double count = 1;
    for (const std::int64_t size : tensor.sizes)
        count *= static_cast<double>(size);
    return count;
}

WorkClass workClassOf(std::string_view op, const OpSignature& signature, std::uint16_t flags)
{
    if (!op.starts_with("aten."))
        return op.starts_with("prims.") || op.starts_with("prim.") ? none : opaque;
    const std::string_view name = op.substr(std::string_view("aten.").size());
    if (name.starts_with("_foreach_") || name.starts_with("_fused_adam") || name.starts_with("_fused_sgd")
        || name.starts_with("_fused_adagrad"))
        return foreach;
    if (const auto known = classByName().find(name); known != classByName().end())
        return known->second;
    return flags & opView ? none : classByShape(signature);
}

namespace {

using enum WorkClass;
using Value = OpSignature::Value;

double bytesOf(const TensorShape* tensor)
{
    return tensor ? elements(*tensor) * tensor->itemSize : 0;
}

double bytesOf(const std::vector<Value>& values)
{
    double bytes = 0;
    for (const Value& value : values)
        for (const TensorShape& tensor : value.tensors)
            bytes += tensor.onHost ? 0 : bytesOf(&tensor);
    return bytes;
}

/// Whether some tensor of the result's sizes has another memory layout, so that no kernel can run over all of them in
/// one order.
bool isStrided(const OpSignature& signature)
{
    const TensorShape* const out = signature.result() ? signature.result() : signature.tensor(0);
    if (!out)
        return false;
    if (out->strides.size() != out->sizes.size())
        return false; // an old trace does not say
    const auto order = layoutOf(*out);
    for (const Value& value : signature.arguments)
        for (const TensorShape& tensor : value.tensors)
            if (tensor.sizes == out->sizes && tensor.strides.size() == tensor.sizes.size()
                && (layoutOf(tensor) != order || !isDense(tensor)))
                return true;
    return !isDense(*out);
}

/// How often `operand` is repeated as a whole along `out`; 0: PyTorch does not broadcast the operand.
double repeatsOf(const TensorShape& operand, const TensorShape& out)
{
    if (operand.onHost || operand.sizes.size() > out.sizes.size() || elements(operand) >= numel(out))
        return 0;
    const std::size_t missing = out.sizes.size() - operand.sizes.size();
    double repeats = 1;
    bool isOutside = true;
    for (std::size_t d = 0; d < out.sizes.size(); ++d) {
        const std::int64_t size = d < missing ? 1 : operand.sizes[d - missing];
        const bool isExpanded
            = d >= missing && d - missing < operand.strides.size() && operand.strides[d - missing] == 0;
        if (size != 1 && size != out.sizes[d])
            return 0;
        isOutside = isOutside && (size == 1 || isExpanded);
        repeats *= isOutside ? static_cast<double>(out.sizes[d]) : 1;
    }
    return repeats;
}

/// Sets the work of repeated operands: TensorIterator's vectorized kernels take none, and an operand that is repeated
/// as a whole is read again each time.
void readRepeated(const OpSignature& signature, OpWork& work)
{
    const TensorShape* const out = signature.result() ? signature.result() : signature.tensor(0);
    if (!out || numel(*out) <= 1)
        return;
    for (const Value& value : signature.arguments)
        for (const TensorShape& operand : value.tensors) {
            const double repeats = repeatsOf(operand, *out);
            work.strided = work.strided || repeats > 0;
            if (repeats > 1 && bytesOf(&operand) > work.repeated) {
                work.repeated = bytesOf(&operand);
                work.repeats = repeats;
            }
        }
}

/// Arguments are [..., m, k] and [..., k, n] from `first` on.
MatrixProduct productOf(const OpSignature& signature, std::size_t first)
{
    const TensorShape* const a = signature.tensor(first);
    const TensorShape* const b = signature.tensor(first + 1);
    if (!a || !b || a->sizes.empty() || b->sizes.empty())
        return {};
    const double k = sizeAt(*a, -1);
    const double n = b->sizes.size() > 1 ? sizeAt(*b, -1) : 1;
    const double batch = a->sizes.size() > 2 && b->sizes.size() > 2 ? sizeAt(*a, 0) : 1;
    MatrixProduct product{batch, k > 0 ? numel(*a) / k / batch : 0, n, k};
    const auto align = [&](const TensorShape& matrix) {
        // The stride between rows, or between columns where the matrix is transposed.
        for (std::size_t i = 0; i < matrix.strides.size(); ++i)
            while (product.alignment > 1 && matrix.sizes[i] > 1 && matrix.strides[i] > 1
                   && static_cast<std::uint64_t>(matrix.strides[i]) * static_cast<std::uint64_t>(matrix.itemSize)
                           % static_cast<std::uint64_t>(product.alignment)
                       != 0)
                product.alignment /= 2;
    };
    align(*a);
    align(*b);
    if (const TensorShape* const out = signature.result())
        align(*out);
    return product;
}

std::size_t firstFactor(std::string_view name)
{
    return name.starts_with("aten.add") || name.starts_with("aten.badd") || name.starts_with("aten._addmm") ? 1 : 0;
}

double points(const TensorShape& image)
{
    double count = sizeAt(image, 0);
    for (std::size_t i = 2; i < image.sizes.size(); ++i)
        count *= static_cast<double>(image.sizes[i]);
    return count;
}

/// convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
/// convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
/// groups, output_mask); cudnn_convolution(input, weight, padding, stride, dilation, groups, …).
void readConvolution(std::string_view name, const OpSignature& signature, OpWork& work)
{
    const bool backward = work.kind == convolutionBackward;
    const std::size_t first = backward ? 1 : 0;
    const bool isCudnn = name.starts_with("aten.cudnn");
    const TensorShape* x = signature.tensor(first);
    const TensorShape* const weight = signature.tensor(first + 1);
    const TensorShape* out = backward ? signature.tensor(0) : signature.result();
    if (!x || !weight || !out || weight->sizes.size() < 2)
        return;
    const bool transposed = !isCudnn && signature.integer(backward ? 7 : 6) != 0;
    if (transposed)
        std::swap(x, out); // a transposed convolution is the gradient of a convolution
    ConvolutionWork& c = work.convolution;
    c.groups = static_cast<double>(std::max<std::int64_t>(1, signature.integer(isCudnn ? 5 : backward ? 9 : 8, 0, 1)));
    c.inputChannels = sizeAt(*weight, 1);
    c.outputChannels = sizeAt(*weight, 0) / c.groups;
    c.inputPoints = points(*x);
    c.outputPoints = points(*out);
    c.kernelPoints = 1;
    for (std::size_t i = 2; i < weight->sizes.size(); ++i)
        c.kernelPoints *= static_cast<double>(weight->sizes[i]);
    c.channelsLast = isChannelsLast(*x) || isChannelsLast(*weight);
    c.inputBytes = bytesOf(x);
    c.outputBytes = bytesOf(out);
    c.weightBytes = bytesOf(weight);
    work.dtype = weight->dtype;
    if (backward) {
        c.gradInput = signature.integer(10, 0, 1) != 0;
        c.gradWeight = signature.integer(10, 1, 1) != 0;
        c.gradBias = signature.integer(10, 2, 0) != 0;
        work.kernels = (c.gradInput ? 1 : 0) + (c.gradWeight ? 1 : 0) + (c.gradBias ? 1 : 0);
    } else {
        const bool isDepthwise = c.groups > 1 && c.inputChannels <= 1; // PyTorch's own kernels add the bias themselves
        c.bias = !isCudnn && !isDepthwise && signature.tensor(2) != nullptr;
        work.kernels += c.bias ? 1 : 0;
    }
    const double once = 2 * c.groups * c.outputPoints * c.outputChannels * c.inputChannels * c.kernelPoints;
    work.flops = once * (backward ? (c.gradInput ? 1 : 0) + (c.gradWeight ? 1 : 0) : 1);
}

/// Query, key and value are three tensors of four dimensions: [batch, heads, length, width] above the kernels,
/// [batch, length, heads, width] in them.
void readAttention(std::string_view name, const OpSignature& signature, OpWork& work)
{
    const bool backward = work.kind == attentionBackward;
    const std::size_t first = backward ? 1 : 0;
    const TensorShape* const query = signature.tensor(first);
    const TensorShape* const key = signature.tensor(first + 1);
    if (!query || !key || query->sizes.size() != 4 || key->sizes.size() != 4)
        return;
    const bool inKernelOrder = name.starts_with("aten._flash") || name.starts_with("aten._efficient");
    const std::ptrdiff_t length = inKernelOrder ? 1 : 2;
    AttentionWork& a = work.attention;
    a.kernel = name.find("flash") != std::string_view::npos ? AttentionWork::Kernel::flash
        : name.find("cudnn") != std::string_view::npos      ? AttentionWork::Kernel::cudnn
                                                            : AttentionWork::Kernel::efficient;
    a.query = sizeAt(*query, length);
    a.key = sizeAt(*key, length);
    a.batchHeads = sizeAt(*query, 0) * sizeAt(*query, 3 - length);
    a.width = sizeAt(*query, 3);
    work.dtype = query->dtype;
    // Positions of is_causal in native_functions.yaml.
    if (name.starts_with("aten._scaled_dot_product_flash"))
        a.causal = signature.integer(backward ? 11 : 4) != 0;
    else if (name.starts_with("aten._flash"))
        a.causal = signature.integer(backward ? 11 : 8) != 0;
    else if (name.starts_with("aten._scaled_dot_product_efficient"))
        a.causal = signature.integer(backward ? 11 : 6) != 0;
    else if (name.starts_with("aten._scaled_dot_product_cudnn"))
        a.causal = signature.integer(backward ? 14 : 6) != 0;
    const double pairs = a.causal ? a.query * (a.key - (a.query - 1) / 2) : a.query * a.key;
    work.flops = 2 * a.batchHeads * std::max(pairs, a.query) * a.width * (backward ? 5 : 2);
}

/// Rows and columns of an op along dimension `dimension` of `tensor`.
void readRows(const TensorShape& tensor, std::int64_t dimension, OpWork& work)
{
    work.columns = sizeAt(tensor, dimension);
    work.rows = work.columns > 0 ? numel(tensor) / work.columns : 0;
    const auto order = layoutOf(tensor);
    const auto place = dimension < 0 ? dimension + static_cast<std::int64_t>(tensor.sizes.size()) : dimension;
    work.innermost = order.empty() || static_cast<std::int64_t>(order.back()) == place || work.columns == 1;
}

void readReduction(const OpSignature& signature, OpWork& work)
{
    const TensorShape* largest = signature.tensor(0);
    const TensorShape* const out = signature.result();
    if (!largest || !out)
        return;
    work.rows = std::max(1.0, numel(*out));
    work.columns = numel(*largest) / work.rows;
    // The innermost dimension of the input, if also a dimension of the result, is not reduced over.
    const auto order = layoutOf(*largest);
    if (order.empty())
        return;
    const double inner = static_cast<double>(largest->sizes[order.back()]);
    const auto kept = layoutOf(*out);
    work.innermost = kept.empty() || static_cast<double>(out->sizes[kept.back()]) != inner
        || work.columns * work.rows == work.rows;
}

void readForeach(std::string_view name, const OpSignature& signature, OpWork& work)
{
    const auto written = [&](std::size_t argument) {
        return argument < signature.arguments.size() ? bytesOf({signature.arguments[argument]}) : 0.0;
    };
    const bool inPlace = name.ends_with("_");
    if (name.starts_with("aten._fused_adam"))
        work.written = written(0) + written(2) + written(3);
    else if (name.starts_with("aten._fused"))
        work.written = written(0) + written(2);
    else if (inPlace)
        work.written = written(0);
    double lists = 0;
    double tensors = 1;
    for (const Value& value : signature.arguments) {
        if (value.kind != Value::ValueType::tensors && value.kind != Value::ValueType::manyTensors)
            continue;
        ++lists;
        tensors = std::max(tensors,
                           value.kind == Value::ValueType::manyTensors ? static_cast<double>(value.integers.front())
                                                                       : static_cast<double>(value.tensors.size()));
    }
    // depth_to_max_tensors, depth_to_max_blocks and kChunkSize of aten/src/ATen/native/cuda/MultiTensorApply.cuh.
    constexpr std::array<double, 6> mostTensors{110, 110, 64, 48, 36, 30};
    constexpr double chunk = 65536;
    constexpr double mostBlocks = 320;
    const double itemSize = 4;
    const double chunks = lists > 0 ? work.read / lists / itemSize / chunk : 0;
    work.tensors = tensors * std::max(lists, 1.0);
    work.kernels
        = std::max({1.0, tensors / mostTensors[static_cast<std::size_t>(std::min(lists, 5.0))], chunks / mostBlocks});
}

/// Counts the rows that are gathered from a table as read, not the whole table.
void readGather(const OpSignature& signature, OpWork& work)
{
    const TensorShape* const out = signature.result();
    const double moved = bytesOf(out);
    const double table = bytesOf(signature.tensor(0));
    work.written = moved;
    work.read = std::min(work.read, work.read - table + std::min(table, moved));
}

} // namespace

OpWork workOf(std::string_view op, const OpSignature& signature, std::uint16_t flags, double flops)
{
    const std::string_view name = overloadPacket(op);
    OpWork work;
    work.kind = workClassOf(name, signature, flags);
    work.modes = signature.modes;
    work.flops = flops;
    if (const TensorShape* const tensor = signature.tensor(0) ? signature.tensor(0) : signature.result())
        work.dtype = tensor->dtype;
    if (work.kind == none) {
        work.kernels = 0;
        return work;
    }
    work.read = bytesOf(signature.arguments);
    work.written = bytesOf(signature.results);
    work.strided = isStrided(signature);
    const TensorShape* const first = signature.tensor(0);
    const TensorShape* const out = signature.result();
    switch (work.kind) {
    case pointwise:
        readRepeated(signature, work);
        break;
    case copy: {
        const TensorShape* const source = name == "aten.copy_" ? signature.tensor(1) : first;
        const TensorShape* const target = name == "aten.copy_" ? first : out;
        if (source && target && source->onHost != target->onHost)
            work.kind = transfer;
        work.toHost = target && target->onHost;
        // copy_(self, src, non_blocking), _to_copy(self, dtype, layout, device, pin_memory, non_blocking)
        work.waits = work.kind == transfer && signature.integer(name == "aten.copy_" ? 2 : 5) == 0;
        if (name == "aten.copy_" || work.kind == transfer) {
            work.read = bytesOf(source);
            work.written = bytesOf(target);
        }
        // slice_backward, select_backward and padding fill the result first.
        work.kernels = name.ends_with("_backward") || name == "aten.constant_pad_nd" ? 2 : 1;
        if (work.kernels > 1)
            work.written += work.read;
        break;
    }
    case transfer:
        work.written = work.read;
        work.toHost = true;
        work.waits = true;
        break;
    case fill:
        work.read = 0;
        work.written = bytesOf(out ? out : first);
        break;
    case matmul:
        work.product = productOf(signature, firstFactor(name));
        if (const TensorShape* const factor = signature.tensor(firstFactor(name)))
            work.dtype = factor->dtype;
        work.flops = work.product.flops();
        break;
    case convolution:
    case convolutionBackward:
        readConvolution(name, signature, work);
        break;
    case attention:
    case attentionBackward:
        readAttention(name, signature, work);
        break;
    case softmax:
    case softmaxBackward:
    case scan:
        if (first)
            readRows(*first, signature.integer(work.kind == softmaxBackward ? 2 : 1, 0, -1), work);
        break;
    case layerNorm:
    case layerNormBackward: {
        const TensorShape* const input = work.kind == layerNorm ? first : signature.tensor(1);
        const std::size_t shape = work.kind == layerNorm ? 1 : 2;
        double columns = 1;
        if (shape < signature.arguments.size())
            for (const std::int64_t size : signature.arguments[shape].integers)
                columns *= static_cast<double>(size);
        work.columns = columns;
        work.rows = input ? numel(*input) / std::max(columns, 1.0) : 0;
        break;
    }
    case batchNorm:
    case batchNormBackward:
        if (first) {
            work.rows = sizeAt(*first, 1);
            work.columns = numel(*first) / std::max(work.rows, 1.0);
            work.innermost = !isChannelsLast(*first);
        }
        if (const TensorShape* const weight = signature.tensor(work.kind == batchNorm ? 1 : 2))
            work.halfWeights = weight->itemSize == 2;
        break;
    case reduction:
        readReduction(signature, work);
        break;
    case foreach:
        readForeach(name, signature, work);
        break;
    case embedding:
    case index:
        if (out && first && numel(*out) != numel(*first) && !name.ends_with("_"))
            readGather(signature, work);
        break;
    default:
        break;
    }
    return work;
}

} // namespace headroom
