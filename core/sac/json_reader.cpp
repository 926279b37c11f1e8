// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/sac/json_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>

namespace headroom {
namespace {

constexpr Bytes largestBytes = Bytes{1} << 62;

/// Stands for NaN and the infinities in a parsed document: as long as "NaN", so that positions in the text stay.
constexpr std::string_view notANumber = "\"?\"";

/// Replaces Python's literals outside of strings.
void replacePythonLiterals(std::string& text)
{
    constexpr std::array<std::string_view, 3> literals{"-Infinity", "Infinity", "NaN"};
    bool inString = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (inString && c == '\\') {
            ++i;
        } else if (c == '"') {
            inString = !inString;
        } else if (!inString && (c == 'N' || c == 'I' || c == '-')) {
            const auto literal = std::ranges::find_if(
                literals, [&](std::string_view word) { return text.compare(i, word.size(), word) == 0; });
            if (literal == literals.end())
                continue;
            std::string replacement(notANumber);
            replacement.resize(literal->size(), ' ');
            text.replace(i, literal->size(), replacement);
            i += literal->size() - 1;
        }
    }
}

std::string position(std::string_view text, std::size_t offset)
{
    const std::string_view before = text.substr(0, std::min(offset, text.size()));
    const auto line = 1 + std::ranges::count(before, '\n');
    const std::size_t lineBegin = before.rfind('\n');
    const std::size_t column = lineBegin == std::string_view::npos ? before.size() : before.size() - lineBegin - 1;
    return "line " + std::to_string(line) + ", column " + std::to_string(std::max<std::size_t>(column, 1));
}

std::string element(const char* key, std::size_t index)
{
    return std::string(key) + "[" + std::to_string(index) + "]";
}

std::string typeOf(const Json& value)
{
    return value.is_object() ? "an object"
        : value.is_array()   ? "a list"
        : value.is_string()  ? "a string"
        : value.is_boolean() ? "true or false"
        : value.is_number()  ? "a number"
                             : "null";
}

bool isNotANumber(const Json& value)
{
    return value.is_null() || (value.is_string() && value.get_ref<const std::string&>() == "?");
}

} // namespace

Result<Json> parsePythonJson(std::string_view text, std::string_view sourceName)
{
    std::string source(text);
    replacePythonLiterals(source);
    try {
        return Json::parse(source);
    } catch (const nlohmann::json::parse_error& error) {
        return badInput(std::string(sourceName) + ": not JSON at " + position(text, error.byte)
                        + ": a JSON document was expected");
    } catch (const nlohmann::json::out_of_range&) {
        return badInput(std::string(sourceName) + ": holds a number that is too large");
    }
}

Result<std::string> readTextFile(const std::filesystem::path& path)
{
    std::error_code failure;
    if (std::filesystem::is_directory(path, failure))
        return badInput(path.string() + ": is a folder, a JSON file was expected");
    std::ifstream file(path, std::ios::binary);
    if (!file)
        return badInput(path.string() + ": cannot be opened; check that the file exists and may be read");
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (file.bad())
        return badInput(path.string() + ": cannot be read");
    return text;
}

JsonObjectReader::JsonObjectReader(const Json& object, std::string where)
    : object_(object)
    , where_(std::move(where))
{
    if (!object_.is_object())
        error_ = badInput(where_ + ": is " + typeOf(object_) + ", an object was expected");
}

void JsonObjectReader::fail(std::string_view key, std::string_view what)
{
    if (!error_)
        error_ = badInput(where_ + ", field '" + std::string(key) + "' " + std::string(what));
}

Status JsonObjectReader::status() const
{
    return error_ ? Status(*error_) : Status();
}

const Json* JsonObjectReader::field(const char* key)
{
    if (error_)
        return nullptr;
    const auto found = object_.find(key);
    if (found == object_.end()) {
        fail(key, "is missing");
        return nullptr;
    }
    return &*found;
}

const Json* JsonObjectReader::array(const char* key, std::string_view elements)
{
    const Json* value = field(key);
    if (value && !value->is_array()) {
        fail(key, "is " + typeOf(*value) + ", a list of " + std::string(elements) + " was expected");
        return nullptr;
    }
    return value;
}

bool JsonObjectReader::number(const std::string& key, const Json& value, double& result)
{
    if (isNotANumber(value)) {
        fail(key, "is not a finite number (NaN, Infinity or null)");
        return false;
    }
    if (!value.is_number()) {
        fail(key, "is " + typeOf(value) + ", a number was expected");
        return false;
    }
    result = value.get<double>();
    return true;
}

bool JsonObjectReader::integer(const std::string& key, const Json& value, Bytes minimum, Bytes& result)
{
    double asNumber = 0;
    if (!number(key, value, asNumber))
        return false;
    if (!value.is_number_integer()) {
        fail(key, "is not a whole number");
        return false;
    }
    if (asNumber > static_cast<double>(largestBytes) || asNumber < -static_cast<double>(largestBytes)) {
        fail(key, "is too large");
        return false;
    }
    const Bytes bytes = value.get<Bytes>();
    if (bytes < minimum) {
        fail(key, "is negative");
        return false;
    }
    result = bytes;
    return true;
}

