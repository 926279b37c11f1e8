// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/atomic_write.h"
#include "core/base/json_reader.h"
#include "core/base/json_text.h"
#include "core/policy/policy.h"

#include <algorithm>
#include <limits>
#include <set>

namespace headroom {

namespace {

constexpr Bytes newestVersion = 1;

template <class Items, class TextOf>
std::string list(const Items& items, const TextOf& textOf)
{
    std::string json;
    for (const auto& item : items)
        json += (json.empty() ? "" : ", ") + textOf(item);
    return "[" + json + "]";
}

std::string list(const std::vector<std::string>& texts)
{
    return list(texts, [](const std::string& text) { return jsonText(text); });
}

std::string list(const std::vector<int>& numbers)
{
    return list(numbers, [](int number) { return std::to_string(number); });
}

std::string prefetchText(int prefetch)
{
    return prefetch == Offload::all ? "" : ", \"prefetch\": " + std::to_string(prefetch);
}

/// Nothing for 0, which files of older versions have not.
std::string afterText(int afterUnpacks)
{
    return afterUnpacks == 0 ? "" : "\"after_unpacks\": " + std::to_string(afterUnpacks) + ", ";
}

std::string toJson(const Policy::Moves& moves)
{
    return '{' + afterText(moves.afterUnpacks) + "\"ahead\": " + std::to_string(moves.ahead)
        + prefetchText(moves.prefetch) + ", \"saved\": " + std::to_string(moves.saved)
        + ", \"tensors\": " + list(moves.tensors) + ", \"wait\": " + std::to_string(moves.wait) + "}";
}

std::string toJson(const Offload& hosted, const std::vector<int>& arguments)
{
    return '{' + afterText(hosted.afterUnpacks) + "\"ahead\": " + std::to_string(hosted.ahead)
        + (arguments.empty() ? "" : ", \"arguments\": " + list(arguments)) + prefetchText(hosted.prefetch)
        + ", \"wait\": " + std::to_string(hosted.wait) + "}";
}

std::string toJson(const Policy::Module& module)
{
    std::string json = "    {\n      \"discard_ratio\": " + jsonText(module.discardRatio)
        + ",\n      \"fqn\": " + jsonText(module.fqn)
        + (module.offload      ? ",\n      \"offload\": " + toJson(*module.offload)
               : module.hosted ? ",\n      \"offload\": " + toJson(*module.hosted, module.arguments)
                               : "")
        + ",\n      \"ops\": [";
    const char* separator = "\n        ";
    for (const Policy::Op& op : module.ops) {
        json += separator;
        json += "{\"index\": " + std::to_string(op.index) + (op.offload ? ", \"offload\": true" : "")
            + ", \"op\": " + jsonText(op.op) + ", \"save\": " + (op.save ? "true" : "false") + "}";
        separator = ",\n        ";
    }
    json += module.ops.empty() ? "]" : "\n      ]";
    if (!module.types.empty())
        json += ",\n      \"types\": " + list(module.types);
    return json + "\n    }";
}

/// A member of HeldBytes of each call, as a JSON list.
std::string column(const Policy::Module& module, Bytes HeldBytes::*bytes)
{
    return list(module.held, [bytes](const HeldBytes& held) { return std::to_string(held.*bytes); });
}

std::string heldJson(const Policy::Module& module)
{
    return jsonText(module.fqn) + ": {\"begin\": " + column(module, &HeldBytes::begin) + ", \"end\": "
        + column(module, &HeldBytes::end) + ", \"recompute\": " + column(module, &HeldBytes::again) + "}";
}

/// A line for each module, sorted by name; empty without predictions.
std::string heldJson(const std::vector<Policy::Module>& modules)
{
    std::set<std::string> lines;
    for (const Policy::Module& module : modules)
        if (!module.held.empty())
            lines.insert(heldJson(module));
    std::string json;
    for (const std::string& line : lines)
        json += (json.empty() ? "\"held_bytes\": {\n      " : ",\n      ") + line;
    return json.empty() ? json : json + "\n    }, ";
}

std::string toJson(const Policy::OnCard& card)
{
    return "{\"assumptions\": " + list(card.assumptions) + ", \"capacity_bytes\": " + std::to_string(card.capacity)
        + ", \"least_capacity_bytes\": " + std::to_string(card.leastCapacity) + ", \"left_bytes\": "
        + std::to_string(card.left) + ", \"name\": " + jsonText(card.name) + ", \"reserved_peak_bytes\": "
        + std::to_string(card.reservedPeak) + ", \"runs\": " + (card.runs ? "true" : "false") + "}";
}

std::optional<Policy::OnCard> cardIn(const json::Json& json)
{
    const json::Json* found = json::find(json, "card");
    if (!found)
        return std::nullopt;
    Policy::OnCard card;
    card.name = json::at(*found, "name", json::string);
    card.capacity = json::at(*found, "capacity_bytes", json::bytes);
    card.runs = json::at(*found, "runs", json::boolean);
    card.reservedPeak = json::at(*found, "reserved_peak_bytes", json::bytes);
    card.left = json::at(*found, "left_bytes", json::bytes);
    card.leastCapacity = json::at(*found, "least_capacity_bytes", json::bytes);
    card.assumptions = json::at(*found, "assumptions", json::listOf(json::string));
    return card;
}

constexpr std::int64_t mostOfInt = std::numeric_limits<int>::max();

Policy::Op opIn(const json::Json& json)
{
    Policy::Op op;
    op.op = json::at(json, "op", json::string);
    op.index = static_cast<int>(
        json::integerFrom(json::member(json, "index"), 0, mostOfInt, "the number of a call, 0 or more"));
    op.save = json::at(json, "save", json::boolean);
    op.offload = json::atOr(json, "offload", json::boolean, false);
    if (op.offload && !op.save)
        json::expected(json["offload"], "an op with `save`, since only saved results go to the host");
    return op;
}

int countFrom(const json::Json& json, const char* key, const char* what)
{
    return static_cast<int>(json::integerFrom(json::member(json, key), 0, mostOfInt, what));
}

Offload whenIn(const json::Json& json)
{
    Offload when{countFrom(json, "wait", "a number of calls, 0 or more"),
                 countFrom(json, "ahead", "a number of calls, 0 or more")};
    if (json::find(json, "prefetch"))
        when.prefetch = countFrom(json, "prefetch", "a number of storages, 0 or more");
    if (json::find(json, "after_unpacks"))
        when.afterUnpacks = countFrom(json, "after_unpacks", "a number of tensors, 0 or more");
    return when;
}

/// Ascending numbers, each below `end`.
std::vector<int> numbersIn(const json::Json& json, const char* key, std::int64_t end, const char* what)
{
    const auto number = [](const json::Json& value) {
        return static_cast<int>(json::integerFrom(value, 0, mostOfInt, "a number, 0 or more"));
    };
    std::vector<int> numbers = json::at(json, key, json::listOf(number));
    for (std::size_t i = 0; i < numbers.size(); ++i)
        if (numbers[i] >= end || (i > 0 && numbers[i] <= numbers[i - 1]))
            json::expected(json[key], what);
    return numbers;
}

Policy::Moves movesIn(const json::Json& json)
{
    const Offload when = whenIn(json);
    Policy::Moves moves{when.wait,     when.ahead,       {}, countFrom(json, "saved", "a number of tensors, 0 or more"),
                        when.prefetch, when.afterUnpacks};
    moves.tensors = numbersIn(json, "tensors", moves.saved, "ascending numbers of tensors, each below `saved`");
    return moves;
}

/// The predicted bytes of a module's calls; policies of older versions have none.
std::vector<HeldBytes> heldIn(const json::Json& predicted, const std::string& fqn)
{
    const json::Json* modules = json::find(predicted, "held_bytes");
    const json::Json* calls = modules ? json::find(*modules, fqn.c_str()) : nullptr;
    if (!calls)
        return {};
    const auto column = [&](const char* key) { return json::at(*calls, key, json::listOf(json::bytes)); };
    const std::vector<Bytes> begin = column("begin"), end = column("end"), again = column("recompute");
    if (end.size() != begin.size() || again.size() != begin.size())
        json::wrong(*calls, "begin", "has another length than end or recompute, a number for each call was expected");
    std::vector<HeldBytes> held;
    for (std::size_t call = 0; call < begin.size(); ++call)
        held.push_back({begin[call], end[call], again[call]});
    return held;
}

Policy::Module moduleIn(const json::Json& json)
{
    Policy::Module module;
    module.fqn = json::at(json, "fqn", json::string);
    module.discardRatio = json::at(json, "discard_ratio", json::notNegative);
    if (module.discardRatio > 1)
        json::expected(json["discard_ratio"], "a share from 0 to 1");
    module.types = json::atOr(json, "types", json::listOf(json::string), std::vector<std::string>());
    module.ops = json::at(json, "ops", json::listOf(opIn));
    const json::Json* const offload = json::find(json, "offload");
    const bool hosts = std::ranges::any_of(module.ops, &Policy::Op::offload);
    if (offload && json::find(*offload, "arguments"))
        module.arguments = numbersIn(*offload, "arguments", mostOfInt, "ascending numbers of arguments");
    if (offload && (hosts || !module.arguments.empty()))
        module.hosted = whenIn(*offload);
    else if (offload)
        module.offload = movesIn(*offload);
    else if (hosts)
        json::wrong(json, "has ops with `offload`, but no `offload` that says when results move");
    return module;
}

Policy policyIn(const json::Json& json)
{
    if (!json.is_object() || !json.contains("headroom_policy"))
        json::wrong(json, "is no policy: an object with headroom_policy was expected");
    Policy policy;
    if (json::at(json, "headroom_policy", json::bytes) != newestVersion)
        json::expected(json["headroom_policy"], "version 1: get a newer Headroom to read this policy");
    policy.model = json::at(json, "model", json::string);
    policy.torch = json::at(json, "torch", json::string);
    policy.budget = json::at(json, "budget_bytes", json::bytes);
    policy.worldSize = static_cast<int>(
        json::integerFrom(json::member(json, "world_size"), 1, mostOfInt, "a number of ranks, 1 or more"));
    policy.objects = json::atOr(json, "objects", json::listOf(json::string), std::vector<std::string>());
    policy.objectsLeft = json::atOr(json, "objects_left", json::listOf(json::string), std::vector<std::string>());
    policy.memoryReaders = json::atOr(json, "memory_readers", json::listOf(json::string), std::vector<std::string>());
    policy.allocatorSettings = json::atOr(json, "allocator_settings", json::string, std::string());
    policy.card = cardIn(json);
    const json::Json& predicted = json::member(json, "predicted");
    policy.predicted.peak = json::at(predicted, "peak_bytes", json::bytes);
    policy.predicted.recomputeMs = json::at(predicted, "recompute_ms", json::notNegative);
    policy.predicted.gap = json::at(predicted, "gap", json::notNegative);
    policy.modules = json::at(json, "modules", json::listOf(moduleIn));
    std::set<std::string> names;
    for (Policy::Module& module : policy.modules) {
        if (!names.insert(module.fqn).second)
            json::wrong(json, "modules", "has the module '" + module.fqn + "' twice, once was expected");
        module.held = heldIn(predicted, module.fqn);
    }
    return policy;
}

} // namespace

std::string toJson(const Policy& policy)
{
    std::string json = std::string("{\n")
        + (policy.allocatorSettings.empty() ? ""
                                            : "  \"allocator_settings\": " + jsonText(policy.allocatorSettings) + ",\n")
        + "  \"budget_bytes\": " + std::to_string(policy.budget)
        + (policy.card ? ",\n  \"card\": " + toJson(*policy.card) : "")
        + ",\n  \"headroom_policy\": " + std::to_string(newestVersion)
        + (policy.memoryReaders.empty() ? "" : ",\n  \"memory_readers\": " + list(policy.memoryReaders))
        + ",\n  \"model\": " + jsonText(policy.model) + ",\n  \"modules\": [";
    const char* separator = "\n";
    for (const Policy::Module& module : policy.modules) {
        json += separator + toJson(module);
        separator = ",\n";
    }
    json += policy.modules.empty() ? "],\n" : "\n  ],\n";
    if (!policy.objects.empty())
        json += "  \"objects\": " + list(policy.objects) + ",\n";
    if (!policy.objectsLeft.empty())
        json += "  \"objects_left\": " + list(policy.objectsLeft) + ",\n";
    json += "  \"predicted\": {\"gap\": " + jsonText(policy.predicted.gap) + ", " + heldJson(policy.modules)
        + "\"peak_bytes\": " + std::to_string(policy.predicted.peak)
        + ", \"recompute_ms\": " + jsonText(policy.predicted.recomputeMs) + "},\n";
    json += "  \"torch\": " + jsonText(policy.torch) + ",\n  \"world_size\": " + std::to_string(policy.worldSize)
        + "\n}\n";
    return json;
}

Result<Policy> readPolicy(const std::filesystem::path& path)
{
    return json::readFile(path, policyIn);
}

Status writePolicy(const Policy& policy, const std::filesystem::path& path)
{
    return writeAtomically(path, toJson(policy));
}

} // namespace headroom
