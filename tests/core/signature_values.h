// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/op_signature.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace headroom {

/// A contiguous tensor.
inline TensorShape tensor(std::vector<std::int64_t> sizes, DType dtype = DType::float32)
{
    std::vector<std::int64_t> strides(sizes.size(), 1);
    for (std::size_t i = sizes.size(); i-- > 1;)
        strides[i - 1] = strides[i] * sizes[i];
    return {std::move(sizes), std::move(strides), dtype, dtype == DType::float32 ? 4 : 2};
}

inline OpSignature::Value given(TensorShape shape)
{
    return {OpSignature::Value::Kind::tensor, {std::move(shape)}, {}};
}

inline OpSignature::Value numbers(std::vector<std::int64_t> values)
{
    return {OpSignature::Value::Kind::integers, {}, std::move(values)};
}

} // namespace headroom
