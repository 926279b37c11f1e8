// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// The shape and type of an input of the model's forward, as --input gives it: x=8x128:int64.
struct InputShape
{
    std::string name;
    std::vector<std::int64_t> sizes; ///< empty: a tensor of one number
    std::optional<at::ScalarType> dtype; ///< nullopt: that of the trace, or float32
};

/// Parses NAME=SHAPE[:DTYPE]. SHAPE is 8x128, or `scalar`. Errors (badInput) say what is wrong with `text`.
Result<InputShape> parseInputShape(std::string_view text);

/// PyTorch's name of a type: "int64".
std::string dtypeName(at::ScalarType dtype);

/// "8x128", or `scalar`.
std::string shapeText(const std::vector<std::int64_t>& sizes);

} // namespace headroom
