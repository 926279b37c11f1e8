// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/sac/module_info.h"

#include "core/sac/json_reader.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>

namespace headroom {
namespace {

using Names = std::vector<std::string>;

struct OrderField
{
    const char* key;
    Names ModuleInfo::*names;
    bool complete; ///< every module has its place in it: PyTorch's parse_module_info looks it up
};
constexpr std::array<OrderField, 4> orderFields{{{"fw_pre_order", &ModuleInfo::fwPreOrder, true},
                                                 {"bw_pre_order", &ModuleInfo::bwPreOrder, false},
                                                 {"fw_post_order", &ModuleInfo::fwPostOrder, true},
                                                 {"bw_post_order", &ModuleInfo::bwPostOrder, false}}};

struct BytesField
{
    const char* key;
    Bytes ModuleStats::*bytes;
};
constexpr std::array<BytesField, 9> bytesFields{{{"param_per_module", &ModuleStats::paramBytes},
                                                 {"grad_per_module", &ModuleStats::gradBytes},
                                                 {"grad_total", &ModuleStats::gradTotal},
                                                 {"act_fw_per_module", &ModuleStats::activationForward},
                                                 {"act_bw_per_module", &ModuleStats::activationBackward},
                                                 {"act_grad_per_module", &ModuleStats::activationGrad},
                                                 {"act_total", &ModuleStats::activationTotal},
                                                 {"input_per_module", &ModuleStats::inputBytes},
                                                 {"output_per_module", &ModuleStats::outputBytes}}};

/// PyTorch's own fit is NaN when a module has a single op to recompute.
constexpr std::string_view noFit = "is not a finite number: PyTorch's fit gives NaN for a module with a single op to "
                                   "recompute; remove the module or give it one segment";

void readTradeOff(JsonObjectReader& fields, const Json& json, ModuleStats& stats)
{
    for (const char* key : {"slopes", "intercepts"}) {
        const auto list = json.find(key);
        if (list == json.end() || !list->is_array())
            continue;
        for (const Json& value : *list) {
            if (value.is_null() || value == "?")
                fields.fail(key, noFit);
        }
    }
    Bytes segments = 0;
    fields.readBytes("n_segments", segments);
    fields.readNumbers("slopes", stats.slopes);
    fields.readNumbers("intercepts", stats.intercepts);
    fields.readNumbers("breakpoints", stats.breakpoints);
    fields.readCurve("tradeoff_curve", stats.tradeoffCurve);
    if (!fields.ok())
        return;
    const auto count = static_cast<std::size_t>(segments);
    const std::string expected = " as many as n_segments (" + std::to_string(segments) + ") were expected";
    if (stats.slopes.size() != count)
        fields.fail("slopes", "has " + std::to_string(stats.slopes.size()) + " elements," + expected);
    if (stats.intercepts.size() != count)
        fields.fail("intercepts", "has " + std::to_string(stats.intercepts.size()) + " elements," + expected);
    if (stats.breakpoints.size() != (count == 0 ? 0 : count + 1))
        fields.fail("breakpoints",
                    "has " + std::to_string(stats.breakpoints.size()) + " elements, one more than n_segments ("
                        + std::to_string(segments) + ") were expected");
    if (!std::ranges::is_sorted(stats.breakpoints))
        fields.fail("breakpoints", "is not ascending");
    if (!stats.isLeaf && count == 0)
        fields.fail("n_segments", "is 0, at least one segment was expected of a module that is no leaf");
}

Status readStats(const Json& json, const std::string& source, std::size_t index, ModuleStats& stats)
{
    const std::string place = source + ": mod_stats[" + std::to_string(index) + "]";
    JsonObjectReader name(json, place);
    name.readString("fqn", stats.fqn);
    if (stats.fqn.empty())
        name.fail("fqn", "is empty");
    if (!name.ok())
        return name.status();
    JsonObjectReader fields(json, source + ": module '" + stats.fqn + "'");
    for (const BytesField& field : bytesFields) {
        // The peak of a module's backward can hold fewer temporaries than its begin, when gradients make up for them.
        if (field.bytes == &ModuleStats::activationGrad)
            fields.readSignedBytes(field.key, stats.*field.bytes);
        else
            fields.readBytes(field.key, stats.*field.bytes);
    }
    fields.readMs("fw_runtime_per_module", stats.forwardMs);
    fields.readMs("bw_runtime_per_module", stats.backwardMs);
    fields.readBool("is_leaf", stats.isLeaf);
    fields.readMs("sac_runtime", stats.sacRuntimeMs);
    fields.readBytes("sac_memory", stats.sacMemory);
    readTradeOff(fields, json, stats);
    return fields.status();
}

Status checkOrders(const ModuleInfo& info, const std::string& source)
{
    std::unordered_set<std::string_view> known;
    for (const ModuleStats& stats : info.stats) {
        if (!known.insert(stats.fqn).second)
            return badInput(source + ": module '" + stats.fqn + "' is in mod_stats twice, once was expected");
    }
    for (const OrderField& order : orderFields) {
        std::unordered_set<std::string_view> named;
        for (const std::string& fqn : info.*order.names) {
            if (!known.contains(fqn))
                return badInput(source + ": mod_order." + order.key + " names the module '" + fqn
                                + "', which mod_stats does not have");
            named.insert(fqn);
        }
        if (!order.complete || named.size() == known.size())
            continue;
        const auto missing
            = std::ranges::find_if(info.stats, [&](const ModuleStats& stats) { return !named.contains(stats.fqn); });
        return badInput(source + ": mod_order." + order.key + " lacks the module '" + missing->fqn
                        + "' of mod_stats: every module's place in forward was expected");
    }
    return {};
}

} // namespace

Result<ModuleInfo> parseModuleInfo(std::string_view text, std::string_view sourceName)
{
    const std::string source(sourceName);
    const Result<Json> document = parsePythonJson(text, sourceName);
    if (!document.ok())
        return document.error();
    if (!document->is_object() || !document->contains("mod_order") || !document->contains("mod_stats"))
        return badInput(source + ": is no ModuleInfo document: an object with mod_order and mod_stats was expected");

    ModuleInfo info;
    JsonObjectReader orders((*document)["mod_order"], source + ": mod_order");
    for (const OrderField& order : orderFields)
        orders.readStrings(order.key, info.*order.names);
    if (!orders.ok())
        return orders.status().error();

    const Json& stats = (*document)["mod_stats"];
    if (!stats.is_array() || stats.empty())
        return badInput(source
                        + ": mod_stats is empty or no list: the statistics of at least one module were expected");
    info.stats.resize(stats.size());
    for (std::size_t i = 0; i < stats.size(); ++i) {
        if (const Status status = readStats(stats[i], source, i, info.stats[i]); !status.ok())
            return status.error();
    }
    if (const Status status = checkOrders(info, source); !status.ok())
        return status.error();
    return info;
}

Result<ModuleInfo> readModuleInfo(const std::filesystem::path& path)
{
    const Result<std::string> text = readTextFile(path);
    if (!text.ok())
        return text.error();
    return parseModuleInfo(*text, path.string());
}

std::string toJson(const ModuleInfo& info)
{
    Json document;
    for (const OrderField& order : orderFields)
        document["mod_order"][order.key] = info.*order.names;
    Json& list = document["mod_stats"] = Json::array();
    for (const ModuleStats& stats : info.stats) {
        Json json;
        json["fqn"] = stats.fqn;
        for (const BytesField& field : bytesFields)
            json[field.key] = stats.*field.bytes;
        json["fw_runtime_per_module"] = stats.forwardMs;
        json["bw_runtime_per_module"] = stats.backwardMs;
        json["is_leaf"] = stats.isLeaf;
        json["sac_runtime"] = stats.sacRuntimeMs;
        json["sac_memory"] = stats.sacMemory;
        json["n_segments"] = stats.slopes.size();
        json["slopes"] = stats.slopes;
        json["intercepts"] = stats.intercepts;
        json["breakpoints"] = stats.breakpoints;
        json["tradeoff_curve"] = stats.tradeoffCurve;
        list.push_back(std::move(json));
    }
    return document.dump(2, ' ', false, Json::error_handler_t::replace);
}

Baseline baseline(const ModuleInfo& info)
{
    Baseline result;
    if (info.stats.empty())
        return result;
    const ModuleStats& root = info.stats.front();
    for (const ModuleStats& stats : info.stats)
        result.peak
            = std::max(result.peak, root.paramBytes + stats.gradTotal + stats.activationGrad + stats.activationTotal);
    result.computeMs = root.forwardMs + root.backwardMs;
    return result;
}

} // namespace headroom
