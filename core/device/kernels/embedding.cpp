// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Embedding and dropout.
#include "core/device/kernels/allocate.h"

#include <ATen/WrapDimUtils.h>
#include <torch/library.h>

#include <optional>
#include <tuple>
#include <vector>

namespace headroom::sim {
namespace {

using at::Tensor;

Tensor indexSelect(const Tensor& self, std::int64_t dim, const Tensor& index)
{
    std::vector<std::int64_t> sizes = self.sizes().vec();
    if (!sizes.empty())
        sizes[static_cast<std::size_t>(at::maybe_wrap_dim(dim, self.dim()))] = index.numel();
    return emptyTensor(sizes, self.scalar_type());
}

Tensor embeddingBackward(const Tensor& gradOutput, const Tensor&, c10::SymInt rows, c10::SymInt, bool)
{
    return emptyTensor({number(rows), gradOutput.size(-1)}, gradOutput.scalar_type());
}

std::tuple<Tensor, Tensor> dropout(const Tensor& input, double, std::optional<bool>)
{
    return {emptyLike(input), emptyLike(input, at::kBool)};
}

Tensor dropoutBackward(const Tensor& gradOutput, const Tensor&, double)
{
    return emptyLike(gradOutput);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library)
{
    library.impl("index_select", indexSelect);
    library.impl("embedding_dense_backward", embeddingBackward);
    library.impl("native_dropout", dropout);
    library.impl("native_dropout_backward", dropoutBackward);
}

} // namespace
} // namespace headroom::sim