bool JsonObjectReader::index(const std::string& key, const Json& value, std::size_t count, int& result)
{
    Bytes position = 0;
    if (!integer(key, value, 0, position))
        return false;
    if (position >= static_cast<Bytes>(count)) {
        fail(key,
             "is " + std::to_string(position) + ", an op below " + std::to_string(count)
                 + " (the length of func_names) was expected");
        return false;
    }
    result = static_cast<int>(position);
    return true;
}

template <class T, class Read>
void JsonObjectReader::readList(const char* key, std::string_view elements, std::vector<T>& values, Read read)
{
    const Json* list = array(key, elements);
    if (!list)
        return;
    values.clear();
    values.reserve(list->size());
    for (std::size_t i = 0; i < list->size(); ++i) {
        T value{};
        if (!read(element(key, i), (*list)[i], value))
            return;
        values.push_back(std::move(value));
    }
}

void JsonObjectReader::readBytes(const char* key, Bytes& value)
{
    if (const Json* found = field(key))
        integer(key, *found, 0, value);
}

void JsonObjectReader::readSignedBytes(const char* key, Bytes& value)
{
    if (const Json* found = field(key))
        integer(key, *found, -largestBytes, value);
}

void JsonObjectReader::readMs(const char* key, double& value)
{
    const Json* found = field(key);
    if (found && number(key, *found, value) && value < 0)
        fail(key, "is negative");
}

void JsonObjectReader::readBool(const char* key, bool& value)
{
    const Json* found = field(key);
    if (!found)
        return;
    if (found->is_boolean())
        value = found->get<bool>();
    else
        fail(key, "is " + typeOf(*found) + ", true or false was expected");
}

void JsonObjectReader::readString(const char* key, std::string& value)
{
    const Json* found = field(key);
    if (!found)
        return;
    if (found->is_string())
        value = found->get<std::string>();
    else
        fail(key, "is " + typeOf(*found) + ", a string was expected");
}

void JsonObjectReader::readNumbers(const char* key, std::vector<double>& values)
{
    readList(key, "numbers", values,
             [this](const std::string& name, const Json& json, double& value) { return number(name, json, value); });
}

void JsonObjectReader::readMsList(const char* key, std::vector<double>& values)
{
    readList(key, "numbers", values, [this](const std::string& name, const Json& json, double& value) {
        if (!number(name, json, value))
            return false;
        if (value < 0)
            fail(name, "is negative");
        return ok();
    });
}

void JsonObjectReader::readBytesList(const char* key, std::vector<Bytes>& values)
{
    readList(key, "whole numbers", values,
             [this](const std::string& name, const Json& json, Bytes& value) { return integer(name, json, 0, value); });
}

void JsonObjectReader::readStrings(const char* key, std::vector<std::string>& values)
{
    readList(key, "strings", values, [this](const std::string& name, const Json& json, std::string& value) {
        if (!json.is_string()) {
            fail(name, "is " + typeOf(json) + ", a string was expected");
            return false;
        }
        value = json.get<std::string>();
        return true;
    });
}

void JsonObjectReader::readIndices(const char* key, std::size_t count, std::vector<int>& values)
{
    readList(key, "ops", values, [this, count](const std::string& name, const Json& json, int& value) {
        return index(name, json, count, value);
    });
}

void JsonObjectReader::readIndexPairs(const char* key, std::size_t count, std::vector<std::pair<int, int>>& values)
{
    readList(key, "pairs of ops", values,
             [this, count](const std::string& name, const Json& json, std::pair<int, int>& value) {
                 if (!json.is_array() || json.size() != 2) {
                     fail(name, "is not a pair: [op, parent] was expected");
                     return false;
                 }
                 return index(name, json[0], count, value.first) && index(name, json[1], count, value.second);
             });
}

void JsonObjectReader::readCurve(const char* key, std::vector<std::pair<double, double>>& values)
{
    using Point = std::pair<double, double>;
    const Json* curve = field(key);
    if (!curve)
        return;
    if (!curve->is_object()) {
        readList(key, "pairs of numbers", values, [this](const std::string& name, const Json& json, Point& value) {
            if (!json.is_array() || json.size() != 2) {
                fail(name, "is not a pair: [share of memory, share of time] was expected");
                return false;
            }
            return number(name, json[0], value.first) && number(name, json[1], value.second);
        });
        return;
    }
    values.clear();
    for (const auto& [share, time] : curve->items()) {
        Point point;
        const auto [end, failure] = std::from_chars(share.data(), share.data() + share.size(), point.first);
        if (failure != std::errc() || end != share.data() + share.size() || !std::isfinite(point.first))
            return fail(key, "has the key '" + share + "', a number was expected");
        if (!number(std::string(key) + "['" + share + "']", time, point.second))
            return;
        values.push_back(point);
    }
}

} // namespace headroom
