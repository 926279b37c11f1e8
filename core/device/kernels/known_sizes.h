// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace headroom::sim {

/// Sizes of results that follow from values. Where the values are not known, the size is invented and counted as such.

/// How many elements are not zero; all, where that is not known.
std::int64_t countNonzero(const at::Tensor& tensor);

/// The largest element, and the sum of all; nothing where these are not known.
std::optional<std::int64_t> largestElement(const at::Tensor& tensor);
std::optional<std::int64_t> sumOfElements(const at::Tensor& tensor);

} // namespace headroom::sim
