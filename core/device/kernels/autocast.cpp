// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Autocast on the simulated device: PyTorch's own lists of ops, and the additional ops of CUDA's autocast.
#include <ATen/Operators.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/_cudnn_rnn.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>
#include <torch/version.h>

namespace headroom::sim {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

/// Returns the weights in half precision as views of a single `buffer`, as cuDNN needs. Gradients flow through the
/// copies.
std::vector<Tensor> flatHalves(at::TensorList weights, Tensor& buffer)
{
    std::int64_t total = 0;
    for (const Tensor& weight : weights)
        total += weight.numel();
    const at::TensorOptions options = weights[0].options().dtype(at::kHalf);
    buffer = at::zeros({total}, options);
    std::vector<Tensor> halves;
    std::int64_t offset = 0;
    for (const Tensor& weight : weights) {
        Tensor half = at::empty({0}, options).set_(buffer.storage(), offset, weight.sizes(), weight.strides());
        half.copy_(weight);
        halves.push_back(half);
        offset += weight.numel();
    }
    return halves;
}

/// aten/src/ATen/cudnn/AutocastRNN.cpp: always to float16.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>
recurrentInHalf(const Tensor& input, at::TensorList weights, std::int64_t weightStride, const OptionalTensor& buffer,
                const Tensor& hx, const OptionalTensor& cx, std::int64_t mode, c10::SymInt hiddenSize,
                c10::SymInt projectedSize, std::int64_t layers, bool batchFirst, double dropout, bool train,
                bool bidirectional, c10::SymIntArrayRef batchSizes, const OptionalTensor& dropoutState)
{
    const at::DeviceType device = input.device().type();
    const auto backend
        = device == c10::DeviceType::CUDA ? c10::BackendComponent::CUDABit : c10::BackendComponent::PrivateUse1Bit;
    const c10::impl::ExcludeDispatchKeyGuard guard(c10::getAutocastRelatedKeySetFromBackend(backend));
    const auto half = [&](const Tensor& tensor) { return at::autocast::cached_cast(at::kHalf, tensor, device); };
    Tensor halfBuffer;
    std::vector<Tensor> halves;
    const bool casts = weights[0].scalar_type() != at::kHalf && weights[0].is_floating_point();
    if (casts)
        halves = flatHalves(weights, halfBuffer);
    return at::_cudnn_rnn_symint(half(input), casts ? at::TensorList(halves) : weights, weightStride,
                                 casts ? OptionalTensor(halfBuffer) : buffer, half(hx),
                                 cx.has_value() ? OptionalTensor(half(*cx)) : cx, mode, std::move(hiddenSize),
                                 std::move(projectedSize), layers, batchFirst, dropout, train, bidirectional,
                                 batchSizes, dropoutState);
}

Tensor refuseBinaryCrossEntropy(const Tensor&, const Tensor&, const OptionalTensor&, std::int64_t)
{
    TORCH_CHECK(false,
                "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast. Many models use "
                "a sigmoid layer right before the binary cross entropy layer: use "
                "torch.nn.functional.binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss instead.");
}

} // namespace
} // namespace headroom::sim

using namespace at; // the lists name Tensor, ScalarType and others without namespace

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m)
{
    m.fallback(torch::CppFunction::makeFallthrough());
}

// The macros of ATen/autocast_mode.h register into a library named m.
TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m)
{
#define HEADROOM_LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
    AT_FORALL_LOWER_PRECISION_FP(HEADROOM_LOWER_PRECISION)
#undef HEADROOM_LOWER_PRECISION
#define HEADROOM_FLOAT32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
    AT_FORALL_FP32(HEADROOM_FLOAT32)
#undef HEADROOM_FLOAT32
#define HEADROOM_FLOAT32_RESULT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
    AT_FORALL_FP32_SET_OPT_DTYPE(HEADROOM_FLOAT32_RESULT)
#undef HEADROOM_FLOAT32_RESULT
    AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
#define HEADROOM_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
    AT_FORALL_PROMOTE(HEADROOM_PROMOTE)
#undef HEADROOM_PROMOTE
    KERNEL_PRIVATEUSEONE(cudnn_convolution, lower_precision_fp)
    KERNEL_PRIVATEUSEONE(cudnn_convolution_transpose, lower_precision_fp)
#if TORCH_VERSION_MINOR >= 15
    KERNEL_PRIVATEUSEONE(linalg_matrix_sqrth, fp32)
#endif
    m.impl("_cudnn_rnn", headroom::sim::recurrentInHalf);
    m.impl("binary_cross_entropy", headroom::sim::refuseBinaryCrossEntropy);
}
