// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/atomic_write.h"
#include "core/policy/policy.h"
#include "core/sac/json_reader.h"

#include <limits>
#include <set>

namespace headroom {

namespace {

constexpr Bytes newestVersion = 1;

/// A value on one line.
std::string text(const nlohmann::json& value)
{
    return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string list(const std::vector<std::string>& texts)
{
    std::string json;
    for (const std::string& item : texts)
        json += (json.empty() ? "" : ", ") + text(item);
    return "[" + json + "]";
}

std::string toJson(const Policy::Module& module)
{
    std::string json = "    {\n      \"discard_ratio\": " + text(module.discardRatio)
        + ",\n      \"fqn\": " + text(module.fqn) + ",\n      \"ops\": [";
    const char* separator = "\n        ";
    for (const Policy::Op& op : module.ops) {
        json += separator;
        json += "{\"index\": " + std::to_string(op.index) + ", \"op\": " + text(op.op)
            + ", \"save\": " + (op.save ? "true" : "false") + "}";
        separator = ",\n        ";
    }
    json += module.ops.empty() ? "]" : "\n      ]";
    if (!module.types.empty())
        json += ",\n      \"types\": " + list(module.types);
    return json + "\n    }";
}

/// By call, of what HeldBytes has in one of its members.
std::string column(const Policy::Module& module, Bytes HeldBytes::*bytes)
{
    std::string json;
    for (const HeldBytes& held : module.held)
        json += (json.empty() ? "" : ", ") + std::to_string(held.*bytes);
    return "[" + json + "]";
}

std::string heldJson(const Policy::Module& module)
{
    return text(module.fqn) + ": {\"begin\": " + column(module, &HeldBytes::begin) + ", \"end\": "
        + column(module, &HeldBytes::end) + ", \"recompute\": " + column(module, &HeldBytes::again) + "}";
}

/// One module a line, in the order of their names; empty when nothing is known of any.
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

/// A field that must be there, of the wanted kind.
const Json* child(const Json& object, const char* key, bool (Json::*kind)() const noexcept)
{
    const auto found = object.find(key);
    return found != object.end() && ((*found).*kind)() ? &*found : nullptr;
}

Status readOp(const Json& json, const std::string& where, Policy::Op& op)
{
    JsonObjectReader fields(json, where);
    Bytes index = 0;
    fields.readString("op", op.op);
    fields.readBytes("index", index);
    fields.readBool("save", op.save);
    if (index > std::numeric_limits<int>::max())
        fields.fail("index", "is larger than any op count");
    op.index = static_cast<int>(index);
    return fields.status();
}

/// What is predicted of one module's calls; policies of older versions do not say.
Status readHeld(const Json& predicted, const std::string& source, Policy::Module& module)
{
    const Json* modules = child(predicted, "held_bytes", &Json::is_object);
    if (modules == nullptr || !modules->contains(module.fqn))
        return {};
    JsonObjectReader fields((*modules)[module.fqn], source + ": held_bytes of module '" + module.fqn + "'");
    std::vector<Bytes> begin, end, again;
    fields.readBytesList("begin", begin);
    fields.readBytesList("end", end);
    fields.readBytesList("recompute", again);
    if (end.size() != begin.size() || again.size() != begin.size())
        fields.fail("begin", "has another length than end or recompute, a number for each call was expected");
    if (!fields.ok())
        return fields.status();
    for (std::size_t call = 0; call < begin.size(); ++call)
        module.held.push_back({begin[call], end[call], again[call]});
    return {};
}

Status readModule(const Json& json, const std::string& source, std::size_t index, Policy::Module& module)
{
    JsonObjectReader fields(json, source + ": modules[" + std::to_string(index) + "]");
    fields.readString("fqn", module.fqn);
    fields.readMs("discard_ratio", module.discardRatio);
    if (json.contains("types"))
        fields.readStrings("types", module.types);
    if (module.discardRatio > 1)
        fields.fail("discard_ratio", "is larger than 1, a share from 0 to 1 was expected");
    if (!fields.ok())
        return fields.status();
    const std::string where = source + ": module '" + module.fqn + "'";
    const Json* ops = child(json, "ops", &Json::is_array);
    if (ops == nullptr)
        return badInput(where + ": ops is missing or no list, a list of ops was expected");
    for (const Json& op : *ops) {
        const std::string place = where + ": ops[" + std::to_string(module.ops.size()) + "]";
        if (const Status status = readOp(op, place, module.ops.emplace_back()); !status)
            return status;
    }
    return {};
}

Status readHead(const Json& json, const std::string& source, Policy& policy)
{
    JsonObjectReader fields(json, source);
    Bytes version = 0;
    Bytes worldSize = 1;
    fields.readBytes("headroom_policy", version);
    if (fields.ok() && version > newestVersion)
        return badInput(source + ": is a policy of version " + std::to_string(version)
                        + ", this Headroom reads version 1: get a newer Headroom");
    if (fields.ok() && version < 1)
        fields.fail("headroom_policy", "is 0, version 1 was expected");
    fields.readString("model", policy.model);
    fields.readString("torch", policy.torch);
    fields.readBytes("budget_bytes", policy.budget);
    fields.readBytes("world_size", worldSize);
    if (worldSize < 1 || worldSize > std::numeric_limits<int>::max())
        fields.fail("world_size", "is out of range, 1 or more was expected");
    policy.worldSize = static_cast<int>(worldSize);
    if (json.contains("objects"))
        fields.readStrings("objects", policy.objects);
    if (!fields.ok())
        return fields.status();
    const Json* predicted = child(json, "predicted", &Json::is_object);
    if (predicted == nullptr)
        return badInput(source + ": predicted is missing or no object, peak_bytes, recompute_ms and gap were expected");
    JsonObjectReader promise(*predicted, source + ": predicted");
    promise.readBytes("peak_bytes", policy.predicted.peak);
    promise.readMs("recompute_ms", policy.predicted.recomputeMs);
    promise.readMs("gap", policy.predicted.gap);
    return promise.status();
}

} // namespace

std::string toJson(const Policy& policy)
{
    std::string json = "{\n  \"budget_bytes\": " + std::to_string(policy.budget) + ",\n  \"headroom_policy\": "
        + std::to_string(newestVersion) + ",\n  \"model\": " + text(policy.model) + ",\n  \"modules\": [";
    const char* separator = "\n";
    for (const Policy::Module& module : policy.modules) {
        json += separator + toJson(module);
        separator = ",\n";
    }
    json += policy.modules.empty() ? "],\n" : "\n  ],\n";
    if (!policy.objects.empty())
        json += "  \"objects\": " + list(policy.objects) + ",\n";
    json += "  \"predicted\": {\"gap\": " + text(policy.predicted.gap) + ", " + heldJson(policy.modules)
        + "\"peak_bytes\": " + std::to_string(policy.predicted.peak)
        + ", \"recompute_ms\": " + text(policy.predicted.recomputeMs) + "},\n";
    json += "  \"torch\": " + text(policy.torch) + ",\n  \"world_size\": " + std::to_string(policy.worldSize) + "\n}\n";
    return json;
}

Result<Policy> readPolicy(const std::filesystem::path& path)
{
    const Result<std::string> content = readTextFile(path);
    if (!content)
        return content.error();
    const std::string source = path.string();
    const Result<Json> json = parsePythonJson(*content, source);
    if (!json)
        return json.error();
    if (!json->is_object() || !json->contains("headroom_policy"))
        return badInput(source + ": is no policy: an object with headroom_policy was expected");
    Policy policy;
    if (const Status status = readHead(*json, source, policy); !status)
        return status.error();
    const Json* modules = child(*json, "modules", &Json::is_array);
    if (modules == nullptr)
        return badInput(source + ": modules is missing or no list, a list of modules was expected");
    std::set<std::string> names;
    for (const Json& module : *modules) {
        Policy::Module entry;
        if (const Status status = readModule(module, source, policy.modules.size(), entry); !status)
            return status.error();
        if (!names.insert(entry.fqn).second)
            return badInput(source + ": module '" + entry.fqn + "' is there twice, once was expected");
        if (const Status status = readHeld((*json)["predicted"], source, entry); !status)
            return status.error();
        policy.modules.push_back(std::move(entry));
    }
    return policy;
}

Status writePolicy(const Policy& policy, const std::filesystem::path& path)
{
    return writeAtomically(path, toJson(policy));
}

} // namespace headroom
