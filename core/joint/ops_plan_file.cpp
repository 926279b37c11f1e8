// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/joint/ops_plan_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

namespace headroom {
namespace {

std::string_view creatorName(const StepTrace& trace, StorageId storage)
{
    const OpId op = trace.storages.creator[storage];
    return op.valid() ? trace.opName(op) : std::string_view();
}

} // namespace

Status writeOpsPlan(const StepTrace& trace, const OpsPlan& plan, const std::filesystem::path& file)
{
    nlohmann::ordered_json json{{"memory_budget", plan.fraction}, {"saved", nlohmann::json::array()}};
    for (const StorageId storage : plan.saved)
        json["saved"].push_back({{"storage", storage.value},
                                 {"op", creatorName(trace, storage)},
                                 {"bytes", trace.storages.bytes[storage]}});
    std::ofstream out(file);
    out << json.dump(1) << '\n';
    if (!out.flush())
        return badInput(file.string() + ": cannot be written");
    return {};
}

Result<SavedOps> readOpsPlan(const std::filesystem::path& file, const StepTrace& trace)
{
    const std::string path = file.string();
    std::ifstream in(file);
    if (!in)
        return badInput(path + ": cannot be read: expected a plan of ops, as torch-headroom ops-plan --json prints it");
    const nlohmann::json json = nlohmann::json::parse(in, nullptr, false);
    const auto fraction = json.is_object() ? json.find("memory_budget") : json.end();
    const auto saved = json.is_object() ? json.find("saved") : json.end();
    if (fraction == json.end() || !fraction->is_number() || saved == json.end() || !saved->is_array())
        return badInput(path
                        + ": is no plan of ops: an object with memory_budget and saved was expected, as torch-headroom "
                          "ops-plan --json prints it");
    SavedOps plan{fraction->get<double>(), {}};
    for (const nlohmann::json& row : *saved) {
        const auto number = [&](const char* key) -> std::int64_t {
            const auto found = row.is_object() ? row.find(key) : row.end();
            return found != row.end() && found->is_number_integer() ? found->get<std::int64_t>() : -1;
        };
        const std::int64_t id = number("storage");
        if (id < 0 || id >= static_cast<std::int64_t>(trace.storages.size()))
            return badInput(path + ": saved value " + row.dump()
                            + " is none of this step's: plan the step that is run");
        const StorageId storage(static_cast<std::uint32_t>(id));
        if (trace.storages.bytes[storage] != number("bytes") || !row.contains("op") || row["op"] != creatorName(trace, storage))
            return badInput(path + ": saved value " + row.dump() + " has "
                            + std::to_string(trace.storages.bytes[storage]) + " bytes in this step and is made by `"
                            + std::string(creatorName(trace, storage)) + "`: plan the step that is run");
        plan.saved.push_back(storage);
    }
    std::ranges::sort(plan.saved);
    return plan;
}

} // namespace headroom
