// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/SDPBackend.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>

namespace headroom::sim {

/// Returns the kernel that scaled_dot_product_attention uses on a CUDA card of this compute capability (86 for 8.6).
/// The rules come from aten/src/ATen/native/transformers/cuda/sdp_utils.cpp in PyTorch 2.11, with the cuDNN of its CUDA
/// 13 wheel (9.19). The switches of torch.backends.cuda.sdp_kernel are obeyed.
at::SDPBackend attentionBackend(const sdp::sdp_params& parameters, int computeCapability);

/// Returns whether scaled_dot_product_attention may use a kernel on such a card.
bool canUseBackend(at::SDPBackend backend, const sdp::sdp_params& parameters, int computeCapability);

/// Returns the number of the at::SDPBackend that _fused_sdp_choice names on the simulated card.
std::int64_t fusedAttentionChoice(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                  const std::optional<at::Tensor>& mask, double dropout, bool causal,
                                  std::optional<double> scale, bool gqa);

} // namespace headroom::sim
