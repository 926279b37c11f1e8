// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/work_class.h"

#include "core/trace/step_trace.h"

#include <algorithm>
#include <array>
#include <utility>

namespace headroom {
namespace {

using enum WorkClass;

constexpr auto classNames = std::to_array<std::string_view>({"none",
                                                             "pointwise",
                                                             "copy",
                                                             "fill",
                                                             "transfer",
                                                             "reduction",
                                                             "scan",
                                                             "softmax",
                                                             "softmax_backward",
                                                             "layer_norm",
                                                             "layer_norm_backward",
                                                             "batch_norm",
                                                             "batch_norm_backward",
                                                             "group_norm",
                                                             "group_norm_backward",
                                                             "matmul",
                                                             "convolution",
                                                             "convolution_backward",
                                                             "attention",
                                                             "attention_backward",
                                                             "embedding",
                                                             "embedding_backward",
                                                             "index",
                                                             "pool",
                                                             "pool_backward",
                                                             "foreach",
                                                             "sort",
                                                             "opaque"});
static_assert(classNames.size() == workClassCount);

/// Ops whose class does not follow from their shapes, sorted by name.
constexpr auto classes = std::to_array<std::pair<std::string_view, WorkClass>>({
    {"_adaptive_avg_pool2d", pool},
    {"_adaptive_avg_pool2d_backward", poolBackward},
    {"_addmm_activation", matmul},
    {"_amp_foreach_non_finite_check_and_unscale_", foreach},
    {"_batch_norm_with_update", batchNorm},
    {"_conj", none},
    {"_convolution", convolution},
    {"_cudnn_attention_backward", attentionBackward},
    {"_cudnn_attention_forward", attention},
    {"_efficient_attention_backward", attentionBackward},
    {"_efficient_attention_forward", attention},
    {"_embedding_bag", embedding},
    {"_embedding_bag_dense_backward", embeddingBackward},
    {"_flash_attention_backward", attentionBackward},
    {"_flash_attention_forward", attention},
    {"_fused_rms_norm", layerNorm},
    {"_fused_rms_norm_backward", layerNormBackward},
    {"_has_compatible_shallow_copy_type", none},
    {"_index_put_impl_", index},
    {"_local_scalar_dense", transfer},
    {"_log_softmax", softmax},
    {"_log_softmax_backward_data", softmaxBackward},
    {"_native_batch_norm_legit", batchNorm},
    {"_native_batch_norm_legit_functional", batchNorm},
    {"_neg_view", none},
    {"_nested_tensor_from_mask", none},
    {"_reshape_alias", none},
    {"_safe_softmax", softmax},
    {"_scaled_dot_product_cudnn_attention", attention},
    {"_scaled_dot_product_cudnn_attention_backward", attentionBackward},
    {"_scaled_dot_product_efficient_attention", attention},
    {"_scaled_dot_product_efficient_attention_backward", attentionBackward},
    {"_scaled_dot_product_flash_attention", attention},
    {"_scaled_dot_product_flash_attention_backward", attentionBackward},
    {"_scaled_mm", matmul},
    {"_softmax", softmax},
    {"_softmax_backward_data", softmaxBackward},
    {"_to_copy", copy},
    {"_unique2", sort},
    {"_unsafe_index", index},
    {"_unsafe_view", none},
    {"adaptive_max_pool2d", pool},
    {"adaptive_max_pool2d_backward", poolBackward},
    {"addbmm", matmul},
    {"addmm", matmul},
    {"addmm_", matmul},
    {"addmv", matmul},
    {"alias", none},
    {"alias_", none},
    {"arange", fill},
    {"argsort", sort},
    {"as_strided", none},
    {"as_strided_", none},
    {"avg_pool2d", pool},
    {"avg_pool2d_backward", poolBackward},
    {"baddbmm", matmul},
    {"batch_norm_backward", batchNormBackward},
    {"bmm", matmul},
    {"cat", copy},
    {"chunk", none},
    {"clone", copy},
    {"constant_pad_nd", copy},
    {"convolution", convolution},
    {"convolution_backward", convolutionBackward},
    {"copy_", copy},
    {"cudnn_batch_norm", batchNorm},
    {"cudnn_batch_norm_backward", batchNormBackward},
    {"cudnn_convolution", convolution},
    {"cummax", scan},
    {"cumprod", scan},
    {"cumsum", scan},
    {"detach", none},
    {"detach_", none},
    {"diagonal", none},
    {"embedding", embedding},
    {"embedding_dense_backward", embeddingBackward},
    {"empty", none},
    {"empty_like", none},
    {"empty_permuted", none},
    {"empty_strided", none},
    {"expand", none},
    {"eye", fill},
    {"fill", fill},
    {"fill_", fill},
    {"full", fill},
    {"full_like", fill},
    {"gather", index},
    {"index", index},
    {"index_add", index},
    {"index_add_", index},
    {"index_copy_", index},
    {"index_put", index},
    {"index_put_", index},
    {"index_select", index},
    {"is_pinned", none},
    {"is_same_size", none},
    {"lift_fresh", none},
    {"linear", matmul},
    {"logcumsumexp", scan},
    {"max_pool2d_with_indices", pool},
    {"max_pool2d_with_indices_backward", poolBackward},
    {"max_pool3d_with_indices", pool},
    {"max_pool3d_with_indices_backward", poolBackward},
    {"mm", matmul},
    {"multinomial", sort},
    {"mv", matmul},
    {"narrow", none},
    {"native_batch_norm", batchNorm},
    {"native_batch_norm_backward", batchNormBackward},
    {"native_group_norm", groupNorm},
    {"native_group_norm_backward", groupNormBackward},
    {"native_layer_norm", layerNorm},
    {"native_layer_norm_backward", layerNormBackward},
    {"new_empty", none},
    {"new_empty_strided", none},
    {"new_full", fill},
    {"new_ones", fill},
    {"new_zeros", fill},
    {"nonzero", sort},
    {"ones", fill},
    {"ones_like", fill},
    {"permute", none},
    {"pin_memory", none},
    {"record_stream", none},
    {"repeat", copy},
    {"resize_", none},
    {"resolve_conj", none},
    {"resolve_neg", none},
    {"rms_norm", layerNorm},
    {"scatter", index},
    {"scatter_", index},
    {"scatter_add", index},
    {"scatter_add_", index},
    {"select", none},
    {"select_backward", copy},
    {"select_scatter", copy},
    {"set_", none},
    {"slice", none},
    {"slice_backward", copy},
    {"slice_scatter", copy},
    {"sort", sort},
    {"split", none},
    {"split_with_sizes", none},
    {"split_with_sizes_copy", copy},
    {"squeeze", none},
    {"squeeze_", none},
    {"stack", copy},
    {"t", none},
    {"t_", none},
    {"take", index},
    {"tensor_split", none},
    {"topk", sort},
    {"transpose", none},
    {"transpose_", none},
    {"unbind", none},
    {"unfold", none},
    {"unsafe_chunk", none},
    {"unsafe_split", none},
    {"unsafe_split_with_sizes", none},
    {"unsqueeze", none},
    {"unsqueeze_", none},
    {"view", none},
    {"view_as_complex", none},
    {"view_as_real", none},
    {"zero_", fill},
    {"zeros", fill},
    {"zeros_like", fill},
});

static_assert(std::ranges::is_sorted(classes, {}, &std::pair<std::string_view, WorkClass>::first));

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
    const auto known = std::ranges::lower_bound(classes, name, {}, &std::pair<std::string_view, WorkClass>::first);
    if (known != classes.end() && known->first == name)
        return known->second;
    return flags & opView ? none : classByShape(signature);
}

} // namespace headroom
