// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/input_shape.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace headroom {
namespace {

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 11> dtypes{{
    {"float32", at::kFloat},
    {"float64", at::kDouble},
    {"float16", at::kHalf},
    {"bfloat16", at::kBFloat16},
    {"int64", at::kLong},
    {"int32", at::kInt},
    {"int16", at::kShort},
    {"int8", at::kChar},
    {"uint8", at::kByte},
    {"bool", at::kBool},
    {"complex64", at::kComplexFloat},
}};
constexpr std::int64_t largestSize = std::int64_t(1) << 40;

/// Parses a number of a shape; returns 0 for other texts.
std::int64_t size(std::string_view text)
{
    std::int64_t value = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = error == std::errc() && rest == text.data() + text.size();
    return whole && value > 0 && value <= largestSize ? value : 0;
}

} // namespace

Result<InputShape> parseInputShape(std::string_view text)
{
    const auto refused = [&](const std::string& expected) {
        return badInput("--input " + std::string(text) + ": expected " + expected
                        + ", for example --input x=8x128 or --input x=8x128:int64");
    };
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string_view::npos)
        return refused("NAME=SHAPE");
    InputShape input{std::string(text.substr(0, equals)), {}, {}};
    std::string_view shape = text.substr(equals + 1);
    if (const std::size_t colon = shape.find(':'); colon != std::string_view::npos) {
        const std::string_view name = shape.substr(colon + 1);
        const auto* const known = std::ranges::find(dtypes, name, &std::pair<std::string_view, at::ScalarType>::first);
        if (known == dtypes.end())
            return refused("a dtype such as float32, bfloat16, float16 or int64 after the colon");
        input.dtype = known->second;
        shape = shape.substr(0, colon);
    }
    if (shape == "scalar")
        return input;
    while (true) {
        const std::size_t cross = shape.find('x');
        const std::int64_t next = size(shape.substr(0, cross));
        if (next == 0)
            return refused("whole numbers of at least 1 with an x between them");
        input.sizes.push_back(next);
        if (cross == std::string_view::npos)
            return input;
        shape = shape.substr(cross + 1);
    }
}

std::string dtypeName(at::ScalarType dtype)
{
    const auto* const known = std::ranges::find(dtypes, dtype, &std::pair<std::string_view, at::ScalarType>::second);
    return known == dtypes.end() ? c10::toString(dtype) : std::string(known->first);
}

std::string shapeText(const std::vector<std::int64_t>& sizes)
{
    std::string text;
    for (const std::int64_t value : sizes)
        text += (text.empty() ? "" : "x") + std::to_string(value);
    return text.empty() ? "scalar" : text;
}

} // namespace headroom
