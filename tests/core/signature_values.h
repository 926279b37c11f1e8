// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/op_signature.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace headroom {

/// A contiguous tensor.
inline TensorShape tensor(std::vector<std::int64_t> sizes, DType dtype = DType::float32)
{
    const int itemSize = dtype == DType::float32 || dtype == DType::int32 ? 4
        : dtype == DType::int64 || dtype == DType::float64                ? 8
        : dtype == DType::boolean || dtype == DType::uint8                ? 1
                                                                          : 2;
    std::vector<std::int64_t> strides(sizes.size(), 1);
    for (std::size_t i = sizes.size(); i-- > 1;)
        strides[i - 1] = strides[i] * std::max<std::int64_t>(sizes[i], 1);
    return {std::move(sizes), std::move(strides), dtype, itemSize};
}

inline OpSignature::Value given(TensorShape shape)
{
    return {OpSignature::Value::ValueType::tensor, {std::move(shape)}, {}};
}

inline OpSignature::Value numbers(std::vector<std::int64_t> values)
{
    return {OpSignature::Value::ValueType::integers, {}, std::move(values)};
}

} // namespace headroom
