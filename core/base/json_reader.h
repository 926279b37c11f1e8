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

/// Readers of JSON documents: functions that convert a JSON value to a C++ value. Readers nest, as in `at(document,
/// "inputs", listOf(readInput))`. A reader throws a Mismatch if a value is not as expected; read() converts the
/// Mismatch to an Error.
namespace headroom::json {

using Json = nlohmann::json;

/// The exception for a value that is not as expected. The Error reads "doc.json: modules['Net.a'].ops[2].save is 1:
/// expected true or false".
struct Mismatch
{
    const Json* value; ///< points into the document: the value's path is found from there
    std::string key; ///< the wrong member of `value`; empty: `value` itself is wrong
    std::string what; ///< "is 1: expected true or false"
};

[[noreturn]] void wrong(const Json& value, std::string what);
[[noreturn]] void wrong(const Json& object, const char* key, std::string what);
[[noreturn]] void expected(const Json& value, const std::string& what); ///< throws "is …: expected " + what

constexpr std::int64_t largest = std::int64_t{1} << 62; ///< limit of a number of bytes: a sum of two cannot overflow

std::string string(const Json& value);
bool boolean(const Json& value);
std::int64_t integer(const Json& value);
std::int64_t integerFrom(const Json& value, std::int64_t least, std::int64_t most, const std::string& what);
std::int64_t bytes(const Json& value); ///< 0 to `largest`
double number(const Json& value); ///< finite
double notNegative(const Json& value); ///< a finite number, 0 or more

const Json* find(const Json& object, const char* key); ///< nullptr if the member is missing or null
const Json& member(const Json& object, const char* key); ///< throws if the member is missing

template <class Read>
decltype(auto) at(const Json& object, const char* key, Read&& read)
{
    return read(member(object, key));
}

/// Reads a member; returns `otherwise` if the member is missing or null.
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

/// Parses a document. Errors (badInput) begin with `source` and give the line and column of the syntax error. Python's
/// literals NaN, Infinity and -Infinity, which are not JSON, become a value that no reader of numbers accepts.
Result<Json> parse(std::string_view text, const std::string& source);
/// Converts a Mismatch to an Error that names the place in the document.
Error sentence(const Json& document, const Mismatch& mismatch, const std::string& source);

/// Parses a document and reads the value.
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

/// Limit in bytes of a document that is read as a whole. A parsed document takes some ten times the size of the text.
constexpr std::size_t mostBytes = std::size_t{128} << 20;

/// Returns the content of a file of at most mostBytes. Errors (badInput): as for InputFile.
Result<std::string> textOf(const std::filesystem::path& path);

/// Parses and reads a file.
template <class Read>
auto readFile(const std::filesystem::path& path, Read&& reader) -> Result<decltype(reader(Json()))>
{
    const Result<std::string> text = textOf(path);
    if (!text)
        return text.error();
    return read(*text, path.string(), reader);
}

} // namespace headroom::json
