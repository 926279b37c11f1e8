// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/step_info_json.h"

#include "core/base/json_reader.h"
#include "core/base/json_text.h"

#include <concepts>
#include <type_traits>

namespace headroom {

namespace {

using Json = nlohmann::ordered_json;

template <class T, class Struct>
concept Is = std::same_as<std::remove_const_t<T>, Struct>;

/// Calls visit(key, member) for every field of a StepInfo, RankInfo or MeasuredStep, const or not. Only the
/// visitFields() functions
/// define the keys.
void visitFields(Is<StepInfo> auto& info, auto visit)
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
    visit("invented_values", info.placeholderValues);
    visit("remarks", info.remarks);
    visit("settings", info.settings);
    visit("dimensions", info.dimensions);
    visit("arguments", info.arguments);
    visit("policy", info.policy);
    visit("measured", info.measured);
    visit("distributed", info.distributed);
}

void visitFields(Is<RankInfo> auto& rank, auto visit)
{
    visit("world_size", rank.worldSize);
    visit("ranks_per_node", rank.ranksPerNode);
    visit("rank", rank.rank);
}

void visitFields(Is<MeasuredStep> auto& measured, auto visit)
{
    visit("step_ms", measured.stepMs);
    visit("busy_ms", measured.busyMs);
    visit("kernel_ms", measured.kernelMs);
    visit("without_op_ms", measured.withoutOpMs);
    visit("span_ms", measured.spanMs);
    visit("overhead_ms", measured.overheadMs);
    visit("synchronization_ms", measured.synchronizationMs);
    visit("cpu_factor", measured.cpuFactor);
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

/// Reads a field, or the fields of a struct. Fields that the document lacks stay unchanged.
template <class Field>
void read(const json::Json& value, Field& field)
{
    if constexpr (std::same_as<Field, std::string>) {
        field = json::string(value);
    } else if constexpr (std::same_as<Field, bool>) {
        field = json::boolean(value);
    } else if constexpr (std::same_as<Field, std::int64_t>) {
        field = json::integer(value);
    } else if constexpr (std::same_as<Field, double>) {
        field = json::number(value);
    } else if constexpr (std::same_as<Field, std::pair<std::string, std::string>>) {
        field = json::pairOf(json::string, json::string, "[setting, value]")(value);
    } else if constexpr (std::same_as<Field, StepInfo::Dimension>) {
        field = {json::at(value, "name", json::string), json::at(value, "value", json::integer),
                 json::at(value, "least", json::integer), json::at(value, "most", json::integer)};
    } else if constexpr (requires { field.emplace(); }) { // std::optional
        read(value, field.emplace());
    } else if constexpr (requires { field.emplace_back(); }) { // std::vector
        for (const json::Json& entry : json::list(value))
            read(entry, field.emplace_back());
    } else {
        visitFields(field, [&](const char* key, auto& member) {
            if (const json::Json* found = json::find(value, key))
                read(*found, member);
        });
    }
}

template <class Field>
Json written(const Field& field)
{
    return field;
}

Json written(const std::vector<StepInfo::Dimension>& field)
{
    Json list = Json::array();
    for (const StepInfo::Dimension& dimension : field)
        list.push_back({{"name", dimension.name},
                        {"value", dimension.value},
                        {"least", dimension.least},
                        {"most", dimension.most}});
    return list;
}

template <class Info>
Json written(const std::optional<Info>& field)
{
    return field ? toJson(*field) : Json();
}

Json writtenFields(const auto& info)
{
    Json json = Json::object();
    visitFields(info, [&](const char* key, const auto& field) {
        if (Json value = written(field); !value.is_null())
            json[key] = std::move(value);
    });
    return json;
}

} // namespace

nlohmann::ordered_json toJson(const MeasuredStep& measured)
{
    return writtenFields(measured);
}

nlohmann::ordered_json toJson(const RankInfo& rank)
{
    return writtenFields(rank);
}

std::string stepInfoToJson(const StepInfo& info)
{
    return jsonText(writtenFields(info));
}

Result<StepInfo> stepInfoFromJson(std::string_view text, const std::string& source)
{
    return json::read(text, source, [](const json::Json& document) {
        StepInfo info;
        read(document, info);
        return info;
    });
}

} // namespace headroom
