// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// How every document is read: by functions from a value to what it means, which nest as
/// `at(document, "inputs", listOf(readInput))`. What is not as expected is thrown, and read() makes a sentence of it.
namespace headroom::json {

using Json = nlohmann::json;

/// "doc.json: modules['Net.a'].ops[2].save is 1: expected true or false"
struct Mismatch
{
    const Json* value; ///< in the document, where its place is looked up
    std::string key; ///< of a member of it; empty: the value itself
    std::string what; ///< "is 1: expected true or false"
};

[[noreturn]] void wrong(const Json& value, std::string what);
[[noreturn]] void wrong(const Json& object, const char* key, std::string what);
[[noreturn]] void expected(const Json& value, const std::string& what); ///< "is …: expected" what

constexpr std::int64_t largest = std::int64_t{1} << 62; ///< number of bytes: sums of two cannot overflow

std::string string(const Json& value);
bool boolean(const Json& value);
std::int64_t integer(const Json& value);
std::int64_t integerFrom(const Json& value, std::int64_t least, std::int64_t most, const std::string& what);
std::int64_t bytes(const Json& value); ///< 0 to `largest`
double number(const Json& value); ///< finite
double notNegative(const Json& value); ///< a finite number

const Json* find(const Json& object, const char* key); ///< null: missing or null
const Json& member(const Json& object, const char* key);

template <class Read>
decltype(auto) at(const Json& object, const char* key, Read&& read)
{
    return read(member(object, key));
}

/// Of a member that may be missing.
template <class Read, class Value>
auto atOr(const Json& object, const char* key, Read&& read, Value otherwise) -> decltype(read(object))
{
    const Json* found = find(object, key);
    return found ? read(*found) : otherwise;
}

const Json& list(const Json& value);
const Json& object(const Json& value);

template <class Read>
auto listOf(Read read)
{
    return [read](const Json& value) {
        std::vector<decltype(read(value))> items;
        items.reserve(list(value).size());
        for (const Json& item : value)
            items.push_back(read(item));
        return items;
    };
}

template <class First, class Second>
auto pairOf(First first, Second second, const char* names)
{
    return [=](const Json& value) {
        if (!value.is_array() || value.size() != 2)
            expected(value, std::string("a pair: ") + names);
        return std::pair(first(value[0]), second(value[1]));
    };
}

template <class Read>
auto mapOf(Read read)
{
    return [read](const Json& value) {
        std::map<std::string, decltype(read(value))> map;
        for (const auto& [key, item] : object(value).items())
            map.emplace(key, read(item));
        return map;
    };
}

/// `source` begins the errors (badInput): no JSON, with line and column; a Mismatch with its place. Python's literals
/// NaN, Infinity and -Infinity, which JSON does not know, are values that are no number.
Result<Json> parse(std::string_view text, const std::string& source);
Error sentence(const Json& document, const Mismatch& mismatch, const std::string& source);

template <class Read>
auto read(std::string_view text, const std::string& source, Read&& read) -> Result<decltype(read(Json()))>
{
    const Result<Json> document = parse(text, source);
    if (!document)
        return document.error();
    try {
        return read(*document);
    } catch (const Mismatch& mismatch) {
        return sentence(*document, mismatch, source);
    }
}

Result<std::string> textOf(const std::filesystem::path& path);

template <class Read>
auto readFile(const std::filesystem::path& path, Read&& reader) -> Result<decltype(reader(Json()))>
{
    const Result<std::string> text = textOf(path);
    if (!text)
        return text.error();
    return read(*text, path.string(), reader);
}

} // namespace headroom::json
