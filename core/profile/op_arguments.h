// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/op_signature.h"
#include "core/profile/profile.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

using Sizes = std::vector<std::int64_t>;

/// The arguments of an op in a trace, read from its lists.
struct OpArguments
{
    std::vector<TensorShape> tensors;
    std::vector<OpSignature::Value> call; ///< tensors and numbers, by position
    nlohmann::json values;

    std::string value(std::size_t position) const; ///< empty: not in the trace
    std::optional<Sizes> numbers(std::size_t position) const; ///< "[2, 2]"
};

/// Returns the arguments of an op; nullopt if the trace has no shapes or not all of them. Traces give no element type
/// for lists of tensors: it is taken from the name of `kernel`.
std::optional<OpArguments> opArguments(const Profile& profile, const Profile::Span& span, std::string_view kernel);

/// Sets the type of a shape from the number of a c10::ScalarType. Returns false if it is none.
bool setType(TensorShape& shape, std::string_view number);

/// Returns the sizes in a list; nullopt if one of them is not a valid size.
std::optional<Sizes> sizesIn(const nlohmann::json& list);

/// The largest number of elements: more than any memory holds, and few enough that computing with it does not overflow.
inline constexpr double mostElements = 1e14;

/// Returns the number of elements, with empty dimensions counted as 1: an upper limit for every partial product.
double elements(const Sizes& sizes);

} // namespace headroom
