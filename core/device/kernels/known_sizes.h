// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/ExpandUtils.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace headroom::sim {

/// Checks that `source` can be expanded to the sizes of `self`, the target of an op in place; throws as
/// at::Tensor::expand() does.
inline void requireExpandable(const at::Tensor& source, const at::Tensor& self)
{
    if (source.sizes() != self.sizes())
        at::inferExpandGeometry(source.sizes(), source.strides(), self.sizes());
}

/// Functions by which kernels look up values: for sizes of results, and to check indices. If the values are not known,
/// the size is a placeholder and counted as a placeholder.

/// Returns the number of nonzero elements; the number of all elements if the values are not known.
std::int64_t countNonzero(const at::Tensor& tensor);

/// Return the largest element, and the sum of all; nullopt if the values are not known.
std::optional<std::int64_t> largestElement(const at::Tensor& tensor);
std::optional<std::int64_t> sumOfElements(const at::Tensor& tensor);

/// Returns a known index that lies outside of [least, size) and is not `ignored`; nullopt if there is none.
std::optional<std::int64_t> indexOutside(const at::Tensor& index, std::int64_t least, std::int64_t size,
                                         std::optional<std::int64_t> ignored = {});

/// Throws if a known class in `target` is neither in [0, classes) nor `ignored`.
void checkTargets(const at::Tensor& target, std::int64_t classes, std::int64_t ignored);

} // namespace headroom::sim
