// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/bytes.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace headroom {

namespace {

struct Unit
{
    const char* name;
    Bytes size;
};
constexpr std::array units{Unit{"GiB", GiB}, Unit{"MiB", MiB}, Unit{"KiB", KiB}, Unit{"B", 1}};

std::string_view trimmed(std::string_view text)
{
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())))
        text.remove_prefix(1);
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())))
        text.remove_suffix(1);
    return text;
}

Error notASize(std::string_view text)
{
    return badInput("`" + std::string(text)
                    + "` is not a size: expected bytes, or a number with KiB, MiB or GiB, as 1.6GiB");
}

} // namespace

Result<Bytes> parseBytes(std::string_view text)
{
    const std::string_view body = trimmed(text);
    double number = 0;
    const auto [end, problem] = std::from_chars(body.data(), body.data() + body.size(), number);
    if (problem != std::errc() || !std::isfinite(number))
        return notASize(text);

    const std::string_view name = trimmed(body.substr(static_cast<std::size_t>(end - body.data())));
    const auto lower = [](unsigned char c) { return std::tolower(c); };
    const auto* const unit = std::ranges::find_if(units, [&](const Unit& known) {
        return std::ranges::equal(name, std::string_view(known.name), {}, lower, lower);
    });
    if (unit == units.end() && !name.empty())
        return notASize(text);
    const double scale = name.empty() ? 1 : static_cast<double>(unit->size);

    if (number < 0)
        return badInput("`" + std::string(text) + "` is negative: a size is 0 or more");
    // Whole byte counts are read as integers: a double would lose digits above 2^53.
    if (scale == 1) {
        Bytes whole = 0;
        const auto [wholeEnd, wholeProblem] = std::from_chars(body.data(), end, whole);
        if (wholeProblem == std::errc() && wholeEnd == end && whole <= (Bytes{1} << 62))
            return whole;
    }
    if (number * scale > static_cast<double>(Bytes{1} << 62))
        return badInput("`" + std::string(text) + "` is too large: expected at most 2^62 bytes");
    return static_cast<Bytes>(std::floor(number * scale));
}

std::string formatBytes(Bytes bytes, int decimals)
{
    const auto* const unit
        = std::ranges::find_if(units, [&](const Unit& known) { return std::abs(bytes) >= known.size; });
    if (unit == units.end() || unit->size == 1)
        return std::to_string(bytes) + " B";
    std::array<char, 64> buffer{};
    std::snprintf(buffer.data(), buffer.size(), "%.*f %s", decimals,
                  static_cast<double>(bytes) / static_cast<double>(unit->size), unit->name);
    return buffer.data();
}

std::string groupedDigits(std::int64_t number)
{
    std::string digits = std::to_string(number);
    const std::size_t first = digits.front() == '-' ? 1 : 0;
    for (std::size_t position = digits.size(); position > first + 3;) {
        position -= 3;
        digits.insert(position, 1, ',');
    }
    return digits;
}

std::string exactBytes(Bytes bytes)
{
    const std::string digits = groupedDigits(bytes) + " bytes";
    return bytes > -KiB && bytes < KiB ? digits : formatBytes(bytes) + " (" + digits + ')';
}

} // namespace headroom
