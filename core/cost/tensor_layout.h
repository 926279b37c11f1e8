// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/roofline.h"

#include <cstddef>
#include <vector>

namespace headroom {

/// Elements in memory: dimensions of stride 0 counted once.
double elements(const TensorShape& tensor);

/// Size of a dimension, from the end where negative; 1 where there is none.
double sizeAt(const TensorShape& tensor, std::ptrdiff_t dimension);

/// Dimensions in the order of their strides, those of one element and expanded ones left out.
std::vector<std::size_t> layoutOf(const TensorShape& tensor);

/// Whether the elements lie beside each other, in any order of dimensions.
bool isDense(const TensorShape& tensor);

/// As PyTorch tells it, is_channels_last_strides_2d() of c10/core/MemoryFormat.h: where sizes of one leave it open, as
/// the filters of 1x1 convolutions do, a tensor is row by row.
bool isChannelsLast(const TensorShape& image);

} // namespace headroom
