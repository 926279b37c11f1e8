// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/sac/sac_stats.h"

#include "core/sac/json_reader.h"

namespace headroom {
namespace {

Result<SacStats> statsFrom(const Json& json, const std::string& where)
{
    SacStats stats;
    JsonObjectReader fields(json, where);
    fields.readStrings("func_names", stats.funcNames);
    fields.readMsList("runtimes", stats.runtimes);
    fields.readBytesList("memory", stats.memory);
    const std::size_t count = stats.funcNames.size();
    const std::string expected = " elements, as many as func_names (" + std::to_string(count) + ") were expected";
    if (stats.runtimes.size() != count)
        fields.fail("runtimes", "has " + std::to_string(stats.runtimes.size()) + expected);
    if (stats.memory.size() != count)
        fields.fail("memory", "has " + std::to_string(stats.memory.size()) + expected);
    fields.readIndices("view_like_ops", count, stats.viewLikeOps);
    fields.readIndices("rand_ops", count, stats.randOps);
    fields.readIndices("saved_autograd_ops", count, stats.savedAutogradOps);
    fields.readIndexPairs("inplace_ops", count, stats.inplaceOps);
    fields.readBool("force_store_random", stats.forceStoreRandom);
    if (!fields.ok())
        return fields.status().error();
    return stats;
}

std::string listOfModules(const Json& document)
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

} // namespace

Result<SacStats> parseSacStats(std::string_view text, std::string_view sourceName, const std::string& fqn)
{
    const std::string source(sourceName);
    const Result<Json> parsed = parsePythonJson(text, sourceName);
    if (!parsed.ok())
        return parsed.error();
    const Json& document = *parsed;
    if (!document.is_object() || document.empty())
        return badInput(source
                        + ": is no SACStats document: an object with func_names, or one module's name with such "
                          "an object, was expected");
    if (document.contains("func_names")) {
        if (!fqn.empty())
            return badInput(source + ": holds one module without a name, so '" + fqn + "' cannot be selected in it");
        return statsFrom(document, source);
    }
    if (!fqn.empty()) {
        const auto found = document.find(fqn);
        if (found == document.end())
            return badInput(source + ": has no module '" + fqn + "'; it has " + listOfModules(document));
        return statsFrom(*found, source + ": module '" + fqn + "'");
    }
    const Json* only = nullptr;
    std::string onlyName;
    for (const auto& [name, stats] : document.items()) {
        if (name.starts_with('_'))
            continue;
        if (only)
            return badInput(source + ": has several modules, name one of them: " + listOfModules(document));
        only = &stats;
        onlyName = name;
    }
    if (!only)
        return badInput(source + ": has no module");
    return statsFrom(*only, source + ": module '" + onlyName + "'");
}

Result<SacStats> readSacStats(const std::filesystem::path& path, const std::string& fqn)
{
    const Result<std::string> text = readTextFile(path);
    if (!text.ok())
        return text.error();
    return parseSacStats(*text, path.string(), fqn);
}

} // namespace headroom
