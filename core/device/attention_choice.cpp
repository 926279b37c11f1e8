// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/attention_choice.h"

#include <ATen/Context.h>

#include <array>
#include <cmath>
#include <initializer_list>

namespace headroom::sim {
namespace {

using at::SDPBackend;
using sdp::sdp_params;

constexpr bool quiet = false; // value of the `debug` parameter of PyTorch's checks: true warns

/// The properties of a card that decide the choice.
struct Card
{
    int capability;

    int major() const { return capability / 10; }
    bool within(int lowest, int highest) const { return capability >= lowest && capability <= highest; }
};

constexpr int newestCapability = 121; // the newest architecture of PyTorch 2.11's kernels

bool hasType(const sdp_params& p, std::initializer_list<at::ScalarType> types)
{
    const at::ScalarType type = p.query.scalar_type();
    return type == p.key.scalar_type() && type == p.value.scalar_type()
        && std::find(types.begin(), types.end(), type) != types.end();
}

bool isHalf(const sdp_params& p)
{
    return p.query.scalar_type() == at::kHalf || p.query.scalar_type() == at::kBFloat16;
}

/// Returns whether the types suit flash attention and cuDNN: float16, and bfloat16 since Ampere.
bool hasLowPrecision(const sdp_params& p, Card card)
{
    return card.major() >= 8 ? hasType(p, {at::kHalf, at::kBFloat16}) : hasType(p, {at::kHalf});
}

/// Flash's backward does not fit into the shared memory of consumer cards for large heads.
bool flashTrainsHead(const sdp_params& p, Card card)
{
    if (!sdp::input_requires_grad(p) || !(card.within(86, 89) || card.within(120, 121)))
        return true;
    const std::int64_t head = p.query.size(-1);
    return head <= 192 || (p.dropout == 0.0 && head > 224);
}

bool canUseFlash(const sdp_params& p, Card card)
{
    constexpr std::int64_t maxHead = 256;
    if (!at::globalContext().userEnabledFlashSDP() || !card.within(80, newestCapability) || !hasLowPrecision(p, card))
        return false;
    if (!sdp::check_tensor_shapes(p, quiet) || !sdp::check_for_attn_mask(p, quiet))
        return false;
    const std::int64_t head = p.query.size(-1);
    if (head != p.key.size(-1) || head != p.value.size(-1) || head > maxHead || !flashTrainsHead(p, card))
        return false;
    if (p.is_causal && p.query.size(-2) != p.key.size(-2))
        return false;
    return sdp::check_batch_size_and_num_heads_dense</*supports_gqa=*/true>(p, quiet)
        && sdp::check_nonzero_sequence_lengths_dense(p, quiet)
        && sdp::check_last_dim_stride_equals_1_dense</*ignore_singleton_dim=*/true>(p, quiet);
}

/// Returns the alignment, in elements, that the tensor cores' matrix loads need.
std::int64_t gemmAlignment(const sdp_params& p, Card card)
{
    const bool half = isHalf(p);
    std::int64_t alignment = card.major() >= 8 ? 4 : 1;
    if (card.major() >= 8 || (card.major() >= 7 && half))
        alignment = std::max<std::int64_t>(alignment, half ? 8 : 4);
    return alignment;
}

bool canUseEfficient(const sdp_params& p, Card card)
{
    if (!at::globalContext().userEnabledMemEfficientSDP() || !card.within(50, newestCapability)
        || !sdp::check_tensor_shapes(p, quiet))
        return false;
    const std::int64_t alignment = gemmAlignment(p, card);
    const std::int64_t head = p.query.size(-1);
    const std::int64_t valueHead = p.value.size(-1);
    if (head != p.key.size(-1) || head <= 0 || valueHead <= 0 || head % alignment != 0 || valueHead % alignment != 0)
        return false;
    if (!sdp::check_nonzero_sequence_lengths_dense(p, quiet)
        || !sdp::check_last_dim_stride_equals_1_dense</*ignore_singleton_dim=*/false>(p, quiet)
        || !sdp::check_batch_size_and_num_heads_dense</*supports_gqa=*/false>(p, quiet))
        return false;
    return card.major() >= 8 ? hasType(p, {at::kHalf, at::kFloat, at::kBFloat16}) : hasType(p, {at::kHalf, at::kFloat});
}

bool canUseCudnn(const sdp_params& p, Card card)
{
    constexpr std::int64_t maxHead = 128;
    constexpr double dropoutSteps = 16.0; // cuDNN supports dropout in steps of a sixteenth
    const at::Context& context = at::globalContext();
    if (!context.userEnabledCuDNNSDP() || !card.within(80, newestCapability) || !hasLowPrecision(p, card))
        return false;
    if (context.deterministicAlgorithms() && !context.deterministicAlgorithmsWarnOnly())
        return false;
    if (!sdp::check_tensor_shapes(p, quiet) || !sdp::check_attn_mask_shape(p, quiet)
        || !sdp::check_nonzero_sequence_lengths_dense(p, quiet)
        || !sdp::check_last_dim_stride_equals_1_dense</*ignore_singleton_dim=*/true>(p, quiet)
        || !sdp::check_batch_size_and_num_heads_dense</*supports_gqa=*/true, /*requires_same_num_heads=*/false>(p,
                                                                                                                quiet))
        return false;
    const std::int64_t head = p.query.size(-1);
    const std::int64_t valueHead = p.value.size(-1);
    const bool wideHead = card.major() >= 9 && card.major() <= 10 && head == 192 && valueHead == 128;
    if ((!wideHead && (head > maxHead || valueHead > maxHead)) || head % 8 != 0 || valueHead % 8 != 0)
        return false;
    if (p.dropout * dropoutSteps != std::floor(p.dropout * dropoutSteps))
        return false;
    return p.key.size(2) != 1 && (p.dropout == 0.0 || p.query.size(2) != 1);
}

/// Hopper and the data centre's Blackwell try cuDNN first, unless the user set an order.
std::array<SDPBackend, at::num_sdp_backends> order(Card card)
{
    auto byUser = at::globalContext().sDPPriorityOrder();
    const bool byDefault = byUser[0] == SDPBackend::flash_attention && byUser[1] == SDPBackend::efficient_attention;
    if (byDefault && (card.major() == 9 || card.major() == 10))
        return {SDPBackend::cudnn_attention, SDPBackend::flash_attention, SDPBackend::efficient_attention,
                SDPBackend::math, SDPBackend::overrideable};
    return byUser;
}

bool canUse(SDPBackend backend, const sdp_params& p, Card card)
{
    switch (backend) {
    case SDPBackend::cudnn_attention:
        return canUseCudnn(p, card);
    case SDPBackend::flash_attention:
        return canUseFlash(p, card);
    case SDPBackend::efficient_attention:
        return canUseEfficient(p, card);
    case SDPBackend::math:
        return at::globalContext().userEnabledMathSDP();
    default:
        return false;
    }
}

} // namespace

bool canUseBackend(SDPBackend backend, const sdp_params& parameters, int computeCapability)
{
    return canUse(backend, parameters, Card{computeCapability});
}

SDPBackend attentionBackend(const sdp_params& parameters, int computeCapability)
{
    const Card card{computeCapability};
    for (const SDPBackend backend : order(card)) {
        if (canUse(backend, parameters, card))
            return backend;
    }
    TORCH_CHECK(false,
                "No available kernel for scaled_dot_product_attention: every kernel that the card and the shapes allow "
                "has been disabled.");
}

} // namespace headroom::sim
