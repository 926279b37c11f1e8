// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Products of matrices and vectors, distances and weight normalization that have no Meta kernel in C++.
#include "core/device/allocate.h"

#include <ATen/ExpandUtils.h>
#include <ATen/core/op_registration/adaption.h>
#include <ATen/ops/promote_types.h>
#include <ATen/ops/result_type.h>
#include <c10/util/accumulate.h>
#include <torch/library.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace headroom::sim {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

Tensor addBatchProduct(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const at::Scalar&,
                       const at::Scalar&)
{
    return emptyTensor({batch1.size(1), batch2.size(2)}, self.scalar_type());
}

Tensor addOuterProduct(const Tensor& self, const Tensor& left, const Tensor& right, const at::Scalar&,
                       const at::Scalar&)
{
    return emptyTensor({left.size(0), right.size(0)},
                       at::promote_types(self.scalar_type(), at::result_type(left, right)));
}

Tensor trace(const Tensor& self)
{
    const bool integral = at::isIntegralType(self.scalar_type(), /*includeBool=*/true);
    return emptyTensor({}, integral ? at::kLong : self.scalar_type());
}

// Products with another type of result (mixed precision).
Tensor productAs(const Tensor& self, const Tensor& other, at::ScalarType type)
{
    return emptyTensor({self.size(0), other.size(1)}, type);
}

Tensor batchProductAs(const Tensor& self, const Tensor& other, at::ScalarType type)
{
    return emptyTensor({self.size(0), self.size(1), other.size(2)}, type);
}

Tensor addProductAs(const Tensor&, const Tensor& left, const Tensor& right, at::ScalarType type, const at::Scalar&,
                    const at::Scalar&)
{
    return productAs(left, right, type);
}

Tensor addBatchProductAs(const Tensor&, const Tensor& left, const Tensor& right, at::ScalarType type, const at::Scalar&,
                         const at::Scalar&)
{
    return batchProductAs(left, right, type);
}

// The same products with an out= argument.
void prepareOut(const Tensor& out, const std::vector<std::int64_t>& sizes, at::ScalarType type)
{
    TORCH_CHECK(out.scalar_type() == type, "out_dtype must be the same as the dtype of the provided out tensor");
    resizeOut(out, sizes);
}

Tensor& productInto(const Tensor& self, const Tensor& other, at::ScalarType type, Tensor& out)
{
    prepareOut(out, {self.size(0), other.size(1)}, type);
    return out;
}

Tensor& batchProductInto(const Tensor& self, const Tensor& other, at::ScalarType type, Tensor& out)
{
    prepareOut(out, {self.size(0), self.size(1), other.size(2)}, type);
    return out;
}

Tensor& addProductInto(const Tensor&, const Tensor& left, const Tensor& right, at::ScalarType type, const at::Scalar&,
                       const at::Scalar&, Tensor& out)
{
    return productInto(left, right, type, out);
}

Tensor& addBatchProductInto(const Tensor&, const Tensor& left, const Tensor& right, at::ScalarType type,
                            const at::Scalar&, const at::Scalar&, Tensor& out)
{
    return batchProductInto(left, right, type, out);
}

Tensor integerProduct(const Tensor& self, const Tensor& other)
{
    return productAs(self, other, at::kInt);
}

/// aten/src/ATen/native/cuda/ScaledBlas.cpp.
Tensor scaledProduct(const Tensor& self, const Tensor& other, const Tensor&, const Tensor&, const OptionalTensor&,
                     const OptionalTensor&, std::optional<at::ScalarType> type, bool)
{
    return productAs(self, other, type.value_or(self.scalar_type()));
}

/// Creates the result of a product of groups of rows, columns or matrices. The rows are aligned to 16 bytes
/// (aten/src/ATen/native/GroupedMMUtils.h).
Tensor groupedResult(const Tensor& self, const Tensor& other, const OptionalTensor& offsets, at::ScalarType type)
{
    constexpr std::int64_t alignment = 16;
    const bool flatSelf = self.dim() == 2;
    const bool flatOther = other.dim() == 2;
    const auto groups = [&] { return offsets.has_value() ? offsets->size(0) : self.size(0); };
    std::vector<std::int64_t> sizes;
    if (flatSelf && flatOther)
        sizes = {groups(), self.size(0), other.size(1)};
    else if (flatSelf)
        sizes = {self.size(0), other.size(-1)};
    else if (flatOther)
        sizes = {self.size(1), other.size(1)};
    else
        sizes = {self.size(0), self.size(1), other.size(-1)};
    const std::int64_t multiple = alignment / static_cast<std::int64_t>(c10::elementSize(type));
    const std::int64_t row = (sizes.back() + multiple - 1) / multiple * multiple;
    if (sizes.size() == 3)
        return emptyStrided(sizes, {sizes[1] * row, row, 1}, type);
    return emptyStrided(sizes, {row, 1}, type);
}

