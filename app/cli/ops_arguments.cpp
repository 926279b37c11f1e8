// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/ops_arguments.h"

#include "app/cli/arguments.h"
#include "app/cli/command.h"

#include <CLI/CLI.hpp>

#include <fstream>
#include <utility>
#include <vector>

namespace headroom::cli {

namespace {

Result<OpsRequest> requestOf(const OpsArguments& arguments)
{
    OpsRequest request;
    if (arguments.solver == "greedy")
        request.solver = OpsSolver::greedy;
    else if (arguments.solver == "ilp")
        request.solver = OpsSolver::ilp;
    else if (arguments.solver != "dp")
        return badInput("--solver is `" + arguments.solver + "`: expected dp, greedy or ilp");
    if (arguments.runtime == "measured")
        request.runtime = OpsRuntime::measured;
    else if (!arguments.opTimes.empty())
        return badInput("--op-times has measured times: expected --runtime measured with it");
    else if (arguments.runtime != "flops")
        return badInput("--runtime is `" + arguments.runtime + "`: expected flops, or measured for the step's times");
    return request;
}

/// Times of ops that were measured elsewhere: one number for each op, in the order of `headroom ops`.
Result<std::vector<double>> readOpTimes(const std::string& path, std::size_t ops)
{
    std::ifstream in(path);
    if (!in)
        return badInput(path + ": cannot be read: expected a file with the ms of each op");
    const Json json = Json::parse(in, nullptr, false);
    if (!json.is_array() || json.size() != ops)
        return badInput(path + ": " + (json.is_array() ? std::to_string(json.size()) + " numbers" : "no list")
                        + ": expected a JSON list with the ms of each of the step's " + std::to_string(ops) + " ops");
    std::vector<double> times;
    for (const Json& ms : json) {
        if (!ms.is_number() || !(ms.get<double>() >= 0))
            return badInput(path + ": element " + std::to_string(times.size()) + " is " + ms.dump()
                            + ": expected the ms of an op, 0 or more");
        times.push_back(ms.get<double>());
    }
    return times;
}

/// Completes the request with what only the step can say.
Status addTimes(const OpsArguments& arguments, const StepTrace& trace, OpsRequest& request)
{
    if (arguments.opTimes.empty())
        return {};
    Result<std::vector<double>> times = readOpTimes(arguments.opTimes, trace.ops.size());
    if (!times)
        return times.error();
    request.measuredMs = *std::move(times);
    return {};
}

Result<OpsPlanner> plannerOf(const OpsArguments& arguments)
{
    Result<StepTracePtr> trace = readStep(arguments.stepFile, arguments.calibration);
    if (!trace)
        return trace.error();
    Result<OpsPlanner> planner = OpsPlanner::create(*std::move(trace));
    if (!planner)
        return Error{planner.error().kind, arguments.stepFile + ": " + planner.error().message};
    return planner;
}

} // namespace

void addOpsArguments(CLI::App& command, OpsArguments& arguments)
{
    command.add_option("step", arguments.stepFile, "Step file")->required();
    command.add_option("--solver", arguments.solver, "How the ops to save are chosen (default dp, which is exact)")
        ->type_name("dp|greedy|ilp");
    command
        .add_option("--runtime", arguments.runtime,
                    "What running an op again costs: its flops (default) or its time in the step")
        ->type_name("flops|measured");
    command
        .add_option("--op-times", arguments.opTimes, "Measured times: a JSON list of ms, one for each op of the step")
        ->type_name("FILE.json");
    addCalibrationArgument(command, arguments.calibration);
    command.add_flag("--json", arguments.json, "Print one JSON document");
}

Result<OpsQuestion> readOpsQuestion(const OpsArguments& arguments)
{
    Result<OpsRequest> request = requestOf(arguments);
    if (!request)
        return request.error();
    Result<OpsPlanner> planner = plannerOf(arguments);
    if (!planner)
        return planner.error();
    if (const Status status = addTimes(arguments, *planner->graph().trace, *request); !status)
        return status.error();
    return OpsQuestion{*std::move(planner), *std::move(request)};
}

double forwardBackwardMs(const StepTrace& trace)
{
    double ms = 0;
    for (std::uint32_t i = 0; i < trace.ops.size(); ++i)
        if (trace.ops.phase[OpId(i)] == Phase::forward || trace.ops.phase[OpId(i)] == Phase::backward)
            ms += trace.ops.ms[OpId(i)];
    return ms;
}

} // namespace headroom::cli
