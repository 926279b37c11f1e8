// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Sparse tensors in coordinate format (COO), with dense tensors for indices and values. libtorch's own kernels at
// SparseCUDA call dense ops only, except for the kernels that this file replaces: aten/src/ATen/native/sparse/cuda.
#include "core/device/allocate.h"
#include "core/device/known_storage.h"
#include "core/device/meta_call.h"
#include "core/device/placeholder_values.h"
#include "core/device/sparse_tensor.h"

#include <ATen/ExpandUtils.h>
#include <ATen/TensorIndexing.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/_to_sparse_native.h>
#include <ATen/ops/_unique2.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/result_type.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <vector>

namespace at::native {

// libtorch does not install the header that declares this.
DECLARE_DISPATCH(Tensor (*)(const Tensor&, IntArrayRef), flatten_indices_stub)

} // namespace at::native

namespace headroom::sim {
namespace {

using at::Tensor;
using at::sparse::get_sparse_impl;

/// Sorts the elements and drops repeated elements. Returns how many are left: all, if the values are not known.
std::int64_t sortUnique(const Tensor& flat)
{
    const bool known = knownPart(flat) == Known::all;
    const Assumptions assumptions = assumptionsOf(flat);
    if (!known || assumptions.placeholder)
        countPlaceholder(Placeholder::size);
    if (!known)
        return flat.numel();
    const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
    const Tensor unique = std::get<0>(at::_unique2(valuesOf(flat)));
    keep(flat.narrow(0, 0, unique.numel()), unique, {}, assumptions);
    return unique.numel();
}

/// Sorts and counts the indices, and sums the values of an index that occurs several times.
Tensor coalesceSparse(const Tensor& self)
{
    const std::int64_t nonzeros = self._nnz();
    if (nonzeros < 2) {
        Tensor copy = self.clone();
        copy._coalesced_(true);
        return copy;
    }
    Tensor flat = at::sparse::flatten_indices(self._indices(), self.sizes(), /*force_clone=*/true);
    const Tensor order = emptyTensor({nonzeros}, at::kLong);
    const Tensor offsets = emptyTensor({nonzeros}, at::kLong);
    const std::int64_t unique = sortUnique(flat);
    flat.resize_({1, unique});
    std::vector<std::int64_t> sizes = self._values().sizes().vec();
    sizes[0] = unique;
    const Tensor sums = emptyTensor(sizes, self.scalar_type());
    const Tensor read = self._values().contiguous();
    Tensor indices = flat;
    if (self.sparse_dim() > 1) {
        indices = emptyTensor({self.sparse_dim(), unique}, at::kLong);
        for (std::int64_t dim = self.sparse_dim() - 1; dim >= 0; --dim) {
            const Tensor row = indices.narrow(0, dim, 1);
            row.copy_(flat);
            flat.divide_(self.size(dim), "trunc");
            row.add_(flat, -self.size(dim));
        }
    }
    Tensor result = at::_sparse_coo_tensor_unsafe(indices, sums, self.sizes());
    result._coalesced_(true);
    return result;
}

/// Adds a sparse tensor to a dense tensor.
Tensor& addToDense(const Tensor& dense, const Tensor& sparse, const at::Scalar& alpha, Tensor& out)
{
    TORCH_CHECK(dense.device() == sparse.device(), "add: expected 'self' to be a CUDA tensor, but got a CPU tensor");
    TORCH_CHECK(dense.sizes() == sparse.sizes(),
                "add: expected 'self' and 'other' to have same size, but self has size ", dense.sizes(),
                " while other has size ", sparse.sizes(),
                " (FYI: dense-sparse addition does not currently support broadcasting)");
    if (sparse._nnz() == 0)
        return out.resize_as_(dense).copy_(dense), out;
    const at::ScalarType type = at::result_type(dense, sparse);
    TORCH_CHECK(at::canCast(type, out.scalar_type()), "Can't convert result type ", type, " to output ",
                out.scalar_type());
    const Tensor result = out.scalar_type() == type ? out : at::empty_like(dense, out.options().dtype(type));
    const Tensor addend = dense.to(type);
    Tensor values = sparse._values().to(type);
    if (!result.is_same(addend)) {
        result.resize_as_(dense);
        result.copy_(addend);
    }
    if (values.numel() == 0)
        return out;
    if (sparse.is_coalesced()) {
        values = values.contiguous();
        forget(result);
    } else {
        std::int64_t rows = 1;
        for (std::int64_t dim = 0; dim < sparse.sparse_dim(); ++dim)
            rows *= dense.size(dim);
        const Tensor flat = at::sparse::flatten_indices(sparse._indices(), sparse.sizes());
        const Tensor view = result.view({rows, -1});
        view.index_add_(0, flat, values.reshape({sparse._nnz(), view.size(1)}), alpha);
    }
    if (!result.is_same(out))
        out.copy_(result);
    return out;
}

/// Gives `out` the sparse layout and the sizes of `like`, with other indices and values.
Tensor& assign(Tensor& out, const Tensor& like, const Tensor& indices, const Tensor& values, bool coalesced)
{
    get_sparse_impl(out)->raw_resize_(like.sparse_dim(), like.dense_dim(), like.sizes());
    get_sparse_impl(out)->set_indices_and_values_unsafe(indices, values);
    out._coalesced_(coalesced);
    return out;
}

Tensor& addSparse(const Tensor& self, const Tensor& other, const at::Scalar& alpha, Tensor& out)
{
    if (!self.is_sparse())
        return addToDense(self, other, alpha, out);
    TORCH_CHECK(other.is_sparse(), "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
    TORCH_CHECK(self.device() == other.device(), "add: expected 'other' to be CUDA, but got CPU");
    TORCH_CHECK(self.sizes() == other.sizes(), "add: expected 'self' and 'other' to have same size, but ", self.sizes(),
                " != ", other.sizes());
    TORCH_CHECK(self.sparse_dim() == other.sparse_dim() && self.dense_dim() == other.dense_dim(),
                "add: expected 'self' and 'other' to have same density, but 'self' has ", self.sparse_dim(),
                " sparse dimensions while 'other' has ", other.sparse_dim(), " sparse dimensions");
    const at::ScalarType type = at::result_type(self, other);
    TORCH_CHECK(at::canCast(type, out.scalar_type()), "Can't convert result type ", type, " to output ",
                out.scalar_type());
    Tensor added = other._values().to(type);
    if (!alpha.equal(1))
        added = added.mul(alpha);
    const Tensor indices = at::cat({self._indices(), other._indices()}, 1);
    const Tensor values = at::cat({self._values().to(type), added}).to(out.scalar_type());
    return assign(out, self, indices, values, /*coalesced=*/false);
}

/// Multiplies by a dense tensor with fewer or as many dimensions: the result has the indices of the sparse tensor.
Tensor& multiplyByDense(const Tensor& sparse, const Tensor& dense, Tensor& out)
{
    Tensor factors = dense;
    if (dense.dim() > sparse.dense_dim()) {
        TORCH_CHECK_NOT_IMPLEMENTED(dense.sizes() == sparse.sizes(), "The simulated device multiplies a sparse tensor ",
                                    sparse.sizes(), " by a dense tensor of the same size, not of the size ",
                                    dense.sizes(), ".");
        std::vector<at::indexing::TensorIndex> rows;
        for (std::int64_t dim = 0; dim < sparse.sparse_dim(); ++dim)
            rows.emplace_back(sparse._indices().select(0, dim));
        factors = dense.index(rows);
    }
    const Tensor indices = sparse._indices().clone();
    return assign(out, sparse, indices, factors.mul(sparse._values()).to(out.scalar_type()), sparse.is_coalesced());
}

Tensor& multiplySparse(const Tensor& self, const Tensor& other, Tensor& out)
{
    if (!other.is_sparse())
        return multiplyByDense(self, other, out);
    TORCH_CHECK_NOT_IMPLEMENTED(!self.is_sparse(), "The simulated device does not multiply two sparse tensors.");
    return multiplyByDense(other, self, out);
}

/// Makes the tensors of cuSPARSE's product of a sparse and a dense matrix, besides the result.
void makeProductOperands(const Tensor& sparse, const Tensor& dense, const Tensor& result)
{
    const Tensor sorted = sparse.coalesce();
    const Tensor rows = emptyTensor({sorted._nnz()}, at::kInt);
    const Tensor offsets = emptyTensor({sorted.size(0) + 1}, at::kInt);
    const Tensor columns = emptyTensor({sorted._nnz()}, at::kInt);
    const bool byColumns = result.stride(0) == 1 && result.stride(1) == result.size(0);
    const Tensor staged = byColumns ? result : emptyContiguous(result);
    const bool readable = dense.stride(1) == 1 || (dense.stride(0) == 1 && dense.stride(1) == dense.size(0));
    const Tensor operand = readable ? dense : dense.contiguous();
}

Tensor& sparseProductInto(const Tensor& self, const Tensor& sparse, const Tensor& dense, const at::Scalar&,
                          const at::Scalar&, Tensor& out)
{
    TORCH_CHECK_NOT_IMPLEMENTED(sparse.is_sparse() && !dense.is_sparse(),
                                "The simulated device multiplies a sparse matrix by a dense one, in this order.");
    TORCH_CHECK(self.device() == sparse.device(),
                "Expected all tensors to be on the same device. addmm: expected "
                "'self' to be CUDA, but got CPU");
    TORCH_CHECK(dense.device() == sparse.device(),
                "Expected all tensors to be on the same device. addmm: expected "
                "'mat2' to be CUDA, but got CPU");
    TORCH_CHECK(dense.dim() == 2, "addmm: 2D tensor expected, got ", dense.dim(), "D tensor");
    TORCH_CHECK(sparse.sparse_dim() == 2,
                "addmm: expected first two dims to be sparse (indices has size 2 at first dim), but got ",
                sparse.sparse_dim(), " sparse dims");
    TORCH_CHECK(dense.size(0) == sparse.size(1), "addmm: Argument #3 (dense): Expected dim 0 size ", sparse.size(1),
                ", got ", dense.size(0));
    TORCH_CHECK(at::is_expandable_to(self.sizes(), {sparse.size(0), dense.size(1)}),
                "addmm: Argument #1 (t): Expected dim 0 size ", sparse.size(0), ", got ", self.sizes());
    resizeOut(out, {sparse.size(0), dense.size(1)});
    forget(out);
    makeProductOperands(sparse, dense, out);
    return out;
}

Tensor sparseProduct(const Tensor& self, const Tensor& sparse, const Tensor& dense, const at::Scalar& beta,
                     const at::Scalar& alpha)
{
    Tensor out = emptyTensor({0}, self.scalar_type());
    return sparseProductInto(self, sparse, dense, beta, alpha, out);
}

Tensor& sparseProductInPlace(Tensor& self, const Tensor& sparse, const Tensor& dense, const at::Scalar& beta,
                             const at::Scalar& alpha)
{
    return sparseProductInto(self, sparse, dense, beta, alpha, self);
}

/// Returns the position of each element in the flattened sparse dimensions: sizes (sparse_dim, nnz) to (nnz).
Tensor flattenIndices(const Tensor& indices, at::IntArrayRef sizes)
{
    Tensor flat = indices.select(0, 0).clone();
    for (std::int64_t dim = 1; dim < indices.size(0); ++dim) {
        flat.mul_(sizes[static_cast<std::size_t>(dim)]);
        flat.add_(indices.select(0, dim));
    }
    return flat;
}

/// Kernels of libtorch_cuda for sparse tensors that this file does not replace.
void refuseOp(const c10::OperatorHandle& op, torch::jit::Stack*)
{
    TORCH_CHECK_NOT_IMPLEMENTED(false, "The simulated device has no kernel for ", op.operator_name(),
                                " of sparse tensors. Use dense tensors, or measure this model on a GPU.");
}

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, library)
{
    library.impl("_coalesce", coalesceSparse);
    library.impl("add.out", addSparse);
    library.impl("mul.out", multiplySparse);
    library.impl("addmm", sparseProduct);
    library.impl("addmm.out", sparseProductInto);
    library.impl("addmm_", sparseProductInPlace);
    for (const char* const name : {"bmm", "bmm.out", "_sparse_sparse_matmul", "sspaddmm.out", "_sparse_sum_backward",
                                   "_sparse_softmax", "_sparse_softmax_backward_data", "_sparse_log_softmax",
                                   "_sparse_log_softmax_backward_data", "hspmm", "hspmm.out", "index_select"})
        library.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuseOp>());
}

/// Finds the elements that are not zero.
Tensor toSparse(const Tensor& self, std::optional<at::Layout> layout, at::OptionalIntArrayRef blocks,
                std::optional<std::int64_t> denseDim)
{
    TORCH_CHECK_NOT_IMPLEMENTED(layout.value_or(at::kSparse) == at::kSparse,
                                "The simulated device has sparse tensors of the layout torch.sparse_coo only.");
    return at::native::dense_to_sparse(self, layout, blocks, denseDim);
}

Tensor toSparseDims(const Tensor& self, std::int64_t sparseDim)
{
    return at::native::dense_to_sparse(self, sparseDim);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library)
{
    library.impl("_to_sparse", toSparse);
    library.impl("_to_sparse.sparse_dim", toSparseDims);
}

} // namespace

void claimSparseStubs()
{
    at::native::flatten_indices_stub.set_cuda_dispatch_ptr(&flattenIndices);
}

} // namespace headroom::sim

void headroom::forEachDense(const at::Tensor& tensor, c10::function_ref<void(const at::Tensor&)> visit)
{
    if (!tensor.defined() || !tensor.is_sparse())
        return visit(tensor);
    const auto* sparse = static_cast<const at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
    visit(sparse->values());
    visit(sparse->indices());
}

at::Tensor headroom::withDense(const at::Tensor& sparse, const at::Tensor& values, const at::Tensor& indices)
{
    at::Tensor copy(sparse.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0),
                                                                          /*allow_tensor_metadata_change=*/true));
    auto* const impl = static_cast<at::SparseTensorImpl*>(copy.unsafeGetTensorImpl());
    const bool coalesced = impl->coalesced();
    impl->set_indices_and_values_unsafe(indices, values);
    impl->set_coalesced(coalesced);
    return copy;
}
