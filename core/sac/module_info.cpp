// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/sac/module_info.h"

#include "core/base/json_reader.h"
#include "core/base/json_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <unordered_set>

namespace headroom {
namespace {

using Names = std::vector<std::string>;

struct OrderField
{
    const char* key;
    Names ModuleInfo::*names;
    bool complete; ///< every module is in the list: PyTorch's parse_module_info looks every module up
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
double fitted(const json::Json& value)
{
    if (!value.is_number())
        json::expected(value,
                       "a number: PyTorch's fit gives NaN for a module with a single op to recompute; remove the "
                       "module, or set n_segments to 1");
    return value.get<double>();
}

/// A list of pairs, or an object with numbers as keys, as Python writes an OrderedDict of floats.
std::vector<std::pair<double, double>> curveIn(const json::Json& curve)
{
    if (!curve.is_object())
        return json::listOf(json::pairOf(json::number, json::number, "[share of memory, share of time]"))(curve);
    std::vector<std::pair<double, double>> points;
    for (const auto& [share, time] : curve.items()) {
        double number = 0;
        const auto [end, failure] = std::from_chars(share.data(), share.data() + share.size(), number);
        if (failure != std::errc() || end != share.data() + share.size() || !std::isfinite(number))
            json::wrong(curve, "has the key '" + share + "', a number was expected");
        points.emplace_back(number, json::number(time));
    }
    std::ranges::sort(points);
    return points;
}

void readTradeOff(const json::Json& module, ModuleStats& stats)
{
    const std::int64_t segments = json::at(module, "n_segments", json::bytes);
    const auto count = static_cast<std::size_t>(segments);
    const auto numbers = [&](const char* key, const auto& read, std::size_t wanted, const char* than) {
        std::vector<double> list = json::at(module, key, json::listOf(read));
        if (list.size() != wanted)
            json::wrong(module, key,
                        "has " + std::to_string(list.size()) + " elements, " + than + " n_segments ("
                            + std::to_string(segments) + ") were expected");
        return list;
    };
    stats.slopes = numbers("slopes", fitted, count, "as many as");
    stats.intercepts = numbers("intercepts", fitted, count, "as many as");
    stats.breakpoints = numbers("breakpoints", json::number, count == 0 ? 0 : count + 1, "one more than");
    stats.tradeoffCurve = json::at(module, "tradeoff_curve", curveIn);
    if (!std::ranges::is_sorted(stats.breakpoints))
        json::wrong(module, "breakpoints", "is not ascending");
    if (!stats.isLeaf && count == 0)
        json::wrong(module, "n_segments", "is 0: expected at least 1 for a module with children");
}

ModuleStats moduleStatsIn(const json::Json& module)
{
    ModuleStats stats;
    stats.fqn = json::at(module, "fqn", json::string);
    if (stats.fqn.empty())
        json::wrong(module, "fqn", "is empty");
    for (const BytesField& field : bytesFields) {
        // The peak of a module's backward can hold fewer temporaries than the begin, when gradients make up for the
        // difference.
        const bool isSigned = field.bytes == &ModuleStats::activationGrad;
        stats.*field.bytes
            = json::integerFrom(json::member(module, field.key), isSigned ? -json::largest : 0, json::largest,
                                isSigned ? "a whole number of bytes" : "a whole number, 0 or more");
    }
    stats.forwardMs = json::at(module, "fw_runtime_per_module", json::notNegative);
    stats.backwardMs = json::at(module, "bw_runtime_per_module", json::notNegative);
    stats.isLeaf = json::at(module, "is_leaf", json::boolean);
    stats.sacRuntimeMs = json::at(module, "sac_runtime", json::notNegative);
    stats.sacMemory = json::at(module, "sac_memory", json::bytes);
    readTradeOff(module, stats);
    return stats;
}

void checkOrders(const ModuleInfo& info, const json::Json& document)
{
    std::unordered_set<std::string_view> known;
    for (const ModuleStats& stats : info.stats)
        if (!known.insert(stats.fqn).second)
            json::wrong(document, "mod_stats", "has the module '" + stats.fqn + "' twice, once was expected");
    for (const OrderField& order : orderFields) {
        std::unordered_set<std::string_view> named;
        for (const std::string& fqn : info.*order.names) {
            if (!known.contains(fqn))
                json::wrong(document["mod_order"], order.key,
                            "names the module '" + fqn + "', but mod_stats has no such module");
            named.insert(fqn);
        }
        if (!order.complete || named.size() == known.size())
            continue;
        const auto missing
            = std::ranges::find_if(info.stats, [&](const ModuleStats& stats) { return !named.contains(stats.fqn); });
        json::wrong(document["mod_order"], order.key,
                    "lacks the module '" + missing->fqn
                        + "' of mod_stats: every module's place in forward was expected");
    }
}

ModuleInfo infoIn(const json::Json& document)
{
    if (!document.is_object() || !document.contains("mod_order") || !document.contains("mod_stats"))
        json::wrong(document, "is no ModuleInfo document: an object with mod_order and mod_stats was expected");
    ModuleInfo info;
    for (const OrderField& order : orderFields)
        info.*order.names = json::at(document["mod_order"], order.key, json::listOf(json::string));
    info.stats = json::at(document, "mod_stats", json::listOf(moduleStatsIn));
    if (info.stats.empty())
        json::wrong(document, "mod_stats", "is empty: expected the statistics of a module or more");
    checkOrders(info, document);
    return info;
}

} // namespace

Result<ModuleInfo> parseModuleInfo(std::string_view text, std::string_view sourceName)
{
    return json::read(text, std::string(sourceName), infoIn);
}

Result<ModuleInfo> readModuleInfo(const std::filesystem::path& path)
{
    return json::readFile(path, infoIn);
}

std::string toJson(const ModuleInfo& info)
{
    nlohmann::ordered_json document;
    for (const OrderField& order : orderFields)
        document["mod_order"][order.key] = info.*order.names;
    auto& list = document["mod_stats"] = nlohmann::ordered_json::array();
    for (const ModuleStats& stats : info.stats) {
        nlohmann::ordered_json json;
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
    return jsonText(document, 2);
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
