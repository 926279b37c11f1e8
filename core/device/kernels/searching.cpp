// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Sorting, searching, counting and sampling that have no Meta kernel in C++. Where the size of a result depends on
// unknown values, the size is the largest possible size or, without a limit, the smallest that the arguments allow.
// Both count as placeholders.
#include "core/device/allocate.h"
#include "core/device/kernels/known_sizes.h"
#include "core/device/placeholder_values.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <torch/library.h>

#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace headroom::sim {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

/// Returns the sizes of `self` reduced over a dimension.
std::vector<std::int64_t> reduced(const Tensor& self, std::int64_t dim, bool keepDim)
{
    std::vector<std::int64_t> sizes = self.sizes().vec();
    if (sizes.empty())
        return sizes;
    const auto at = static_cast<std::ptrdiff_t>(at::maybe_wrap_dim(dim, self.dim()));
    if (keepDim)
        sizes[static_cast<std::size_t>(at)] = 1;
    else
        sizes.erase(sizes.begin() + at);
    return sizes;
}

std::tuple<Tensor&, Tensor&> kthValue(const Tensor& self, c10::SymInt, std::int64_t dim, bool keepDim, Tensor& values,
                                      Tensor& indices)
{
    resizeOut(values, reduced(self, dim, keepDim));
    resizeOut(indices, reduced(self, dim, keepDim));
    return {values, indices};
}

std::tuple<Tensor&, Tensor&> medianAlong(const Tensor& self, std::int64_t dim, bool keepDim, Tensor& values,
                                         Tensor& indices)
{
    return kthValue(self, 0, dim, keepDim, values, indices);
}

Tensor median(const Tensor& self)
{
    return emptyTensor({}, self.scalar_type());
}

std::tuple<Tensor, Tensor> mode(const Tensor& self, std::int64_t dim, bool keepDim)
{
    const std::vector<std::int64_t> sizes = reduced(self, dim, keepDim);
    return {emptyTensor(sizes, self.scalar_type()), emptyTensor(sizes, at::kLong)};
}

void cumulativeExtreme(const Tensor&, Tensor&, Tensor&, std::int64_t) {}

Tensor positions(at::IntArrayRef sizes, bool int32)
{
    return emptyTensor(sizes, int32 ? at::kInt : at::kLong);
}

Tensor bucketize(const Tensor& self, const Tensor&, bool int32, bool)
{
    return positions(self.sizes(), int32);
}

Tensor bucketizeNumber(const at::Scalar&, const Tensor&, bool int32, bool)
{
    return positions({}, int32);
}

Tensor searchSorted(const Tensor&, const Tensor& self, bool int32, bool, std::optional<std::string_view>,
                    const OptionalTensor&)
{
    return positions(self.sizes(), int32);
}

Tensor searchSortedNumber(const Tensor&, const at::Scalar&, bool int32, bool, std::optional<std::string_view>,
                          const OptionalTensor&)
{
    return positions({}, int32);
}

Tensor take(const Tensor& self, const Tensor& index)
{
    return emptyTensor(index.sizes(), self.scalar_type());
}

Tensor histogram(const Tensor& self, std::int64_t bins, const at::Scalar&, const at::Scalar&)
{
    return emptyTensor({bins}, self.scalar_type());
}

Tensor multinomial(const Tensor& self, c10::SymInt samples, bool, std::optional<at::Generator>)
{
    std::vector<std::int64_t> sizes = self.sizes().vec();
    sizes.back() = number(samples);
    return emptyTensor(sizes, at::kLong);
}

std::vector<std::int64_t> reducedOverAll(const Tensor& self, at::OptionalIntArrayRef dims, bool keepDim)
{
    const auto mask = at::dim_list_to_bitset(dims, static_cast<std::size_t>(self.dim()));
    std::vector<std::int64_t> sizes;
    for (std::int64_t dim = 0; dim < self.dim(); ++dim) {
        const bool gone = mask[static_cast<std::size_t>(dim)] || !dims.has_value() || dims->empty();
        if (!gone || keepDim)
            sizes.push_back(gone ? 1 : self.size(dim));
    }
    return sizes;
}

Tensor countNonzero(const Tensor& self, at::IntArrayRef dims)
{
    return emptyTensor(reducedOverAll(self, dims, false), at::kLong);
}

Tensor sumWithoutNan(const Tensor& self, at::OptionalIntArrayRef dims, bool keepDim, std::optional<at::ScalarType> type)
{
    const bool integral = at::isIntegralType(self.scalar_type(), /*includeBool=*/true);
    return emptyTensor(reducedOverAll(self, dims, keepDim), type.value_or(integral ? at::kLong : self.scalar_type()));
}

Tensor inverseOf(at::IntArrayRef sizes, bool wanted)
{
    return wanted ? emptyTensor(sizes, at::kLong) : emptyTensor({0}, at::kLong);
}

std::tuple<Tensor, Tensor> uniqueWithInverse(const Tensor& self, bool, bool returnInverse)
{
    countPlaceholder(Placeholder::size);
    return {emptyTensor({self.numel()}, self.scalar_type()), inverseOf(self.sizes(), returnInverse)};
}

std::tuple<Tensor, Tensor, Tensor> uniqueAlong(const Tensor& self, std::int64_t dim, bool, bool returnInverse,
                                               bool returnCounts)
{
    countPlaceholder(Placeholder::size);
    const std::int64_t size = self.dim() == 0 ? 1 : self.size(dim);
    return {emptyContiguous(self), inverseOf({size}, returnInverse), inverseOf({size}, returnCounts)};
}

