// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/joint/ops_plan_file.h"

#include "core/base/atomic_write.h"
#include "core/base/json_reader.h"
#include "core/base/json_text.h"

#include <algorithm>
#include <string>
#include <string_view>

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
    return writeAtomically(file, jsonText(json, 1) + '\n');
}

Result<SavedOps> readOpsPlan(const std::filesystem::path& file, const StepTrace& trace)
{
    const auto storageOf = [&](const json::Json& row) {
        const auto last = static_cast<std::int64_t>(trace.storages.size()) - 1;
        const StorageId storage(static_cast<std::uint32_t>(json::integerFrom(
            json::member(row, "storage"), 0, last, "a value of this step: plan the step that is run")));
        if (trace.storages.bytes[storage] != json::at(row, "bytes", json::integer)
            || creatorName(trace, storage) != json::at(row, "op", json::string))
            json::wrong(row,
                        "has " + std::to_string(trace.storages.bytes[storage]) + " bytes in this step and is made by `"
                            + std::string(creatorName(trace, storage)) + "`: plan the step that is run");
        return storage;
    };
    return json::readFile(file, [&](const json::Json& document) {
        if (!document.is_object() || !document.contains("memory_budget") || !document.contains("saved"))
            json::wrong(document,
                        "is no plan of ops: an object with memory_budget and saved was expected, as torch-headroom "
                        "ops-plan --json prints it");
        SavedOps plan{json::at(document, "memory_budget", json::number),
                      json::at(document, "saved", json::listOf(storageOf))};
        std::ranges::sort(plan.saved);
        return plan;
    });
}

} // namespace headroom
