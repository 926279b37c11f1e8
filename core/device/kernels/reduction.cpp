// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Reductions and losses that have no Meta kernel in C++.
#include "core/device/allocate.h"
#include "core/device/kernels/known_sizes.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/core/Reduction.h>
#include <c10/core/ScalarType.h>
#include <torch/library.h>

#include <bitset>
#include <optional>
#include <tuple>
#include <vector>

namespace headroom::sim {
namespace {

using at::Tensor;

Tensor scalarLike(const Tensor& self)
{
    return emptyTensor({}, self.scalar_type());
}

Tensor product(const Tensor& self, std::optional<at::ScalarType> type)
{
    const bool integral = at::isIntegralType(self.scalar_type(), /*includeBool=*/true);
    return emptyTensor({}, type.value_or(integral ? at::kLong : self.scalar_type()));
}

Tensor dot(const Tensor& self, const Tensor& other)
{
    TORCH_CHECK(self.dim() == 1 && other.dim() == 1, "1D tensors expected, but got ", self.dim(), "D and ", other.dim(),
                "D tensors");
    TORCH_CHECK(self.scalar_type() == other.scalar_type(), "dot : expected both vectors to have same dtype, but found ",
                self.scalar_type(), " and ", other.scalar_type());
    TORCH_CHECK(self.numel() == other.numel(), "inconsistent tensor size, expected tensor [", self.numel(),
                "] and src [", other.numel(), "] to have the same number of elements, but got ", self.numel(), " and ",
                other.numel(), " elements respectively");
    return scalarLike(self);
}

std::vector<std::int64_t> reducedSizes(const Tensor& self, at::OptionalIntArrayRef dims, bool keepDim)
{
    std::bitset<64> reduced;
    if (!dims.has_value() || dims->empty())
        reduced.set();
    else
        for (const std::int64_t dim : *dims)
            reduced.set(static_cast<std::size_t>(at::maybe_wrap_dim(dim, self.dim())));
    std::vector<std::int64_t> sizes;
    for (std::int64_t dim = 0; dim < self.dim(); ++dim) {
        if (!reduced[static_cast<std::size_t>(dim)])
            sizes.push_back(self.size(dim));
        else if (keepDim)
            sizes.push_back(1);
    }
    return sizes;
}

Tensor variance(const Tensor& self, at::OptionalIntArrayRef dims, const std::optional<at::Scalar>&, bool keepDim)
{
    return emptyTensor(reducedSizes(self, dims, keepDim), c10::toRealValueType(self.scalar_type()));
}

std::tuple<Tensor, Tensor> varianceAndMean(const Tensor& self, at::OptionalIntArrayRef dims,
                                           const std::optional<at::Scalar>& correction, bool keepDim)
{
    return {variance(self, dims, correction, keepDim),
            emptyTensor(reducedSizes(self, dims, keepDim), self.scalar_type())};
}

/// The kernel computes and reduces all losses, and then shrinks the tensor of all losses to the result.
Tensor binaryCrossEntropy(const Tensor& self, const Tensor&, const std::optional<Tensor>&, std::int64_t reduction)
{
    Tensor loss = emptyLike(self);
    if (reduction != at::Reduction::None) {
        const Tensor reduced = scalarLike(self);
        loss.unsafeGetTensorImpl()->set_sizes_and_strides(reduced.sizes(), reduced.strides());
    }
    return loss;
}

/// The kernel computes all losses, then reduces the losses to a new tensor.
Tensor huberLoss(const Tensor& self, const Tensor&, std::int64_t reduction, double)
{
    Tensor losses = emptyLike(self);
    return reduction == at::Reduction::None ? losses : scalarLike(self);
}

std::tuple<Tensor, Tensor> nllLoss2d(const Tensor& self, const Tensor& target, const std::optional<Tensor>&,
                                     std::int64_t reduction, c10::SymInt ignored)
{
    checkTargets(target, self.size(1), number(ignored));
    return {reduction == at::Reduction::None ? emptyTensor(target.sizes(), self.scalar_type()) : scalarLike(self),
            scalarLike(self)};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library)
{
    library.impl("min", scalarLike);
    library.impl("max", scalarLike);
    library.impl("prod", product);
    library.impl("dot", dot);
    library.impl("vdot", dot);
    library.impl("var.correction", variance);
    library.impl("std.correction", variance);
    library.impl("var_mean.correction", varianceAndMean);
    library.impl("std_mean.correction", varianceAndMean);
    library.impl("huber_loss", huberLoss);
    library.impl("binary_cross_entropy", binaryCrossEntropy);
    library.impl("nll_loss2d_forward", nllLoss2d);
}

} // namespace
} // namespace headroom::sim
