// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Normalizations: results and saved statistics as the CUDA kernels allocate them.
#include "core/device/allocate.h"

#include <ATen/AccumulateType.h>
#include <ATen/ops/_batch_norm_impl_index.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/cudnn_batch_norm.h>
#include <ATen/ops/group_norm_native.h>
#include <ATen/ops/native_batch_norm.h>
#include <torch/library.h>

#include <array>
#include <optional>
#include <tuple>
#include <vector>

namespace headroom::sim {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

bool given(const OptionalTensor& tensor)
{
    return tensor.has_value() && tensor->defined();
}

at::ScalarType accumulateType(const Tensor& tensor)
{
    return at::toAccumulateType(tensor.scalar_type(), /*is_cuda=*/true);
}

std::tuple<Tensor, Tensor, Tensor> layerNorm(const Tensor& input, c10::SymIntArrayRef normalizedShape,
                                             const OptionalTensor& weight, const OptionalTensor& bias, double)
{
    const at::IntArrayRef normalized = C10_AS_INTARRAYREF_SLOW(normalizedShape);
    for (const OptionalTensor* tensor : {&weight, &bias})
        TORCH_CHECK(!given(*tensor) || (*tensor)->sizes() == normalized,
                    "Expected weight and bias to be of same shape as normalized_shape, but got ", (*tensor)->sizes(),
                    " and normalized_shape = ", normalized);
    TORCH_CHECK(!normalized.empty() && input.dim() >= static_cast<std::int64_t>(normalized.size())
                    && input.sizes().slice(static_cast<std::size_t>(input.dim()) - normalized.size()) == normalized,
                "Given normalized_shape=", normalized, ", got input of size", input.sizes());
    std::vector<std::int64_t> statistics = input.sizes().vec();
    std::fill(statistics.end() - static_cast<std::ptrdiff_t>(normalizedShape.size()), statistics.end(), 1);
    const at::ScalarType type = accumulateType(input);
    return {emptyContiguous(input), emptyTensor(statistics, type), emptyTensor(statistics, type)};
}

std::tuple<Tensor, Tensor, Tensor> layerNormBackward(const Tensor&, const Tensor& input, c10::SymIntArrayRef,
                                                     const Tensor&, const Tensor&, const OptionalTensor& weight,
                                                     const OptionalTensor& bias, std::array<bool, 3> mask)
{
    return {mask[0] ? emptyContiguous(input) : Tensor(), mask[1] && given(weight) ? emptyContiguous(*weight) : Tensor(),
            mask[2] && given(bias) ? emptyContiguous(*bias) : Tensor()};
}

std::tuple<Tensor, Tensor> rmsNorm(const Tensor& input, at::IntArrayRef normalizedShape, const OptionalTensor&,
                                   std::optional<double>)
{
    std::vector<std::int64_t> statistics = input.sizes().vec();
    std::fill(statistics.end() - static_cast<std::ptrdiff_t>(normalizedShape.size()), statistics.end(), 1);
    return {emptyContiguous(input), emptyTensor(statistics, accumulateType(input))};
}

std::tuple<Tensor, Tensor> rmsNormBackward(const Tensor&, const Tensor& input, at::IntArrayRef, const Tensor&,
                                           const OptionalTensor& weight, std::array<bool, 2> mask)
{
    return {mask[0] ? emptyContiguous(input) : Tensor(),
            mask[1] && given(weight) ? emptyContiguous(*weight) : Tensor()};
}

std::tuple<Tensor, Tensor, Tensor> groupNorm(const Tensor& input, const OptionalTensor&, const OptionalTensor&,
                                             c10::SymInt n, c10::SymInt, c10::SymInt, std::int64_t groups, double)
{
    const std::array<std::int64_t, 2> statistics{number(n), groups};
    return {emptyLike(input), emptyTensor(statistics, input.scalar_type()),
            emptyTensor(statistics, input.scalar_type())};
}

std::tuple<Tensor, Tensor, Tensor> groupNormBackward(const Tensor&, const Tensor& input, const Tensor&, const Tensor&,
                                                     const OptionalTensor& weight, c10::SymInt, c10::SymInt channels,
                                                     c10::SymInt, std::int64_t, std::array<bool, 3> mask)
{
    const at::ScalarType type = given(weight) ? weight->scalar_type() : input.scalar_type();
    const std::int64_t size = number(channels);
    return {mask[0] ? emptyLike(input) : Tensor(), mask[1] ? emptyTensor({size}, type) : Tensor(),
            mask[2] ? emptyTensor({size}, type) : Tensor()};
}

std::int64_t channelsOf(const Tensor& input)
{
    return input.dim() > 1 ? input.size(1) : input.numel();
}

std::tuple<Tensor, Tensor, Tensor> batchNorm(const Tensor& input, const OptionalTensor&, const OptionalTensor&,
                                             const OptionalTensor&, const OptionalTensor&, bool training, double,
                                             double)
{
    const std::int64_t channels = training ? channelsOf(input) : 0;
    const at::ScalarType type = accumulateType(input);
    return {emptyLike(input), emptyTensor({channels}, type), emptyTensor({channels}, type)};
}

std::tuple<Tensor, Tensor, Tensor> batchNormGradients(const Tensor& input, const OptionalTensor& weight,
                                                      std::array<bool, 3> mask)
{
    const at::ScalarType type = given(weight) ? weight->scalar_type() : input.scalar_type();
    return {mask[0] ? emptyLike(input) : Tensor(), mask[1] ? emptyTensor({channelsOf(input)}, type) : Tensor(),
            mask[2] ? emptyTensor({channelsOf(input)}, type) : Tensor()};
}

std::tuple<Tensor, Tensor, Tensor> batchNormBackward(const Tensor&, const Tensor& input, const OptionalTensor& weight,
                                                     const OptionalTensor&, const OptionalTensor&,
                                                     const OptionalTensor&, const OptionalTensor&, bool, double,
                                                     std::array<bool, 3> mask)
{
    return batchNormGradients(input, weight, mask);
}

/// Runs batchNorm() with statistics that the op writes.
std::tuple<Tensor, Tensor, Tensor> batchNormLegit(const Tensor& input, const OptionalTensor& weight,
                                                  const OptionalTensor& bias, Tensor& mean, Tensor& var, bool training,
                                                  double momentum, double epsilon)
{
    return batchNorm(input, weight, bias, mean, var, training, momentum, epsilon);
}

std::tuple<Tensor, Tensor, Tensor> batchNormWithoutStatistics(const Tensor& input, const OptionalTensor& weight,
                                                              const OptionalTensor& bias, bool training,
                                                              double momentum, double epsilon)
{
    return batchNorm(input, weight, bias, {}, {}, training, momentum, epsilon);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> batchNormWithUpdate(const Tensor& input, const OptionalTensor& weight,
                                                               const OptionalTensor& bias, Tensor& mean, Tensor& var,
                                                               double momentum, double epsilon)
{
    auto [output, saveMean, saveVar] = batchNorm(input, weight, bias, mean, var, /*training=*/true, momentum, epsilon);
    return {output, saveMean, saveVar, emptyTensor({0}, at::kByte)};
}

std::tuple<Tensor, Tensor, Tensor> anyBatchNormBackward(const Tensor&, const Tensor& input, const Tensor& weight,
                                                        const OptionalTensor&, const OptionalTensor&,
                                                        const OptionalTensor&, const OptionalTensor&, bool, double,
                                                        std::array<bool, 3> mask, const Tensor&)
{
    return batchNormGradients(input, weight, mask);
}

/// The reserve space is empty: cuDNN needs this space only for the fused NHWC kernels.
std::tuple<Tensor, Tensor, Tensor, Tensor> cudnnBatchNorm(const Tensor& input, const Tensor& weight,
                                                          const OptionalTensor&, const OptionalTensor&,
                                                          const OptionalTensor&, bool training, double, double)
{
    const std::int64_t channels = training ? channelsOf(input) : 0;
    return {emptyLike(input), emptyTensor({channels}, weight.scalar_type()),
            emptyTensor({channels}, weight.scalar_type()), emptyTensor({0}, at::kByte)};
}

std::tuple<Tensor, Tensor, Tensor> cudnnBatchNormBackward(const Tensor& input, const Tensor&, const Tensor& weight,
                                                          const OptionalTensor&, const OptionalTensor&,
                                                          const OptionalTensor&, const OptionalTensor&, double,
                                                          const Tensor&)
{
    return batchNormGradients(input, weight, {true, true, true});
}

/// Returns whether CUDA would use cuDNN (aten/src/ATen/native/Normalization.cpp).
bool takesCudnn(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                const OptionalTensor& runningMean, const OptionalTensor& runningVar, bool training, bool cudnnEnabled)
{
    constexpr std::int64_t maxTrainingBatch = 880801;
    constexpr std::int64_t maxEvaluationBatch = 65535;
    if (!cudnnEnabled || !given(weight) || !given(bias))
        return false;
    const bool types = input.scalar_type() != at::kBFloat16 && weight->scalar_type() != at::kBFloat16
        && (input.scalar_type() != at::kHalf || weight->scalar_type() == at::kFloat);
    const bool statistics = given(runningMean) == given(runningVar) && (given(runningMean) || training);
    return types && statistics && input.dim() >= 3
        && input.size(0) <= (training ? maxTrainingBatch : maxEvaluationBatch);
}

Tensor contiguousOrNone(const OptionalTensor& tensor)
{
    return given(tensor) ? tensor->contiguous() : Tensor();
}

/// Repeats PyTorch's composite kernel with the branch for cuDNN, which PyTorch takes on CUDA alone.
std::tuple<Tensor, Tensor, Tensor, Tensor, std::int64_t>
batchNormImplIndex(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                   const OptionalTensor& runningMean, const OptionalTensor& runningVar, bool training, double momentum,
                   double epsilon, bool cudnnEnabled)
{
    if (takesCudnn(input, weight, bias, runningMean, runningVar, training, cudnnEnabled)) {
        auto [output, mean, var, reserve] = at::cudnn_batch_norm(
            input.contiguous(input.suggest_memory_format()), weight->contiguous(), bias->contiguous(),
            contiguousOrNone(runningMean), contiguousOrNone(runningVar), training, momentum, epsilon);
        return {output, mean, var, reserve, 1};
    }
    const Tensor reserve = emptyTensor({0}, at::kByte);
    auto [output, mean, var]
        = at::native_batch_norm(input, weight, bias, runningMean, runningVar, training, momentum, epsilon);
    return {output, mean, var, reserve, 0};
}

// Composite kernels of PyTorch with a branch for CUDA alone.

/// On CUDA the input is copied if its channels are last.
Tensor groupNormOfInput(const Tensor& input, std::int64_t groups, const OptionalTensor& weight,
                        const OptionalTensor& bias, double epsilon, bool cudnnEnabled)
{
    return at::native::group_norm(input.contiguous(), groups, weight, bias, epsilon, cudnnEnabled);
}

/// On CUDA the kernel itself converts half precision to float.
bool convertsInside(const Tensor& input, std::optional<at::ScalarType> dtype)
{
    return input.scalar_type() == at::kHalf && dtype == at::kFloat;
}

Tensor softmaxOfInput(const Tensor& input, std::int64_t dim, std::optional<at::ScalarType> dtype)
{
    const bool inside = convertsInside(input, dtype);
    return at::_softmax(dtype && !inside ? input.to(*dtype) : input, dim, inside);
}

Tensor logSoftmaxOfInput(const Tensor& input, std::int64_t dim, std::optional<at::ScalarType> dtype)
{
    const bool inside = convertsInside(input, dtype);
    return at::_log_softmax(dtype && !inside ? input.to(*dtype) : input, dim, inside);
}

void normalizationComposites(torch::Library& library)
{
    library.impl("_batch_norm_impl_index", batchNormImplIndex);
    library.impl("group_norm", groupNormOfInput);
    library.impl("softmax.int", softmaxOfInput);
    library.impl("log_softmax.int", logSoftmaxOfInput);
}

// The ops of torch.nn.SyncBatchNorm, implemented for CUDA alone (aten/src/ATen/native/cuda/Normalization.cu).

std::tuple<Tensor, Tensor> batchNormStatistics(const Tensor& input, double)
{
    const at::ScalarType type = accumulateType(input);
    return {emptyTensor({channelsOf(input)}, type), emptyTensor({channelsOf(input)}, type)};
}

std::tuple<Tensor, Tensor> gatheredStatistics(const Tensor& mean)
{
    const at::ScalarType type = accumulateType(mean);
    return {emptyTensor({mean.size(1)}, type), emptyTensor({mean.size(1)}, type)};
}

std::tuple<Tensor, Tensor> batchNormGather(const Tensor&, const Tensor& mean, const Tensor&, const OptionalTensor&,
                                           const OptionalTensor&, double, double, std::int64_t)
{
    return gatheredStatistics(mean);
}

std::tuple<Tensor, Tensor> batchNormGatherWithCounts(const Tensor&, const Tensor& mean, const Tensor&,
                                                     const OptionalTensor&, const OptionalTensor&, double, double,
                                                     const Tensor&)
{
    return gatheredStatistics(mean);
}

Tensor batchNormElements(const Tensor& input, const OptionalTensor&, const OptionalTensor&, const Tensor&,
                         const Tensor&, double)
{
    return emptyLike(input);
}

Tensor& batchNormElementsOut(const Tensor& input, const OptionalTensor&, const OptionalTensor&, const Tensor&,
                             const Tensor&, double, Tensor& out)
{
    resizeOut(out, input.sizes());
    return out;
}

std::tuple<Tensor, Tensor, Tensor, Tensor> batchNormReduction(const Tensor&, const Tensor& input, const Tensor& mean,
                                                              const Tensor&, const OptionalTensor& weight, bool ofInput,
                                                              bool ofWeight, bool ofBias)
{
    const auto sum = [&] { return ofInput ? emptyContiguous(mean) : Tensor(); };
    const auto gradient = [&](bool wanted) {
        return wanted && given(weight) ? emptyTensor({channelsOf(input)}, weight->scalar_type()) : Tensor();
    };
    Tensor ofOutput = sum();
    Tensor ofProduct = sum();
    Tensor weightGradient = gradient(ofWeight);
    return {ofOutput, ofProduct, weightGradient, gradient(ofBias)};
}

Tensor batchNormBackwardElements(const Tensor&, const Tensor& input, const Tensor&, const Tensor&,
                                 const OptionalTensor&, const Tensor&, const Tensor&, const Tensor&)
{
    return emptyLike(input);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library)
{
    library.impl("batch_norm_stats", batchNormStatistics);
    library.impl("batch_norm_gather_stats", batchNormGather);
    library.impl("batch_norm_gather_stats_with_counts", batchNormGatherWithCounts);
    library.impl("batch_norm_elemt", batchNormElements);
    library.impl("batch_norm_elemt.out", batchNormElementsOut);
    library.impl("batch_norm_backward_reduce", batchNormReduction);
    library.impl("batch_norm_backward_elemt", batchNormBackwardElements);
    library.impl("native_layer_norm", layerNorm);
    library.impl("native_layer_norm_backward", layerNormBackward);
    library.impl("_fused_rms_norm", rmsNorm);
    library.impl("_fused_rms_norm_backward", rmsNormBackward);
    library.impl("native_group_norm", groupNorm);
    library.impl("native_group_norm_backward", groupNormBackward);
    library.impl("native_batch_norm", batchNorm);
    library.impl("native_batch_norm_backward", batchNormBackward);
    library.impl("_native_batch_norm_legit", batchNormLegit);
    library.impl("_native_batch_norm_legit.no_stats", batchNormWithoutStatistics);
    library.impl("_batch_norm_with_update", batchNormWithUpdate);
    library.impl("batch_norm_backward", anyBatchNormBackward);
    library.impl("cudnn_batch_norm", cudnnBatchNorm);
    library.impl("cudnn_batch_norm_backward", cudnnBatchNormBackward);
    normalizationComposites(library);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library)
{
    normalizationComposites(library);
}

} // namespace
} // namespace headroom::sim
