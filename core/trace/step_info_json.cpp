// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/step_info_json.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace headroom {

namespace {

using Json = nlohmann::ordered_json;
using Settings = std::vector<std::pair<std::string, std::string>>;
using Dimensions = std::vector<StepInfo::Dimension>;

/// Calls visit(key, member) for every field: the one place that names the keys.
template <class Info, class Visit>
void visitFields(Info& info, Visit visit)
{
    visit("source", info.source);
    visit("model", info.model);
    visit("gpu", info.gpu);
    visit("device", info.device);
    visit("torch", info.torch);
    visit("dtype", info.dtype);
    visit("optimizer", info.optimizer);
    visit("loss", info.loss);
    visit("autocast", info.autocast);
    visit("lifetimes", info.lifetimes);
    visit("hold_output", info.holdOutput);
    visit("simulated", info.simulated);
    visit("batch", info.batch);
    visit("sequence", info.sequence);
    visit("steps", info.steps);
    visit("invented_values", info.inventedValues);
    visit("settings", info.settings);
    visit("dimensions", info.dimensions);
    visit("arguments", info.arguments);
    visit("policy", info.policy);
}

bool read(const Json& value, std::string& field)
{
    return value.is_string() && (field = value.get<std::string>(), true);
}

bool read(const Json& value, bool& field)
{
    return value.is_boolean() && (field = value.get<bool>(), true);
}

bool read(const Json& value, std::int64_t& field)
{
    return value.is_number_integer() && (field = value.get<std::int64_t>(), true);
}

bool read(const Json& value, Settings& field)
{
    if (!value.is_array())
        return false;
    for (const Json& entry : value) {
        if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_string())
            return false;
        field.emplace_back(entry[0].get<std::string>(), entry[1].get<std::string>());
    }
    return true;
}

bool read(const Json& value, std::vector<std::string>& field)
{
    if (!value.is_array() || !std::ranges::all_of(value, [](const Json& entry) { return entry.is_string(); }))
        return false;
    field = value.get<std::vector<std::string>>();
    return true;
}

bool read(const Json& value, Dimensions& field)
{
    if (!value.is_array())
        return false;
    for (const Json& entry : value) {
        StepInfo::Dimension dimension;
        const auto member = [&](const char* key, auto& target) {
            const auto found = entry.find(key);
            return found != entry.end() && read(*found, target);
        };
        if (!entry.is_object() || !member("name", dimension.name) || !member("value", dimension.value)
            || !member("least", dimension.least) || !member("most", dimension.most))
            return false;
        field.push_back(std::move(dimension));
    }
    return true;
}

template <class Field>
Json written(const Field& field)
{
    return field;
}

Json written(const Dimensions& field)
{
    Json list = Json::array();
    for (const StepInfo::Dimension& dimension : field)
        list.push_back({{"name", dimension.name},
                        {"value", dimension.value},
                        {"least", dimension.least},
                        {"most", dimension.most}});
    return list;
}

} // namespace

std::string stepInfoToJson(const StepInfo& info)
{
    Json json = Json::object();
    visitFields(info, [&](const char* key, const auto& field) { json[key] = written(field); });
    // A model's name may come from a path that is not UTF-8.
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<StepInfo> stepInfoFromJson(std::string_view text)
{
    const Json json = Json::parse(text, nullptr, false);
    if (!json.is_object())
        return badInput("expected a JSON object");
    StepInfo info;
    std::string wrong;
    visitFields(info, [&](const char* key, auto& field) {
        const auto entry = json.find(key);
        if (entry != json.end() && !read(*entry, field) && wrong.empty())
            wrong = key;
    });
    if (!wrong.empty())
        return badInput("`" + wrong + "` has a value of another type than expected");
    return info;
}

} // namespace headroom
