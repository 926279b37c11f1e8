// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/settings.h"

#include <algorithm>
#include <charconv>
#include <concepts>
#include <optional>
#include <sstream>

namespace headroom {
namespace {

template <class Value>
std::optional<Value> parse(const std::string& text)
{
    if constexpr (std::same_as<Value, bool>) {
        return text == "true" || text == "false" ? std::optional(text == "true") : std::nullopt;
    } else {
        Value number{};
        const char* end = text.data() + text.size();
        const auto [rest, error] = std::from_chars(text.data(), end, number);
        return error == std::errc() && rest == end ? std::optional(number) : std::nullopt;
    }
}

template <class Value>
std::string shown(const Value& value)
{
    std::ostringstream text;
    text << value;
    return text.str();
}

template <class Range>
std::string joined(const Range& values)
{
    std::string text;
    for (const auto& value : values)
        text += (text.empty() ? "" : ", ") + shown(value);
    return text;
}

} // namespace

SettingsReader::SettingsReader(const Settings& given, std::string model)
    : given_(given)
    , model_(std::move(model))
{
}

template <class Value, class Accepts>
void SettingsReader::read(std::string_view key, Value& value, Accepts accepts, const std::string& expected)
{
    const std::string* text = find(key);
    if (!text)
        return;
    const auto parsed = parse<Value>(*text);
    if (parsed && accepts(*parsed))
        value = *parsed;
    else if (error_.empty())
        error_ = "--set " + std::string(key) + "=" + *text + ": " + model_ + " expects " + expected;
}

void SettingsReader::integer(std::string_view key, std::int64_t& value, std::int64_t least, std::int64_t most)
{
    read(
        key, value, [=](std::int64_t number) { return least <= number && number <= most; },
        "a whole number from " + shown(least) + " to " + shown(most));
}

void SettingsReader::oneOf(std::string_view key, std::int64_t& value, std::span<const std::int64_t> allowed)
{
    read(
        key, value, [=](std::int64_t number) { return std::ranges::find(allowed, number) != allowed.end(); },
        "one of " + joined(allowed));
}

void SettingsReader::number(std::string_view key, double& value, double least, double below)
{
    read(
        key, value, [=](double number) { return least <= number && number < below; },
        "a number from " + shown(least) + " to below " + shown(below));
}

void SettingsReader::flag(std::string_view key, bool& value)
{
    read(
        key, value, [](bool) { return true; }, "true or false");
}

Status SettingsReader::finish() const
{
    for (const auto& [key, value] : given_)
        if (std::ranges::find(known_, key) == known_.end())
            return badInput(model_ + " has no setting '" + key + "'; it has " + joined(known_));
    return error_.empty() ? Status() : badInput(error_);
}

const std::string* SettingsReader::find(std::string_view key)
{
    known_.emplace_back(key);
    const std::string* found = nullptr;
    for (const auto& [name, value] : given_) {
        if (name != key)
            continue;
        if (found && error_.empty())
            error_ = "--set " + name + " is given twice for " + model_ + "; expected a single value";
        found = &value;
    }
    return found;
}

Result<std::int64_t> chosenSize(const std::string& option, std::int64_t asked, std::int64_t standard, std::int64_t most)
{
    if (asked == 0)
        return standard;
    if (asked < 0 || asked > most)
        return badInput(option + " " + shown(asked) + ": expected a whole number from 1 to " + shown(most));
    return asked;
}

Status checkStepSize(const std::string& model, double estimatedBytes)
{
    if (estimatedBytes < 0x1p60)
        return {};
    return badInput(model + ": this step needs more than 2^60 bytes; choose a smaller model or batch");
}

} // namespace headroom
