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
    std::vector<OpSignature::Value> call; ///< by position: tensors and numbers
    nlohmann::json values;

    std::string value(std::size_t position) const; ///< empty: the trace does not say it
    std::optional<Sizes> numbers(std::size_t position) const; ///< "[2, 2]"
};

/// None: the trace has no shapes, or they are not all known. Of lists of tensors a trace says no type: it is that in
/// the name of the `kernel`.
std::optional<OpArguments> opArguments(const Profile& profile, const Profile::Span& span, std::string_view kernel);

/// Gives a shape the type that a value names, which is c10::ScalarType's number. False: it names none.
bool setType(TensorShape& shape, std::string_view number);

/// None: one of them is no size of a tensor.
std::optional<Sizes> sizesIn(const nlohmann::json& list);

/// More than any memory holds, and few enough that what is computed of them does not overflow.
inline constexpr double mostElements = 1e14;

/// As if an empty dimension had one element, so that the product is the largest one on the way.
double elements(const Sizes& sizes);

} // namespace headroom
