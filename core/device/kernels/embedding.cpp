// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Embedding, embedding bags and dropout.
#include "core/device/allocate.h"
#include "core/device/kernels/known_sizes.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/_embedding_bag_sparse_backward.h>
#include <torch/library.h>

#include <optional>
#include <tuple>
#include <vector>

namespace headroom::sim {
namespace {

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
    library.impl("native_dropout", dropout);
    library.impl("native_dropout_backward", dropoutBackward);
}

} // namespace
} // namespace headroom::sim