std::tuple<Tensor, Tensor, Tensor> uniqueConsecutive(const Tensor& self, bool returnInverse, bool returnCounts,
                                                     std::optional<std::int64_t> dim)
{
    if (dim.has_value())
        return uniqueAlong(self, *dim, false, returnInverse, returnCounts);
    countPlaceholder(Placeholder::size);
    return {emptyTensor({self.numel()}, self.scalar_type()), inverseOf(self.sizes(), returnInverse),
            inverseOf({self.numel()}, returnCounts)};
}

std::tuple<Tensor, Tensor, Tensor> uniqueDimensionConsecutive(const Tensor& self, std::int64_t dim, bool returnInverse,
                                                              bool returnCounts)
{
    return uniqueAlong(self, dim, false, returnInverse, returnCounts);
}

Tensor nonzeroStatic(const Tensor& self, c10::SymInt size, std::int64_t)
{
    return emptyTensor({number(size), self.dim()}, at::kLong);
}

Tensor binCount(const Tensor& self, const OptionalTensor& weights, c10::SymInt least)
{
    const std::int64_t needed = self.numel() > 0 ? largestElement(self).value_or(0) + 1 : 0;
    const std::int64_t bins = std::max(number(least), needed);
    const bool weighted = weights.has_value() && weights->defined();
    const bool keepsFloat = weighted && weights->scalar_type() == at::kFloat;
    return emptyTensor({bins}, keepsFloat ? at::kFloat : weighted ? at::kDouble : at::kLong);
}

/// Each element is repeated once if neither the caller nor the values give the total.
Tensor repeatInterleave(const Tensor& repeats, std::optional<c10::SymInt> outputSize)
{
    const std::int64_t size = outputSize ? number(*outputSize) : sumOfElements(repeats).value_or(repeats.numel());
    return emptyTensor({size}, repeats.scalar_type());
}

/// Segments are the last dimension of `lengths`, or lie between the entries of `offsets`.
Tensor segmentReduce(const Tensor& data, std::string_view, const OptionalTensor& lengths, const OptionalTensor&,
                     const OptionalTensor& offsets, std::int64_t axis, bool, const std::optional<at::Scalar>&)
{
    const bool byOffsets = offsets.has_value() && offsets->defined();
    const Tensor& bounds = byOffsets ? *offsets : *lengths;
    TORCH_CHECK(data.device() == bounds.device(), "Expected data.get_device() == ", byOffsets ? "offsets" : "lengths",
                "_value.get_device() to be true, but got false.");
    std::vector<std::int64_t> sizes = bounds.sizes().vec();
    if (byOffsets)
        --sizes.back();
    const at::IntArrayRef inner
        = data.sizes().slice(static_cast<std::size_t>(at::maybe_wrap_dim(axis, data.dim())) + 1);
    sizes.insert(sizes.end(), inner.begin(), inner.end());
    return emptyTensor(sizes, data.scalar_type());
}

Tensor segmentReduceBackward(const Tensor&, const Tensor&, const Tensor& data, std::string_view, const OptionalTensor&,
                             const OptionalTensor&, std::int64_t, const std::optional<at::Scalar>&)
{
    return emptyContiguous(data);
}

Tensor triangleIndices(std::int64_t count, std::optional<at::ScalarType> type)
{
    return emptyTensor({2, count}, type.value_or(at::kLong));
}

/// Returns the number of elements of a matrix on and below a diagonal.
std::int64_t lowerTriangle(std::int64_t rows, std::int64_t columns, std::int64_t offset)
{
    std::int64_t count = 0;
    for (std::int64_t row = 0; row < rows; ++row)
        count += std::clamp<std::int64_t>(row + offset + 1, 0, columns);
    return count;
}

Tensor lowerIndices(std::int64_t rows, std::int64_t columns, std::int64_t offset, std::optional<at::ScalarType> type,
                    std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>)
{
    return triangleIndices(lowerTriangle(rows, columns, offset), type);
}

Tensor upperIndices(std::int64_t rows, std::int64_t columns, std::int64_t offset, std::optional<at::ScalarType> type,
                    std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>)
{
    return triangleIndices(rows * columns - lowerTriangle(rows, columns, offset - 1), type);
}

Tensor& randomPermutation(c10::SymInt count, std::optional<at::Generator>, Tensor& out)
{
    resizeOut(out, {number(count)});
    return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library)
{
    library.impl("kthvalue.values", kthValue);
    library.impl("median.dim_values", medianAlong);
    library.impl("nanmedian.dim_values", medianAlong);
    library.impl("median", median);
    library.impl("nanmedian", median);
    library.impl("mode", mode);
    library.impl("_cummax_helper", cumulativeExtreme);
    library.impl("_cummin_helper", cumulativeExtreme);
    library.impl("bucketize.Tensor", bucketize);
    library.impl("bucketize.Scalar", bucketizeNumber);
    library.impl("searchsorted.Tensor", searchSorted);
    library.impl("searchsorted.Scalar", searchSortedNumber);
    library.impl("take", take);
    library.impl("histc", histogram);
    library.impl("multinomial", multinomial);
    library.impl("count_nonzero.dim_IntList", countNonzero);
    library.impl("nansum", sumWithoutNan);
    library.impl("_unique", uniqueWithInverse);
    library.impl("unique_dim", uniqueAlong);
    library.impl("unique_dim_consecutive", uniqueDimensionConsecutive);
    library.impl("unique_consecutive", uniqueConsecutive);
    library.impl("nonzero_static", nonzeroStatic);
    library.impl("bincount", binCount);
    library.impl("repeat_interleave.Tensor", repeatInterleave);
    library.impl("segment_reduce", segmentReduce);
    library.impl("_segment_reduce_backward", segmentReduceBackward);
    library.impl("tril_indices", lowerIndices);
    library.impl("triu_indices", upperIndices);
    library.impl("randperm.generator_out", randomPermutation);
}

} // namespace
} // namespace headroom::sim
