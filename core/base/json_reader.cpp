// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/json_reader.h"

#include "core/base/json_text.h"
#include "core/base/mapped_file.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

namespace headroom::json {
namespace {

constexpr std::size_t mostDepth = 1000; ///< limit of the recursion that searches a value in a document
constexpr std::size_t longestShown = 60; ///< characters of a value that a message quotes

/// Replaces NaN and the infinities in a document. As long as "NaN", so that positions in the text do not change.
constexpr std::string_view notANumber = "\"?\"";

/// Replaces Python's literals NaN, Infinity and -Infinity outside of strings.
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

std::string shown(const Json& value)
{
    if (value.is_structured())
        return value.is_array() ? "a list" : "an object";
    if (value == "?")
        return "NaN or infinite";
    const std::string text = jsonText(value);
    return text.size() <= longestShown ? text : "a long text";
}

/// Returns the part of a place that selects a member: ".name", or "['a name']" if the name is not an identifier.
std::string step(const std::string& key)
{
    const auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
    return std::ranges::all_of(key, plain) ? "." + key : "['" + key + "']";
}

/// Returns the part of a place that selects a list's element: by FQN for a module, otherwise by index.
std::string step(const Json& element, std::size_t index)
{
    const auto name = element.is_object() ? element.find("fqn") : element.end();
    return name != element.end() && name->is_string() ? "['" + name->get<std::string>() + "']"
                                                      : "[" + std::to_string(index) + "]";
}

/// Returns the path from `here` to `wanted`; nullopt: not inside.
std::optional<std::string> place(const Json& here, const Json* wanted, std::size_t depth)
{
    if (&here == wanted)
        return "";
    if (depth == mostDepth || !here.is_structured())
        return std::nullopt;
    std::size_t index = 0;
    for (auto entry = here.begin(); entry != here.end(); ++entry, ++index)
        if (const auto below = place(*entry, wanted, depth + 1))
            return (here.is_array() ? step(*entry, index) : step(entry.key())) + *below;
    return std::nullopt;
}

} // namespace

void wrong(const Json& value, std::string what)
{
    throw Mismatch{&value, "", std::move(what)};
}

void wrong(const Json& object, const char* key, std::string what)
{
    throw Mismatch{&object, key, std::move(what)};
}

void expected(const Json& value, const std::string& what)
{
    wrong(value, "is " + shown(value) + ": expected " + what);
}

std::string string(const Json& value)
{
    if (!value.is_string())
        expected(value, "a text");
    return value.get<std::string>();
}

bool boolean(const Json& value)
{
    if (!value.is_boolean())
        expected(value, "true or false");
    return value.get<bool>();
}

std::int64_t integerFrom(const Json& value, std::int64_t least, std::int64_t most, const std::string& what)
{
    const bool fits = value.is_number_integer()
        && (!value.is_number_unsigned() || value.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max());
    if (!fits || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most)
        expected(value, what);
    return value.get<std::int64_t>();
}

std::int64_t integer(const Json& value)
{
    using Limits = std::numeric_limits<std::int64_t>;
    return integerFrom(value, Limits::min(), Limits::max(), "a whole number below 2^63");
}

std::int64_t bytes(const Json& value)
{
    return integerFrom(value, 0, largest, "a whole number, 0 or more");
}

double number(const Json& value)
{
    if (!value.is_number())
        expected(value, "a number");
    return value.get<double>();
}

double notNegative(const Json& value)
{
    if (!value.is_number() || value.get<double>() < 0)
        expected(value, "a number, 0 or more");
    return value.get<double>();
}

const Json* find(const Json& value, const char* key)
{
    const auto found = object(value).find(key);
    return found == value.end() || found->is_null() ? nullptr : &*found;
}

const Json& member(const Json& value, const char* key)
{
    const auto found = object(value).find(key);
    if (found == value.end())
        wrong(value, key, "is missing");
    return *found;
}

const Json& list(const Json& value)
{
    if (!value.is_array())
        expected(value, "a list");
    return value;
}

const Json& object(const Json& value)
{
    if (!value.is_object())
        expected(value, "an object");
    return value;
}

Result<Json> parse(std::string_view text, const std::string& source)
{
    Json document = Json::parse(text, nullptr, false);
    if (!document.is_discarded())
        return document;
    std::string plain(text);
    replacePythonLiterals(plain);
    try {
        return Json::parse(plain);
    } catch (const Json::parse_error& error) {
        return badInput(source + ": not JSON at " + position(text, error.byte) + ": a JSON document was expected");
    } catch (const Json::out_of_range&) {
        return badInput(source + ": holds a number that is too large");
    }
}

Error sentence(const Json& document, const Mismatch& mismatch, const std::string& source)
{
    std::string where
        = place(document, mismatch.value, 0).value_or("") + (mismatch.key.empty() ? "" : step(mismatch.key));
    if (where.starts_with('.'))
        where.erase(0, 1);
    return badInput(source + ": " + where + (where.empty() ? "" : " ") + mismatch.what);
}

Result<std::string> textOf(const std::filesystem::path& path)
{
    const auto file = InputFile::open(path, mostBytes);
    if (!file)
        return file.error();
    return file->text();
}

} // namespace headroom::json