Tensor groupedProduct(const Tensor& self, const Tensor& other, const OptionalTensor& offsets, const OptionalTensor&,
                      std::optional<at::ScalarType> type)
{
    return groupedResult(self, other, offsets, type.value_or(self.scalar_type()));
}

Tensor scaledGroupedProduct(const Tensor& self, const Tensor& other, const Tensor&, const Tensor&,
                            const OptionalTensor& offsets, const OptionalTensor&, const OptionalTensor&,
                            std::optional<at::ScalarType> type, bool)
{
    return groupedResult(self, other, offsets, type.value_or(at::kBFloat16));
}

/// Returns the broadcast batch dimensions of both.
std::vector<std::int64_t> commonBatch(const Tensor& left, const Tensor& right)
{
    return at::infer_size(left.sizes().slice(0, static_cast<std::size_t>(left.dim() - 2)),
                          right.sizes().slice(0, static_cast<std::size_t>(right.dim() - 2)));
}

Tensor distances(const Tensor& left, const Tensor& right, double, std::optional<std::int64_t>)
{
    std::vector<std::int64_t> sizes = commonBatch(left, right);
    sizes.insert(sizes.end(), {left.size(-2), right.size(-2)});
    return emptyTensor(sizes, at::promote_types(left.scalar_type(), right.scalar_type()));
}

/// aten/src/ATen/native/Distance.cpp: the kernel works on (batch, rows, columns).
Tensor distancesBackward(const Tensor&, const Tensor& left, const Tensor& right, double, const Tensor&)
{
    std::vector<std::int64_t> sizes = commonBatch(left, right);
    sizes.insert(sizes.end(), {left.size(-2), left.size(-1)});
    return emptyTensor(sizes, left.scalar_type());
}

Tensor pairDistances(const Tensor& self, double)
{
    const std::int64_t rows = self.size(0);
    return emptyTensor({rows <= 1 ? 0 : rows * (rows - 1) / 2}, self.scalar_type());
}

/// aten/src/ATen/native/cuda/WeightNorm.cu: the norms are kept in float.
std::tuple<Tensor, Tensor> weightNorm(const Tensor& v, const Tensor& g, std::int64_t)
{
    const bool half = g.scalar_type() == at::kHalf || g.scalar_type() == at::kBFloat16;
    return {emptyContiguous(v), emptyStrided(g.sizes(), g.strides(), half ? at::kFloat : g.scalar_type())};
}

std::tuple<Tensor, Tensor> weightNormBackward(const Tensor&, const Tensor& v, const Tensor& g, const Tensor&,
                                              std::int64_t)
{
    return {emptyContiguous(v), emptyContiguous(g)};
}

/// Creates matrices in column-major order, the order of factorizations and solutions.
Tensor emptyByColumns(at::IntArrayRef sizes, at::ScalarType type)
{
    std::vector<std::int64_t> strides(sizes.size());
    const std::int64_t rows = sizes[sizes.size() - 2];
    strides[strides.size() - 2] = 1;
    strides[strides.size() - 1] = std::max<std::int64_t>(rows, 1);
    std::int64_t step = rows * sizes.back();
    for (std::size_t i = strides.size() - 2; i-- > 0;) {
        strides[i] = step;
        step *= sizes[i];
    }
    return emptyStrided(sizes, strides, type);
}

Tensor cholesky(const Tensor& self, bool)
{
    return self.numel() == 0 ? emptyContiguous(self) : emptyByColumns(self.sizes(), self.scalar_type());
}

/// aten/src/ATen/native/BatchLinearAlgebra.cpp: cuSOLVER writes the right singular vectors in row-major order, LAPACK
/// in column-major order.
std::tuple<Tensor, Tensor, Tensor> singularValues(const Tensor& self, bool fullMatrices, bool computeVectors,
                                                  std::optional<std::string_view>)
{
    TORCH_CHECK(self.dim() >= 2, "linalg.svd: The input tensor A must have at least 2 dimensions.");
    TORCH_CHECK(self.is_floating_point() || self.is_complex(),
                "linalg.svd: Expected a floating point or complex tensor as input. Got ", self.scalar_type());
    const std::int64_t rows = self.size(-2);
    const std::int64_t columns = self.size(-1);
    const std::int64_t shorter = std::min(rows, columns);
    std::vector<std::int64_t> sizes(self.sizes().begin(), self.sizes().end() - 1);
    sizes.back() = shorter;
    Tensor values = emptyTensor(sizes, c10::toRealValueType(self.scalar_type()));
    if (!computeVectors)
        return {emptyTensor({0}, self.scalar_type()), values, emptyTensor({0}, self.scalar_type())};
    std::vector<std::int64_t> left = sizes;
    left.back() = rows;
    left.push_back(fullMatrices ? rows : shorter);
    std::vector<std::int64_t> right = sizes;
    right.back() = fullMatrices ? columns : shorter;
    right.push_back(columns);
    return {emptyByColumns(left, self.scalar_type()), values, emptyTensor(right, self.scalar_type())};
}

