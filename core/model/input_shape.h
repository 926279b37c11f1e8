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
    std::vector<std::int64_t> sizes; ///< empty: a scalar
    std::optional<at::ScalarType> dtype; ///< nullopt: the type in the trace, or float32
};

/// Parses NAME=SHAPE[:DTYPE]. SHAPE is 8x128, or `scalar`. Errors (badInput) tell what was expected.
Result<InputShape> parseInputShape(std::string_view text);

/// Returns PyTorch's name of a type: "int64".
std::string dtypeName(at::ScalarType dtype);

/// Returns "8x128", or "scalar".
std::string shapeText(const std::vector<std::int64_t>& sizes);

} // namespace headroom
