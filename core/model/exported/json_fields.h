// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

/// Fields of a JSON document, read strictly: what is not as expected is thrown with its path, and caught where the
/// document's reading began. Reads nest as `at(node, "inputs", listOf(readInput))`.
namespace headroom::exported::json {

using Json = nlohmann::json;

/// "graph_module.graph.nodes[3].target": expected a string.
struct Mismatch
{
    std::string path;
    std::string expected;

    Mismatch under(const std::string& step) const
    {
        const bool joined = path.empty() || path.front() == '[';
        return {step + (joined ? "" : ".") + path, expected};
    }
};

std::string string(const Json& value);
bool boolean(const Json& value);
std::int64_t integer(const Json& value);
double number(const Json& value); ///< also "Infinity", "-Infinity" and "NaN", as torch.export writes them

/// The value's only member: a union of schema.py is an object with the name of its alternative as key.
std::pair<const std::string&, const Json&> alternative(const Json& value);

const Json* find(const Json& object, const char* key); ///< null: missing or null

template <class Read>
auto at(const Json& object, const char* key, Read&& read)
{
    const Json* member = find(object, key);
    if (!member)
        throw Mismatch{"", std::string("expected an object with '") + key + "'"};
    try {
        return read(*member);
    } catch (const Mismatch& mismatch) {
        throw mismatch.under(key);
    }
}

/// Of a member that may be missing.
template <class Read, class Value>
auto atOr(const Json& object, const char* key, Read&& read, Value otherwise) -> decltype(read(object))
{
    if (find(object, key))
        return at(object, key, std::forward<Read>(read));
    return otherwise;
}

template <class Read>
auto listOf(Read read)
{
    return [read](const Json& value) {
        if (!value.is_array())
            throw Mismatch{"", "expected a list"};
        std::vector<decltype(read(value))> list;
        list.reserve(value.size());
        for (std::size_t i = 0; i < value.size(); ++i) {
            try {
                list.push_back(read(value[i]));
            } catch (const Mismatch& mismatch) {
                throw mismatch.under("[" + std::to_string(i) + "]");
            }
        }
        return list;
    };
}

template <class Read>
auto mapOf(Read read)
{
    return [read](const Json& value) {
        if (!value.is_object())
            throw Mismatch{"", "expected an object"};
        std::map<std::string, decltype(read(value))> map;
        for (const auto& [key, member] : value.items()) {
            try {
                map.emplace(key, read(member));
            } catch (const Mismatch& mismatch) {
                throw mismatch.under(key);
            }
        }
        return map;
    };
}

} // namespace headroom::exported::json
