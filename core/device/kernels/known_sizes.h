// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace headroom::sim {

/// What kernels ask of values: sizes of results that follow from them, and whether indices are in range. Where the
/// values are not known, the size is invented and counted as such.

/// How many elements are not zero; all, where that is not known.
std::int64_t countNonzero(const at::Tensor& tensor);

/// The largest element, and the sum of all; nothing where these are not known.
std::optional<std::int64_t> largestElement(const at::Tensor& tensor);
std::optional<std::int64_t> sumOfElements(const at::Tensor& tensor);

/// An index, of those that are known, that lies outside of [least, size) and is not `ignored`.
std::optional<std::int64_t> indexOutside(const at::Tensor& index, std::int64_t least, std::int64_t size,
                                         std::optional<std::int64_t> ignored = {});

/// Raises where a class that is known is none of so many.
void checkTargets(const at::Tensor& target, std::int64_t classes, std::int64_t ignored);

} // namespace headroom::sim
