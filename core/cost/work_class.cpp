// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/work_class.h"

#include "core/base/words.h"
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

/// The ops with a class that does not follow from their shapes, by class.
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

} // namespace headroom
