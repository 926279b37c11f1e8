// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// CTC and margin losses (aten/src/ATen/native/cuda/LossCTC.cu, MultiMarginLoss.cu, MultiLabelMarginCriterion.cu).
#include "core/device/allocate.h"

#include <ATen/Context.h>
#include <ATen/core/Reduction.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

namespace headroom::sim {
namespace {

using at::IntArrayRef;
using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

/// Returns the length of the longest target. Lengths that came from the device are unknown and read as zeros: the
/// targets then count as equally long.
std::int64_t longestTarget(const Tensor& targets, IntArrayRef lengths, std::int64_t batch)
{
    if (targets.dim() != 1)
        return targets.size(1);
    const std::int64_t longest = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
    if (longest > 0)
        return longest;
    return batch > 0 ? (targets.size(0) + batch - 1) / batch : 0;
}

/// Creates the table of path probabilities: a number for each time, label and gap between labels.
Tensor paths(const Tensor& logProbabilities, const Tensor& targets, IntArrayRef targetLengths)
{
    const std::int64_t batch = logProbabilities.size(1);
    return emptyTensor({batch, logProbabilities.size(0), 2 * longestTarget(targets, targetLengths, batch) + 1},
                       logProbabilities.scalar_type());
}

std::tuple<Tensor, Tensor> ctcLoss(const Tensor& logProbabilities, const Tensor& targets, IntArrayRef,
                                   IntArrayRef targetLengths, std::int64_t, bool)
{
    return {emptyTensor({logProbabilities.size(1)}, logProbabilities.scalar_type()),
            paths(logProbabilities, targets, targetLengths)};
}

std::tuple<Tensor, Tensor> ctcLossOfTensors(const Tensor& logProbabilities, const Tensor& targets, const Tensor&,
                                            const Tensor&, std::int64_t blank, bool zeroInfinity)
{
    return ctcLoss(logProbabilities, targets, {}, {}, blank, zeroInfinity);
}

/// The kernel computes the gradient with a second table of paths.
Tensor ctcLossBackward(const Tensor&, const Tensor& logProbabilities, const Tensor& targets, IntArrayRef,
                       IntArrayRef targetLengths, const Tensor&, const Tensor&, std::int64_t, bool)
{
    const Tensor backwardPaths = paths(logProbabilities, targets, targetLengths);
    return emptyContiguous(logProbabilities);
}

Tensor ctcLossOfTensorsBackward(const Tensor& gradient, const Tensor& logProbabilities, const Tensor& targets,
                                const Tensor&, const Tensor&, const Tensor& likelihood, const Tensor& alpha,
                                std::int64_t blank, bool zeroInfinity)
{
    return ctcLossBackward(gradient, logProbabilities, targets, {}, {}, likelihood, alpha, blank, zeroInfinity);
}

/// Makes the checks of aten/src/ATen/native/cudnn/LossCTC.cpp.
bool usesCudnn(const Tensor& logProbabilities, const Tensor& targets, IntArrayRef inputLengths,
               IntArrayRef targetLengths, std::int64_t blank)
{
    constexpr std::int64_t longestByCudnn = 256;
    if (!at::globalContext().userEnabledCuDNN() || blank != 0 || targets.dim() != 1
        || logProbabilities.scalar_type() != at::kFloat || targets.scalar_type() != at::kInt
        || !targets.device().is_cpu())
        return false;
    const std::int64_t steps = logProbabilities.size(0);
    return std::all_of(inputLengths.begin(), inputLengths.end(), [&](std::int64_t length) { return length == steps; })
        && std::equal(
               targetLengths.begin(), targetLengths.end(), inputLengths.begin(), inputLengths.end(),
               [](std::int64_t target, std::int64_t input) { return target <= longestByCudnn && target <= input; });
}

/// Returns false for cuDNN and MIOpen if the lengths are tensors: CUDA then uses cuDNN only if no gradient is needed,
/// and the native kernel serves both cases.
bool usesNoLibraryOfTensors(const Tensor&, const Tensor&, const Tensor&, const Tensor&, std::int64_t)
{
    return false;
}

std::tuple<Tensor, Tensor> cudnnCtcLoss(const Tensor& logProbabilities, const Tensor&, IntArrayRef, IntArrayRef,
                                        std::int64_t, bool, bool)
{
    return {emptyTensor({logProbabilities.size(1)}, logProbabilities.scalar_type()), emptyContiguous(logProbabilities)};
}

std::int64_t samplesOf(const Tensor& self)
{
    return self.dim() == 2 ? self.size(0) : 1;
}

Tensor marginLoss(const Tensor& self, const Tensor& target, const at::Scalar&, const at::Scalar&, const OptionalTensor&,
                  std::int64_t reduction)
{
    if (reduction == at::Reduction::None && target.dim() > 0)
        return emptyTensor({samplesOf(self)}, self.scalar_type());
    const Tensor losses = emptyTensor({samplesOf(self)}, self.scalar_type());
    return emptyTensor({}, self.scalar_type());
}

std::tuple<Tensor, Tensor> multilabelMarginLoss(const Tensor& self, const Tensor& target, std::int64_t reduction)
{
    const Tensor isTarget = emptyTensor(target.sizes(), self.scalar_type());
    if (reduction == at::Reduction::None && target.dim() > 1)
        return {emptyTensor({samplesOf(self)}, self.scalar_type()), isTarget};
    const Tensor losses = emptyTensor({samplesOf(self)}, self.scalar_type());
    return {emptyTensor({}, self.scalar_type()), isTarget};
}

/// MIOpen has the kernels of AMD's cards. libtorch asks about MIOpen on every device.
bool usesMiopen(const Tensor&, const Tensor&, IntArrayRef, IntArrayRef, std::int64_t)
{
    return false;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library)
{
    library.impl("_ctc_loss", ctcLoss);
    library.impl("_ctc_loss.Tensor", ctcLossOfTensors);
    library.impl("_ctc_loss_backward", ctcLossBackward);
    library.impl("_ctc_loss_backward.Tensor", ctcLossOfTensorsBackward);
    library.impl("_use_cudnn_ctc_loss", usesCudnn);
    library.impl("_use_cudnn_ctc_loss.Tensor", usesNoLibraryOfTensors);
    library.impl("_use_miopen_ctc_loss", usesMiopen);
    library.impl("_use_miopen_ctc_loss.Tensor", usesNoLibraryOfTensors);
    library.impl("_cudnn_ctc_loss", cudnnCtcLoss);
    library.impl("multi_margin_loss", marginLoss);
    library.impl("multilabel_margin_loss_forward", multilabelMarginLoss);
}

} // namespace
} // namespace headroom::sim