Tensor choleskyInverse(const Tensor& self, bool)
{
    return emptyByColumns(self.sizes(), self.scalar_type());
}

/// Runs linalg.lstsq: on CUDA only with the driver gels, without rank and singular values. The solution replaces the
/// right sides in a matrix with max(height, width) rows; the residuals are computed from the rows below the solution.
std::tuple<Tensor, Tensor, Tensor, Tensor> leastSquares(const Tensor& self, const Tensor& other, std::optional<double>,
                                                        std::optional<std::string_view> driver)
{
    std::string name(driver.value_or("gels"));
    std::ranges::transform(name, name.begin(), [](unsigned char letter) { return std::tolower(letter); });
    TORCH_CHECK(name == "gels", "torch.linalg.lstsq: `driver` other than `gels` is not supported on CUDA");
    if (self.device() != other.device()) // PyTorch calls the kernel with results as arguments
        c10::impl::common_device_check_failure(self.device(), other, "wrapper_CUDA_out_linalg_lstsq_out", "b");
    TORCH_CHECK(self.dim() >= 2, "torch.linalg.lstsq: input must have at least 2 dimensions.");
    TORCH_CHECK(
        other.dim() == self.dim() || other.dim() == self.dim() - 1,
        "torch.linalg.lstsq: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) "
        "<= 1");
    const std::int64_t height = self.size(-2);
    const std::int64_t width = self.size(-1);
    const bool isVector = other.dim() < self.dim();
    const at::IntArrayRef rightSides = isVector ? other.sizes().slice(0, static_cast<std::size_t>(other.dim()) - 1)
                                                : other.sizes().slice(0, static_cast<std::size_t>(other.dim()) - 2);
    TORCH_CHECK(other.size(isVector ? -1 : -2) == height, "torch.linalg.lstsq: input.size(-2) should match other.size(",
                isVector ? "-1)" : "-2)");

    const std::vector<std::int64_t> batch
        = at::infer_size(self.sizes().slice(0, static_cast<std::size_t>(self.dim()) - 2), rightSides);
    std::vector<std::int64_t> sizes = batch;
    sizes.push_back(std::max(height, width));
    sizes.push_back(isVector ? 1 : other.size(-1));
    Tensor solution = emptyByColumns(sizes, self.scalar_type());
    std::vector<std::int64_t> strides = solution.strides().vec();
    sizes[sizes.size() - 2] = width;
    std::vector<std::int64_t> residuals{0};
    if (height > width) {
        residuals = batch;
        residuals.push_back(sizes.back());
    }
    if (isVector) {
        sizes.pop_back();
        strides.pop_back();
    }
    solution.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
    const at::ScalarType real = c10::toRealValueType(self.scalar_type());
    return {solution, emptyTensor(residuals, real), emptyTensor({0}, at::kLong), emptyTensor({0}, real)};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library)
{
    library.impl("addbmm", addBatchProduct);
    library.impl("addr", addOuterProduct);
    library.impl("trace", trace);
    library.impl("mm.dtype", productAs);
    library.impl("bmm.dtype", batchProductAs);
    library.impl("addmm.dtype", addProductAs);
    library.impl("baddbmm.dtype", addBatchProductAs);
    library.impl("mm.dtype_out", productInto);
    library.impl("bmm.dtype_out", batchProductInto);
    library.impl("addmm.dtype_out", addProductInto);
    library.impl("baddbmm.dtype_out", addBatchProductInto);
    library.impl("_int_mm", integerProduct);
    library.impl("_scaled_mm", scaledProduct);
    library.impl("_grouped_mm", groupedProduct);
    library.impl("_scaled_grouped_mm", scaledGroupedProduct);
    library.impl("_cdist_forward", distances);
    library.impl("_cdist_backward", distancesBackward);
    library.impl("_pdist_forward", pairDistances);
    library.impl("_weight_norm_interface", weightNorm);
    library.impl("_weight_norm_interface_backward", weightNormBackward);
    library.impl("cholesky", cholesky);
    library.impl("cholesky_inverse", choleskyInverse);
    library.impl("_linalg_svd", singularValues);
    library.impl("linalg_lstsq", leastSquares);
}

} // namespace
} // namespace headroom::sim
