// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/sac/sac_stats.h"

#include "core/base/json_reader.h"

namespace headroom {
namespace {

SacStats statsIn(const json::Json& module)
{
    SacStats stats;
    stats.funcNames = json::at(module, "func_names", json::listOf(json::string));
    const std::size_t count = stats.funcNames.size();
    const auto eachOf = [&](const char* key, const auto& read) {
        auto list = json::at(module, key, json::listOf(read));
        if (list.size() != count)
            json::wrong(module, key,
                        "has " + std::to_string(list.size()) + " elements, as many as func_names ("
                            + std::to_string(count) + ") were expected");
        return list;
    };
    const auto op = [&](const json::Json& value) {
        return static_cast<int>(
            json::integerFrom(value, 0, static_cast<std::int64_t>(count) - 1,
                              "an op below " + std::to_string(count) + " (the length of func_names)"));
    };
    stats.runtimes = eachOf("runtimes", json::notNegative);
    stats.memory = eachOf("memory", json::bytes);
    stats.viewLikeOps = json::at(module, "view_like_ops", json::listOf(op));
    stats.randOps = json::at(module, "rand_ops", json::listOf(op));
    stats.savedAutogradOps = json::at(module, "saved_autograd_ops", json::listOf(op));
    stats.inplaceOps = json::at(module, "inplace_ops", json::listOf(json::pairOf(op, op, "[op, parent]")));
    stats.forceStoreRandom = json::at(module, "force_store_random", json::boolean);
    return stats;
}

std::string listOfModules(const json::Json& document)
{
    constexpr std::size_t shown = 8;
    std::string names;
    std::size_t count = 0;
    for (const auto& [name, stats] : document.items()) {
        if (!stats.is_object() || name.starts_with('_') || ++count > shown)
            continue;
        names += (names.empty() ? "" : ", ") + name;
    }
    return count > shown ? names + " and " + std::to_string(count - shown) + " more" : names;
}

/// The statistics of module `fqn`, or of the only module.
const json::Json& moduleOf(const json::Json& document, const std::string& fqn)
{
    if (!document.is_object() || document.empty())
        json::wrong(
            document,
            "is no SACStats document: expected an object with func_names, or a module's name with such an object");
    if (document.contains("func_names")) {
        if (!fqn.empty())
            json::wrong(document, "holds a single module without a name, so '" + fqn + "' cannot be selected");
        return document;
    }
    if (!fqn.empty()) {
        if (!document.contains(fqn))
            json::wrong(document, "has no module '" + fqn + "'; it has " + listOfModules(document));
        return document[fqn];
    }
    const json::Json* only = nullptr;
    for (const auto& [name, stats] : document.items()) {
        if (name.starts_with('_'))
            continue;
        if (only)
            json::wrong(document, "has several modules, name a module: " + listOfModules(document));
        only = &stats;
    }
    if (!only)
        json::wrong(document, "has no module");
    return *only;
}

auto statsOf(const std::string& fqn)
{
    return [&fqn](const json::Json& document) { return statsIn(moduleOf(document, fqn)); };
}

} // namespace

Result<SacStats> parseSacStats(std::string_view text, std::string_view sourceName, const std::string& fqn)
{
    return json::read(text, std::string(sourceName), statsOf(fqn));
}

Result<SacStats> readSacStats(const std::filesystem::path& path, const std::string& fqn)
{
    return json::readFile(path, statsOf(fqn));
}

} // namespace headroom
