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
    visit("measured", info.measured);
}

/// The same for what a real device showed.
template <class Measured, class Visit>
void visitMeasured(Measured& measured, Visit visit)
{
    visit("step_ms", measured.stepMs);
    visit("busy_ms", measured.busyMs);
    visit("kernel_ms", measured.kernelMs);
    visit("without_op_ms", measured.withoutOpMs);
    visit("span_ms", measured.spanMs);
    visit("overhead_ms", measured.overheadMs);
    visit("synchronization_ms", measured.synchronizationMs);
    visit("kernels", measured.kernels);
    visit("ops_without_kernel", measured.opsWithoutKernel);
    visit("dropped_records", measured.droppedRecords);
    visit("allocated_peak_bytes", measured.allocatedPeak);
    visit("active_peak_bytes", measured.activePeak);
    visit("reserved_peak_bytes", measured.reservedPeak);
    visit("requested_peak_bytes", measured.requestedPeak);
    visit("non_pytorch_bytes", measured.nonPyTorch);
    visit("module_ms", measured.moduleMs);
    visit("notes", measured.notes);
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

bool read(const Json& value, double& field)
{
    return value.is_number() && (field = value.get<double>(), true);
}

bool read(const Json& value, std::vector<double>& field)
{
    if (!value.is_array() || !std::ranges::all_of(value, [](const Json& entry) { return entry.is_number(); }))
        return false;
    field = value.get<std::vector<double>>();
    return true;
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

bool read(const Json& value, std::optional<MeasuredStep>& field)
{
    if (value.is_null())
        return true;
    if (!value.is_object())
        return false;
    bool right = true;
    visitMeasured(field.emplace(), [&](const char* key, auto& member) {
        const auto entry = value.find(key);
        right = right && (entry == value.end() || read(*entry, member));
    });
    return right;
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

Json written(const std::optional<MeasuredStep>& field)
{
    if (!field)
        return nullptr;
    Json json = Json::object();
    visitMeasured(*field, [&](const char* key, const auto& member) { json[key] = member; });
    return json;
}

} // namespace

std::string stepInfoToJson(const StepInfo& info)
{
    Json json = Json::object();
    visitFields(info, [&](const char* key, const auto& field) {
        if (Json value = written(field); !value.is_null())
            json[key] = std::move(value);
    });
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
