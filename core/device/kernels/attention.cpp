// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// scaled_dot_product_attention and its kernels. The tensors are PyTorch's own account, from
// torch/_meta_registrations.py. Scratch memory inside the kernels (flash's dq accumulator, cuDNN's workspace) is not
// simulated.
#include "core/device/allocate.h"
#include "core/device/attention_choice.h"
#include "core/device/simulated_state.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/pad.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>
#include <vector>

namespace headroom::sim {
namespace {

using at::SDPBackend;
using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

/// Creates a tensor of the sizes (batch, heads, sequence, head) with the memory layout (batch, sequence, heads, head).
Tensor emptyByHeads(std::int64_t batch, std::int64_t heads, std::int64_t sequence, std::int64_t head,
                    at::ScalarType type)
{
    return emptyStrided({batch, heads, sequence, head}, {sequence * heads * head, head, heads * head, 1}, type);
}

using FlashResult = std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>;

FlashResult flash(const Tensor& query, const Tensor& key, const Tensor&, double, bool, bool, std::optional<double>)
{
    const std::array<std::int64_t, 3> rows{query.size(0), query.size(1), query.size(2)};
    return {emptyLike(query),
            emptyTensor(rows, at::kFloat),
            Tensor(),
            Tensor(),
            query.size(2),
            key.size(2),
            emptyTensor({2}, at::kUInt64),
            emptyTensor({}, at::kUInt64),
            emptyTensor({0}, query.scalar_type())};
}

std::tuple<Tensor, Tensor, Tensor> flashBackward(const Tensor&, const Tensor& query, const Tensor& key,
                                                 const Tensor& value, const Tensor&, const Tensor&, const Tensor&,
                                                 const Tensor&, c10::SymInt, c10::SymInt, double, bool, const Tensor&,
                                                 const Tensor&, std::optional<double>)
{
    return {emptyLike(query), emptyLike(key), emptyLike(value)};
}

/// Seed and offset are on the device, as in torch/_meta_registrations.py; a GPU that captures no graph has both on the
/// CPU.
std::tuple<Tensor, Tensor, Tensor, Tensor> efficient(const Tensor& query, const Tensor&, const Tensor& value,
                                                     const OptionalTensor&, bool computeLogsumexp, double, bool,
                                                     std::optional<double>)
{
    constexpr std::int64_t alignment = 32;
    const std::int64_t rows = query.size(2);
    const std::int64_t padded = computeLogsumexp ? (rows + alignment - 1) / alignment * alignment : 0;
    return {emptyByHeads(query.size(0), query.size(1), rows, value.size(3), query.scalar_type()),
            emptyTensor({query.size(0), query.size(1), padded}, at::kFloat), emptyTensor({}, at::kLong),
            emptyTensor({}, at::kLong)};
}

Tensor emptyByHeadsLike(const Tensor& tensor)
{
    return emptyByHeads(tensor.size(0), tensor.size(1), tensor.size(2), tensor.size(3), tensor.scalar_type());
}

/// Returns the gradient of a mask: a view of a tensor with rows padded to a multiple of 16 elements.
Tensor maskGradient(const Tensor& mask)
{
    constexpr std::int64_t alignment = 16;
    std::vector<std::int64_t> sizes = mask.sizes().vec();
    sizes.back() = (sizes.back() + alignment - 1) / alignment * alignment;
    Tensor gradient = emptyTensor(sizes, mask.scalar_type());
    gradient.unsafeGetTensorImpl()->set_sizes_and_strides(mask.sizes(), gradient.strides());
    return gradient;
}

std::tuple<Tensor, Tensor, Tensor, Tensor> efficientBackward(const Tensor&, const Tensor& query, const Tensor& key,
                                                             const Tensor& value, const Tensor& mask, const Tensor&,
                                                             const Tensor&, const Tensor&, const Tensor&, double,
                                                             std::array<bool, 4> wanted, bool, std::optional<double>)
{
    return {emptyByHeadsLike(query), emptyByHeadsLike(key), emptyByHeadsLike(value),
            wanted[3] && mask.defined() ? maskGradient(mask) : Tensor()};
}

FlashResult cudnn(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor&, bool, double,
                  bool, bool, std::optional<double>)
{
    // The dimensions of the output are ordered in memory like the query's (alloc_with_matching_layout).
    std::vector<std::int64_t> sizes = query.sizes().vec();
    sizes.back() = value.size(-1);
    const std::array<std::int64_t, 4> rows{query.size(0), query.size(1), query.size(2), 1};
    const Tensor output = sizes == query.sizes() ? emptyLike(query)
        : query.stride(1) < query.stride(2) ? emptyByHeads(sizes[0], sizes[1], sizes[2], sizes[3], query.scalar_type())
                                            : emptyTensor(sizes, query.scalar_type());
    return {output,
            emptyTensor(rows, at::kFloat),
            Tensor(),
            Tensor(),
            query.size(2),
            key.size(2),
            emptyTensor({}, at::kLong),
            emptyTensor({}, at::kLong),
            Tensor()};
}

std::tuple<Tensor, Tensor, Tensor> cudnnBackward(const Tensor&, const Tensor& query, const Tensor& key,
                                                 const Tensor& value, const Tensor&, const Tensor&, const Tensor&,
                                                 const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                                 c10::SymInt, c10::SymInt, double, bool, std::optional<double>)
{
    return {emptyLike(query), emptyLike(key), emptyLike(value)};
}

/// From here on the code follows the branches of aten/src/ATen/native/transformers/attention.cpp for CUDA.
Tensor padHead(const Tensor& tensor)
{
    constexpr std::int64_t multiple = 8;
    const std::int64_t remainder = tensor.size(-1) % multiple;
    return remainder == 0 ? tensor : at::pad(tensor, {0, multiple - remainder});
}

OptionalTensor additiveMask(const OptionalTensor& mask, at::ScalarType type)
{
    if (!mask.has_value() || !mask->defined())
        return std::nullopt;
    if (mask->scalar_type() != at::kBool)
        return mask;
    return at::where(*mask, 0.0,
                     at::scalar_tensor(-std::numeric_limits<double>::infinity(),
                                       at::TensorOptions().dtype(type).device(mask->device())));
}

Tensor alignedMask(const Tensor& mask, const Tensor& query, const Tensor& key)
{
    constexpr std::int64_t alignment = 8;
    bool aligned = mask.stride(-1) == 1;
    for (std::int64_t dim = 0; dim < mask.dim() - 1; ++dim)
        aligned = aligned && mask.stride(dim) % alignment == 0;
    Tensor result = mask;
    if (!aligned) {
        const std::int64_t columns = mask.size(-1);
        result = at::pad(mask, {0, alignment - columns % alignment}).slice(-1, 0, columns);
    }
    return result.expand({query.size(0), query.size(1), query.size(2), key.size(2)});
}

SDPBackend choose(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask,
                  double dropout, bool causal, bool gqa)
{
    const sdp::sdp_params parameters{query, key, value, mask, dropout, causal, gqa};
    return attentionBackend(parameters, simulatedState().spec.computeCapability);
}

/// validate_sdpa_input().
void checkInputs(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask)
{
    TORCH_CHECK(query.dtype() == key.dtype() && query.dtype() == value.dtype(),
                "Expected query, key, and value to have the same dtype, but got query.dtype: ", query.dtype(),
                " key.dtype: ", key.dtype(), " and value.dtype: ", value.dtype(), " instead.");
    TORCH_CHECK(query.device() == key.device() && query.device() == value.device(),
                "Expected query, key, and value to have the same device type, but got query.device: ", query.device(),
                " key.device: ", key.device(), " and value.device: ", value.device(), " instead.");
    TORCH_CHECK(query.dim() >= 2 && key.dim() >= 2 && value.dim() >= 2,
                "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: ", query.dim(),
                " key.dim: ", key.dim(), " and value.dim: ", value.dim(), " instead.");
    if (!mask.has_value() || !mask->defined())
        return;
    const at::ScalarType type = mask->scalar_type();
    TORCH_CHECK(type == at::kBool || type == at::kFloat || type == query.scalar_type(),
                "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: ",
                mask->dtype(), " and  query.dtype: ", query.dtype(), " instead.");
}

/// torch.backends.cuda.can_use_flash_attention() and the others; `backend` is the number of an SDPBackend.
bool canUseAttention(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask,
                     double dropout, bool causal, bool gqa, std::int64_t backend)
{
    const sdp::sdp_params parameters{query, key, value, mask, dropout, causal, gqa};
    return canUseBackend(static_cast<SDPBackend>(backend), parameters, simulatedState().spec.computeCapability);
}

Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& userMask,
                 double dropout, bool causal, std::optional<double> scale, bool gqa)
{
    checkInputs(query, key, value, userMask);
    const SDPBackend backend = choose(query, key, value, userMask, dropout, causal, gqa);
    const bool needsLogsumexp
        = at::GradMode::is_enabled() && (query.requires_grad() || key.requires_grad() || value.requires_grad());
    OptionalTensor mask = additiveMask(userMask, query.scalar_type());
    switch (backend) {
    case SDPBackend::cudnn_attention:
        return std::get<0>(at::_scaled_dot_product_cudnn_attention(query, key, value, mask, needsLogsumexp, dropout,
                                                                   causal, /*return_debug_mask=*/false, scale));
    case SDPBackend::flash_attention: {
        const std::int64_t head = query.size(-1);
        const double factor = scale.value_or(1.0 / std::sqrt(static_cast<double>(head)));
        Tensor output = std::get<0>(at::_scaled_dot_product_flash_attention(
            padHead(query), padHead(key), padHead(value), dropout, causal, /*return_debug_mask=*/false, factor));
        return output.size(-1) == head ? output : output.slice(-1, 0, head);
    }
    case SDPBackend::efficient_attention:
        if (mask)
            mask = alignedMask(*mask, query, key);
        return std::get<0>(at::_scaled_dot_product_efficient_attention(query, key, value, mask, needsLogsumexp, dropout,
                                                                       causal, scale));
    default:
        return std::get<0>(
            at::_scaled_dot_product_attention_math(query, key, value, mask, dropout, causal, std::nullopt, scale, gqa));
    }
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library)
{
    library.impl("_scaled_dot_product_flash_attention", flash);
    library.impl("_scaled_dot_product_flash_attention_backward", flashBackward);
    library.impl("_scaled_dot_product_efficient_attention", efficient);
    library.impl("_scaled_dot_product_efficient_attention_backward", efficientBackward);
    library.impl("_scaled_dot_product_cudnn_attention", cudnn);
    library.impl("_scaled_dot_product_cudnn_attention_backward", cudnnBackward);
    library.impl("_fused_sdp_choice", fusedAttentionChoice);
    library.impl("scaled_dot_product_attention", attention);
}

TORCH_LIBRARY_FRAGMENT(headroom, library)
{
    library.def("can_use_attention(Tensor query, Tensor key, Tensor value, Tensor? mask, float dropout, bool causal, "
                "bool gqa, int backend) -> bool",
                canUseAttention);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library)
{
    library.impl("scaled_dot_product_attention", attention);
}

} // namespace

std::int64_t fusedAttentionChoice(const Tensor& query, const Tensor& key, const Tensor& value,
                                  const OptionalTensor& mask, double dropout, bool causal, std::optional<double>,
                                  bool gqa)
{
    return static_cast<std::int64_t>(choose(query, key, value, mask, dropout, causal, gqa));
}

} // namespace headroom::sim
