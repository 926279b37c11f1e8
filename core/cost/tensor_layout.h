// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/roofline.h"

#include <cstddef>
#include <vector>

namespace headroom {

/// Number of elements in memory: dimensions of stride 0 counted once.
double elements(const TensorShape& tensor);

/// Size of a dimension, counted from the end if negative; 1 if it does not exist.
double sizeAt(const TensorShape& tensor, std::ptrdiff_t dimension);

/// The dimensions by descending stride, without those of one element and expanded ones.
std::vector<std::size_t> layoutOf(const TensorShape& tensor);

/// Whether the elements are adjacent in memory, in any order of dimensions.
bool isDense(const TensorShape& tensor);

/// Whether an image is channels-last, by the rule of is_channels_last_strides_2d() in c10/core/MemoryFormat.h: a tensor
/// with ambiguous strides, such as the filter of a 1x1 convolution, is not.
bool isChannelsLast(const TensorShape& image);

} // namespace headroom
