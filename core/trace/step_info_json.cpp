// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/step_info_json.h"

#include "core/base/json_reader.h"
#include "core/base/json_text.h"

namespace headroom {

namespace {

using Json = nlohmann::ordered_json;
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
    visit("remarks", info.remarks);
    visit("settings", info.settings);
    visit("dimensions", info.dimensions);
    visit("arguments", info.arguments);
    visit("policy", info.policy);
    visit("measured", info.measured);
    visit("distributed", info.distributed);
}

/// The same for the process of a distributed job.
template <class Rank, class Visit>
void visitRank(Rank& rank, Visit visit)
{
    visit("world_size", rank.worldSize);
    visit("ranks_per_node", rank.ranksPerNode);
    visit("rank", rank.rank);
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

void read(const json::Json& value, std::string& field)
{
    field = json::string(value);
}

void read(const json::Json& value, bool& field)
{
    field = json::boolean(value);
}

void read(const json::Json& value, std::int64_t& field)
{
    field = json::integer(value);
}

void read(const json::Json& value, double& field)
{
    field = json::number(value);
}

void read(const json::Json& value, std::pair<std::string, std::string>& field)
{
    field = json::pairOf(json::string, json::string, "[setting, value]")(value);
}

void read(const json::Json& value, StepInfo::Dimension& field)
{
    field = {json::at(value, "name", json::string), json::at(value, "value", json::integer),
             json::at(value, "least", json::integer), json::at(value, "most", json::integer)};
}

template <class Item>
void read(const json::Json& value, std::vector<Item>& field)
{
    field = json::listOf([](const json::Json& entry) {
        Item item{};
        read(entry, item);
        return item;
    })(value);
}

void read(const json::Json& value, std::optional<MeasuredStep>& field);
void read(const json::Json& value, std::optional<RankInfo>& field);

template <class Field>
void readIfThere(const json::Json& object, const char* key, Field& field)
{
    if (const json::Json* value = json::find(object, key))
        read(*value, field);
}

void read(const json::Json& value, std::optional<MeasuredStep>& field)
{
    visitMeasured(field.emplace(), [&](const char* key, auto& member) { readIfThere(value, key, member); });
}

void read(const json::Json& value, std::optional<RankInfo>& field)
{
    visitRank(field.emplace(), [&](const char* key, auto& member) { readIfThere(value, key, member); });
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
    return field ? toJson(*field) : Json();
}

Json written(const std::optional<RankInfo>& field)
{
    return field ? toJson(*field) : Json();
}

} // namespace

nlohmann::ordered_json toJson(const MeasuredStep& measured)
{
    Json json = Json::object();
    visitMeasured(measured, [&](const char* key, const auto& member) { json[key] = member; });
    return json;
}

nlohmann::ordered_json toJson(const RankInfo& rank)
{
    Json json = Json::object();
    visitRank(rank, [&](const char* key, const auto& member) { json[key] = member; });
    return json;
}

std::string stepInfoToJson(const StepInfo& info)
{
    Json json = Json::object();
    visitFields(info, [&](const char* key, const auto& field) {
        if (Json value = written(field); !value.is_null())
            json[key] = std::move(value);
    });
    return jsonText(json);
}

Result<StepInfo> stepInfoFromJson(std::string_view text, const std::string& source)
{
    return json::read(text, source, [](const json::Json& document) {
        StepInfo info;
        visitFields(info, [&](const char* key, auto& field) { readIfThere(document, key, field); });
        return info;
    });
}

} // namespace headroom
