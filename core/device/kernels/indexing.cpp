// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Indexing by positions, by masks and by boxes. The number of selected elements depends on values: if the values are
// not known, all elements count as selected, and the number counts as a placeholder. Embedding, embedding bags and
// dropout.

#include "core/device/allocate.h"
#include "core/device/boxed_values.h"
#include "core/device/kernels/known_sizes.h"
#include "core/device/meta_call.h"
#include "core/device/placeholder_values.h"

#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/List_inl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_embedding_bag_sparse_backward.h>
#include <torch/library.h>

#include <optional>
#include <tuple>
#include <vector>

namespace headroom::sim {
namespace {

using at::Tensor;

bool isMask(const c10::IValue& value)
{
    return value.isTensor() && value.toTensor().defined()
        && (value.toTensor().scalar_type() == at::kBool || value.toTensor().scalar_type() == at::kByte);
}

/// Appends the n lists of positions that replace a mask of n dimensions (aten/src/ATen/native/IndexingUtils.h).
void appendPositions(c10::impl::GenericList& indices, const Tensor& mask)
{
    const std::int64_t selected = countNonzero(mask);
    for (std::int64_t dim = 0; dim < mask.dim(); ++dim)
        indices.push_back(c10::IValue(emptyTensor({selected}, at::kLong)));
}

/// Checks that the masks have the sizes of the indexed dimensions. Returns whether there are any masks.
bool checkMasks(const Tensor& self, const c10::IValue& indices)
{
    bool masked = false;
    std::int64_t dim = 0;
    for (const c10::IValue& element : indices.toListRef()) {
        const Tensor mask = isMask(element) ? element.toTensor() : Tensor();
        for (std::int64_t i = 0; mask.defined() && i < mask.dim(); ++i) {
            TORCH_CHECK_INDEX(dim + i < self.dim() && mask.size(i) == self.size(dim + i), "The shape of the mask ",
                              mask.sizes(), " at index ", i, " does not match the shape of the indexed tensor ",
                              self.sizes(), " at index ", dim + i);
        }
        masked |= mask.defined();
        dim += mask.defined() ? mask.dim() : 1;
    }
    return masked;
}

/// Checks known positions; negative positions count from the end.
void checkPosition(const Tensor& index, std::int64_t dim, std::int64_t size)
{
    const auto outside = indexOutside(index, -size, size);
    TORCH_CHECK_INDEX(!outside, "index ", outside.value_or(0), " is out of bounds for dimension ", dim, " with size ",
                      size);
}

void checkPositions(const Tensor& self, const c10::IValue& indices)
{
    std::int64_t dim = 0;
    for (const c10::IValue& element : indices.toListRef()) {
        const bool masks = isMask(element);
        if (!masks && element.isTensor() && element.toTensor().defined() && dim < self.dim())
            checkPosition(element.toTensor(), dim, self.size(dim));
        dim += masks ? element.toTensor().dim() : 1;
    }
}

/// Returns the sizes of self[indices] by NumPy's rules: indexed dimensions that are not adjacent come first.
std::vector<std::int64_t> indexedSizes(const Tensor& self, const c10::IValue& indices)
{
    const auto elements = indices.toListRef();
    std::vector<std::int64_t> common;
    std::vector<std::int64_t> sizes;
    std::optional<std::size_t> place;
    bool apart = false;
    for (std::size_t dim = 0; dim < static_cast<std::size_t>(self.dim()); ++dim) {
        if (dim >= elements.size() || !elements[dim].isTensor() || !elements[dim].toTensor().defined()) {
            sizes.push_back(self.size(static_cast<std::int64_t>(dim)));
            continue;
        }
        common = at::infer_size(common, elements[dim].toTensor().sizes());
        apart |= place && *place != sizes.size();
        place = place.value_or(sizes.size());
    }
    const auto at = static_cast<std::ptrdiff_t>(apart ? 0 : place.value_or(0));
    sizes.insert(sizes.begin() + at, common.begin(), common.end());
    return sizes;
}

/// Runs index_put_. With a mask the values are not checked: the number of selected elements may be unknown.
Tensor& indexPut(Tensor& self, const c10::List<std::optional<Tensor>>& indices, const Tensor& values, bool, bool)
{
    const c10::IValue list(indices);
    TORCH_CHECK_INDEX(self.scalar_type() == values.scalar_type(),
                      "Index put requires the source and destination dtypes match, got ", self.scalar_type(),
                      " for the destination and ", values.scalar_type(), " for the source.");
    checkPositions(self, list);
    if (checkMasks(self, list))
        return self;
    const std::vector<std::int64_t> sizes = indexedSizes(self, list);
    TORCH_CHECK(at::is_expandable_to(values.sizes(), sizes), "shape mismatch: value tensor of shape ", values.sizes(),
                " cannot be broadcast to indexing result of shape ", at::IntArrayRef(sizes));
    return self;
}

Tensor& indexFill(Tensor& self, std::int64_t dim, const Tensor& index, const at::Scalar&)
{
    dim = at::maybe_wrap_dim(dim, self.dim());
    TORCH_CHECK_INDEX(index.scalar_type() == at::kLong, "index_fill_(): Expected dtype int64 for index.");
    TORCH_CHECK_INDEX(index.dim() <= 1, "Index has to be a vector/scalar");
    checkPosition(index, dim, self.dim() == 0 ? 1 : self.size(dim));
    return self;
}

Tensor& indexFillByTensor(Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& value)
{
    TORCH_CHECK(value.dim() == 0, "index_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
                value.dim(), " dimension(s).");
    return indexFill(self, dim, index, 0);
}

void index(const c10::OperatorHandle& op, torch::jit::Stack* stack)
{
    c10::IValue& argument = stack->back();
    const Tensor self = argumentsOf(op, *stack)[0].toTensor();
    checkPositions(self, argument);
    if (checkMasks(self, argument)) {
        c10::impl::GenericList indices(argument.toList().elementType());
        for (const c10::IValue& element : argument.toListRef()) {
            if (isMask(element))
                appendPositions(indices, element.toTensor());
            else
                indices.push_back(element);
        }
        argument = c10::IValue(indices);
    }
    callMeta(op, stack);
}

/// gather(self, dim, index, sparse_grad)
void gather(const c10::OperatorHandle& op, torch::jit::Stack* stack)
{
    const auto arguments = argumentsOf(op, *stack);
    const Tensor& self = arguments[0].toTensor();
    const std::int64_t dim = at::maybe_wrap_dim(arguments[1].toInt(), self.dim());
    const std::int64_t size = self.dim() == 0 ? 1 : self.size(dim);
    const auto outside = indexOutside(arguments[2].toTensor(), 0, size);
    TORCH_CHECK(!outside, "index ", outside.value_or(0), " is out of bounds for dimension ", dim, " with size ", size);
    callMeta(op, stack);
}

/// nll_loss_forward(self, target, weight, reduction, ignore_index)
void negativeLogLikelihood(const c10::OperatorHandle& op, torch::jit::Stack* stack)
{
    const auto arguments = argumentsOf(op, *stack);
    const Tensor& self = arguments[0].toTensor();
    if (self.dim() > 0)
        checkTargets(arguments[1].toTensor(), self.size(-1), arguments[4].toInt());
    callMeta(op, stack);
}

/// Runs torchvision::nms(boxes, scores, threshold), with the kept boxes as the result: here all boxes.
Tensor suppressNothing(const Tensor& boxes, const Tensor&, double)
{
    countPlaceholder(Placeholder::size);
    return emptyTensor({boxes.size(0)}, at::kLong);
}

TORCH_LIBRARY_IMPL(torchvision, PrivateUse1, library)
{
    library.impl("nms", suppressNothing);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library)
{
    library.impl("_index_put_impl_", indexPut);
    library.impl("index_fill_.int_Scalar", indexFill);
    library.impl("index_fill_.int_Tensor", indexFillByTensor);
    library.impl("index.Tensor", torch::CppFunction::makeFromBoxedFunction<&index>());
    library.impl("gather", torch::CppFunction::makeFromBoxedFunction<&gather>());
    library.impl("nll_loss_forward", torch::CppFunction::makeFromBoxedFunction<&negativeLogLikelihood>());
}

using at::Tensor;

std::vector<std::int64_t> selectedSizes(const Tensor& self, std::int64_t dim, const Tensor& index)
{
    std::vector<std::int64_t> sizes = self.sizes().vec();
    if (sizes.empty())
        return sizes;
    std::int64_t& size = sizes[static_cast<std::size_t>(at::maybe_wrap_dim(dim, self.dim()))];
    TORCH_CHECK_INDEX(!indexOutside(index, 0, size), "index out of range in self");
    size = index.numel();
    return sizes;
}

Tensor indexSelect(const Tensor& self, std::int64_t dim, const Tensor& index)
{
    return emptyTensor(selectedSizes(self, dim, index), self.scalar_type());
}

Tensor embeddingBackward(const Tensor& gradOutput, const Tensor&, c10::SymInt rows, c10::SymInt, bool)
{
    return emptyTensor({number(rows), gradOutput.size(-1)}, gradOutput.scalar_type());
}

/// Returns the result, the bag of each index, the size of each bag and, in the mode `max`, the index of the largest
/// row.
std::tuple<Tensor, Tensor, Tensor, Tensor> embeddingBag(const Tensor& weight, const Tensor& indices,
                                                        const Tensor& offsets, bool, std::int64_t mode, bool,
                                                        const std::optional<Tensor>&, bool includeLastOffset,
                                                        std::int64_t)
{
    constexpr std::int64_t maxMode = 2;
    const std::int64_t bags = offsets.size(0) - (includeLastOffset ? 1 : 0);
    const at::ScalarType type = indices.scalar_type();
    return {emptyTensor({bags, weight.size(1)}, weight.scalar_type()), emptyTensor({indices.size(0)}, type),
            emptyTensor({bags}, type),
            mode == maxMode ? emptyTensor({bags, weight.size(1)}, type) : emptyTensor({0}, type)};
}

Tensor embeddingBagBackward(const Tensor& gradOutput, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                            c10::SymInt rows, bool, std::int64_t, const std::optional<Tensor>&, std::int64_t)
{
    return emptyTensor({number(rows), gradOutput.size(1)}, gradOutput.scalar_type());
}

Tensor anyEmbeddingBagBackward(const Tensor& gradOutput, const Tensor& indices, const Tensor& offsets,
                               const Tensor& offset2bag, const Tensor& bagSizes, const Tensor&, c10::SymInt rows,
                               bool scaleByFrequency, std::int64_t mode, bool sparse,
                               const std::optional<Tensor>& weights, std::int64_t padding)
{
    if (sparse)
        return at::_embedding_bag_sparse_backward_symint(gradOutput, indices, offsets, offset2bag, bagSizes,
                                                         std::move(rows), scaleByFrequency, mode, weights, padding);
    return emptyTensor({number(rows), gradOutput.size(1)}, gradOutput.scalar_type());
}

Tensor embeddingBagWeightsBackward(const Tensor& gradOutput, const Tensor&, const Tensor& indices, const Tensor&,
                                   const Tensor&, std::int64_t, std::int64_t)
{
    return emptyTensor({indices.size(0)}, gradOutput.scalar_type());
}

Tensor& indexSelectOut(const Tensor& self, std::int64_t dim, const Tensor& index, Tensor& out)
{
    resizeOut(out, selectedSizes(self, dim, index));
    return out;
}

Tensor paddedToJagged(const Tensor& dense, at::TensorList offsets, std::optional<c10::SymInt> rows)
{
    std::vector<std::int64_t> sizes = dense.sizes().slice(offsets.size() + 1).vec();
    sizes.insert(sizes.begin(), rows ? number(*rows) : offsets.back().max().item<std::int64_t>());
    return emptyTensor(sizes, dense.scalar_type());
}

std::tuple<Tensor, Tensor> dropout(const Tensor& input, double, std::optional<bool>)
{
    return {emptyLike(input), emptyLike(input, at::kBool)};
}

Tensor dropoutBackward(const Tensor& gradOutput, const Tensor&, double)
{
    const bool integral = at::isIntegralType(gradOutput.scalar_type(), /*includeBool=*/true);
    return emptyLike(gradOutput, integral ? at::kFloat : gradOutput.scalar_type());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library)
{
    library.impl("index_select", indexSelect);
    library.impl("embedding_dense_backward", embeddingBackward);
    library.impl("_embedding_bag", embeddingBag);
    library.impl("_embedding_bag_forward_only", embeddingBag);
    library.impl("_embedding_bag_dense_backward", embeddingBagBackward);
    library.impl("_embedding_bag_backward", anyEmbeddingBagBackward);
    library.impl("_embedding_bag_per_sample_weights_backward", embeddingBagWeightsBackward);
    library.impl("index_select.out", indexSelectOut);
    library.impl("_padded_dense_to_jagged_forward", paddedToJagged);
    library.impl("native_dropout", dropout);
    library.impl("native_dropout_backward", dropoutBackward);
}

} // namespace
} // namespace headroom::sim
