// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/command.h"
#include "app/cli/ops_arguments.h"
#include "app/cli/pictures.h"
#include "app/cli/table.h"
#include "core/base/try.h"
#include "core/joint/ops_policy.h"
#include "core/predict/predict.h"
#include "core/trace/phase_times.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <vector>

namespace headroom::cli {

namespace {

struct OpsFrontierArguments : OpsArguments
{
    std::string points = "101";
    std::string output; ///< a picture or a table
    std::vector<std::string> compiled; ///< files of the same step, as run by torch.compile
};

/// The card's columns of a plan or a policy.
std::vector<std::string> cardCells(const CardRun& run)
{
    return {run.runs ? formatBytes(run.reservedPeak) : "-", runCell(run)};
}

/// The columns of a policy with results that may go to the host.
std::vector<std::string> policyCells(const PlanAnswer& policy)
{
    const Plan& plan = policy.plan;
    std::vector<std::string> cells{formatBytes(plan.peak), formatNumber(plan.recomputeMs, 3),
                                   formatBytes(plan.offload.moved), formatNumber(plan.offload.exposedMs, 3)};
    if (policy.card)
        std::ranges::copy(cardCells(policy.card->run), std::back_inserter(cells));
    return cells;
}

/// A step that was recorded with torch.compile's own partitioner and a memory budget.
struct CompiledPoint
{
    double fraction = 0;
    Bytes peak = 0;
    double stepMs = 0;
};

Result<CompiledPoint> readCompiled(const std::string& file, const TimeChoice& times)
{
    ASSIGN_OR_RETURN(const StepTracePtr trace, readStep(file, times));
    const std::string_view fraction = trace->info.setting("activation_memory_budget");
    if (fraction.empty())
        return badInput(file + ": --compiled needs a step recorded with --activation-memory-budget");
    ASSIGN_OR_RETURN(const Timeline timeline, predict(*trace, {}));
    return CompiledPoint{std::stod(std::string(fraction)), timeline.peak, forwardBackwardMs(*trace)};
}

Result<std::vector<CompiledPoint>> readCompiled(const OpsFrontierArguments& arguments)
{
    std::vector<CompiledPoint> points;
    for (const std::string& file : arguments.compiled) {
        ASSIGN_OR_RETURN(points.emplace_back(), readCompiled(file, arguments.times));
    }
    return points;
}

void addCompiled(const std::vector<CompiledPoint>& points, bool prints, Json& json)
{
    if (points.empty())
        return;
    json["compiled"] = Json::array();
    using enum Table::Align;
    Table table({{"Compiled", right}, {"Peak", right}, {"Bytes", right}, {"Forward and backward ms", right}});
    for (const CompiledPoint& point : points) {
        json["compiled"].push_back(
            {{"memory_budget", point.fraction}, {"peak_bytes", point.peak}, {"step_ms", point.stepMs}});
        table.addRow({formatNumber(point.fraction, 3), formatBytes(point.peak), groupedDigits(point.peak),
                      formatNumber(point.stepMs, 3)});
    }
    if (prints) {
        std::cout << '\n';
        table.print(std::cout);
    }
}

Result<int> runFrontier(const OpsFrontierArguments& arguments)
{
    ASSIGN_OR_RETURN(const int points, parseInteger("--points", arguments.points, 2, 10'000));
    if (!arguments.output.empty())
        RETURN_IF_ERROR(checkPicturePath(arguments.output));
    ASSIGN_OR_RETURN(const std::vector<CompiledPoint> compiled, readCompiled(arguments));
    ASSIGN_OR_RETURN(const OpsInput input, readOpsInput(arguments));
    const OpsPlanner& planner = input.planner;
    ASSIGN_OR_RETURN(const std::vector<OpsPlan> plans, planner.frontier(input.request, points));
    const StepTrace& trace = *planner.graph().trace;
    Json json;
    json["default_saved_bytes"] = planner.defaultSavedBytes();
    json["baseline_peak_bytes"] = planner.recordedPeak();
    json["step_ms"] = forwardBackwardMs(trace);
    json["points"] = Json::array();
    using enum Table::Align;
    std::vector<Table::Heading> columns{
        {"Fraction", right}, {"Saved", right}, {"Peak", right}, {"Bytes", right}, {"Recompute ms", right}};
    std::vector<Table::Heading> cardColumns;
    if (input.card)
        cardColumns = {{"Reserved", right}, {input.card->title, right}};
    std::ranges::copy(cardColumns, std::back_inserter(columns));
    if (arguments.toHost.offload) {
        columns.insert(
            columns.end(),
            {{"Policy's peak", right}, {"Recompute ms", right}, {"To the host", right}, {"Exposed ms", right}});
        std::ranges::copy(cardColumns, std::back_inserter(columns));
    }
    Table table(columns);
    std::vector<std::string> assumed;
    FrontierExport picture{trace.info.model, {}, forwardBackwardMs(trace)};
    for (const OpsPlan& plan : plans) {
        json["points"].push_back({{"memory_budget", plan.fraction},
                                  {"saved_bytes", plan.savedBytes},
                                  {"peak_bytes", plan.peak},
                                  {"recompute_ms", plan.recomputeMs},
                                  {"recompute_flops", plan.recomputeFlops}});
        std::vector<std::string> cells{formatNumber(plan.fraction, 3), formatBytes(plan.savedBytes),
                                       formatBytes(plan.peak), groupedDigits(plan.peak),
                                       formatNumber(plan.recomputeMs, 3)};
        if (input.card) {
            const CardRun run = runOnCard(*input.card, trace, planner.timeline(plan));
            std::ranges::copy(run.assumptions, std::back_inserter(assumed));
            json["points"].back()["card"] = cardRunJson(*input.card, trace, run);
            std::ranges::copy(cardCells(run), std::back_inserter(cells));
        }
        if (arguments.toHost.offload) {
            ASSIGN_OR_RETURN(const HostedComparison found, hostedOf(input, arguments, plan, plans, {}, false));
            picture.points.push_back(pointOf(found.hosted));
            std::ranges::copy(policyCells(found.hosted), std::back_inserter(cells));
            json["points"].back()["policy"] = policyJson(trace, found);
            if (found.hosted.card)
                json["points"].back()["policy"]["card"] = cardRunJson(*input.card, trace, found.hosted.card->run);
        } else {
            picture.points.push_back({plan.peak, plan.recomputeMs, 0});
        }
        table.addRow(std::move(cells));
    }
    if (arguments.toHost.offload)
        picture.points = withoutWorse(std::move(picture.points));
    if (!arguments.output.empty())
        RETURN_IF_ERROR(drawFrontier(picture, arguments.output));
    if (!arguments.json) {
        table.print(std::cout);
        printAssumptions(assumed, std::cout);
    }
    addCompiled(compiled, !arguments.json, json);
    if (arguments.json)
        printJson(json);
    return 0;
}

} // namespace

void addOpsFrontier(CLI::App& program, Action& chosen)
{
    const auto arguments = std::make_shared<OpsFrontierArguments>();
    CLI::App* command = addCommand(program, "ops-frontier",
                                   "Op-level plans by fraction; the peak never rises when the fraction falls");
    addOpsArguments(*command, *arguments);
    command->add_option("--points", arguments->points, "Fractions to plan, spread evenly (default 101)")
        ->type_name("N");
    addCardArguments(*command, arguments->onCard,
                     "Say of each plan whether training runs on this GPU, given by name or as a size");
    command->add_option("-o,--output", arguments->output, "Write a picture or a table: .svg, .pdf, .png or .csv")
        ->type_name("FILE");
    addOffloadArguments(
        *command, arguments->toHost,
        "Beside each plan, a policy of the same memory with results of ops and arguments of modules in pinned "
        "host memory");
    command
        ->add_option(
            "--compiled", arguments->compiled,
            "The same step under torch.compile with a memory budget (record --activation-memory-budget), shown beside")
        ->type_name("FILE");
    command->callback([=, &chosen] { chosen = [=] { return runFrontier(*arguments); }; });
}

} // namespace headroom::cli
