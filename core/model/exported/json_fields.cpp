// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/exported/json_fields.h"

#include <limits>

namespace headroom::exported::json {

std::string string(const Json& value)
{
    if (!value.is_string())
        throw Mismatch{"", "expected a string"};
    return value.get<std::string>();
}

bool boolean(const Json& value)
{
    if (!value.is_boolean())
        throw Mismatch{"", "expected true or false"};
    return value.get<bool>();
}

std::int64_t integer(const Json& value)
{
    const bool fits = value.is_number_integer()
        && (!value.is_number_unsigned() || value.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max());
    if (!fits)
        throw Mismatch{"", "expected a whole number below 2^63"};
    return value.get<std::int64_t>();
}

double number(const Json& value)
{
    if (value.is_number())
        return value.get<double>();
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (value == "Infinity")
        return infinity;
    if (value == "-Infinity")
        return -infinity;
    if (value == "NaN")
        return std::numeric_limits<double>::quiet_NaN();
    throw Mismatch{"", "expected a number"};
}

std::pair<const std::string&, const Json&> alternative(const Json& value)
{
    if (!value.is_object() || value.size() != 1)
        throw Mismatch{"", "expected an object with one member"};
    const auto member = value.begin();
    return {member.key(), member.value()};
}

const Json* find(const Json& object, const char* key)
{
    if (!object.is_object())
        throw Mismatch{"", std::string("expected an object with '") + key + "'"};
    const auto member = object.find(key);
    return member == object.end() || member->is_null() ? nullptr : &*member;
}

} // namespace headroom::exported::json
