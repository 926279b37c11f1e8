// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/joint/ops_request.h"

#include "core/base/atomic_write.h"
#include "core/base/json_reader.h"
#include "core/base/json_text.h"
#include "core/base/try.h"
#include "core/trace/step_file.h"

#include <algorithm>
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
                        "is no plan of ops: expected an object with memory_budget and saved, from torch-headroom "
                        "ops-plan --json");
        SavedOps plan{json::at(document, "memory_budget", json::number),
                      json::at(document, "saved", json::listOf(storageOf))};
        std::ranges::sort(plan.saved);
        return plan;
    });
}

namespace {

using Times = Result<std::vector<double>>;

Times timesOfList(const std::string& path, const StepTrace& trace)
{
    return json::readFile(path, [&](const json::Json& list) {
        if (!list.is_array() || list.size() != trace.ops.size())
            json::wrong(list,
                        "has " + (list.is_array() ? std::to_string(list.size()) + " numbers" : "no list")
                            + ": expected a JSON list with the ms of each of the step's "
                            + std::to_string(trace.ops.size()) + " ops, or a measured step");
        return json::listOf(json::notNegative)(list);
    });
}

std::vector<OpId> forwardOps(const StepTrace& trace)
{
    std::vector<OpId> ops;
    for (std::uint32_t i = 0; i < trace.ops.size(); ++i)
        if (trace.ops.phase[OpId(i)] == Phase::forward)
            ops.emplace_back(i);
    return ops;
}

/// Reads times of forward's ops, since no other op may be recomputed. The other ops keep the times of `trace`.
Times timesOfStep(const std::string& path, const StepTrace& trace)
{
    ASSIGN_OR_RETURN(const StepTracePtr read, readStepTrace(path));
    const StepTrace& measured = *read;
    if (!measured.info.measured)
        return badInput(path
                        + ": this step was simulated: expected a measured step of torch-headroom record --device cuda");
    const std::vector<OpId> wanted = forwardOps(trace);
    const std::vector<OpId> given = forwardOps(measured);
    std::vector<double> times(trace.ops.ms.begin(), trace.ops.ms.end());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        const std::string_view name = trace.opName(wanted[i]);
        if (i >= given.size() || measured.opName(given[i]) != name)
            return badInput(path + ": op " + std::to_string(i) + " of the forward is "
                            + (i < given.size() ? "`" + std::string(measured.opName(given[i])) + "`" : "missing")
                            + ": expected the same step, with the op `" + std::string(name) + "`");
        times[wanted[i].value] = measured.ops.ms[given[i]];
    }
    return times;
}

} // namespace

Result<OpsSolver> parseOpsSolver(std::string_view name)
{
    for (const OpsSolver solver : {OpsSolver::dp, OpsSolver::greedy, OpsSolver::ilp})
        if (name == opsSolverName(solver))
            return solver;
    return badInput("--solver is `" + std::string(name) + "`: expected dp, greedy or ilp");
}

std::string_view opsSolverName(OpsSolver solver)
{
    return solver == OpsSolver::dp ? "dp" : solver == OpsSolver::greedy ? "greedy" : "ilp";
}

Result<OpsRuntime> parseOpsRuntime(std::string_view name)
{
    if (name == "flops")
        return OpsRuntime::flops;
    if (name == "measured")
        return OpsRuntime::measured;
    return badInput("--runtime is `" + std::string(name) + "`: expected flops, or measured for the step's times");
}

Result<std::vector<double>> readOpTimes(const std::filesystem::path& file, const StepTrace& trace)
{
    return file.extension() == ".hrs" ? timesOfStep(file.string(), trace) : timesOfList(file.string(), trace);
}

} // namespace headroom
