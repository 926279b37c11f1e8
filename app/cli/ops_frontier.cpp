// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/arguments.h"
#include "app/cli/command.h"
#include "app/cli/ops_arguments.h"
#include "app/cli/pictures.h"
#include "app/cli/table.h"
#include "core/trace/phase_times.h"

#include <CLI/CLI.hpp>

#include <iostream>

namespace headroom::cli {

namespace {

struct Arguments : OpsArguments
{
    std::string points = "101";
    std::string output; ///< a picture or a table
};

Result<int> runFrontier(const Arguments& arguments)
{
    const Result<int> points = parseInteger("--points", arguments.points, 2, 10'000);
    if (!points)
        return points.error();
    const Result<OpsQuestion> question = readOpsQuestion(arguments);
    if (!question)
        return question.error();
    const OpsPlanner& planner = question->planner;
    const Result<std::vector<OpsPlan>> plans = planner.frontier(question->request, *points);
    if (!plans)
        return plans.error();
    const StepTrace& trace = *planner.graph().trace;
    if (!arguments.output.empty()) {
        FrontierPicture picture{trace.info.model, {}, forwardBackwardMs(trace)};
        for (const OpsPlan& plan : *plans)
            picture.points.push_back({plan.peak, plan.recomputeMs, 0});
        const Status drawn = drawFrontier(picture, arguments.output);
        if (!drawn)
            return drawn.error();
    }
    Json json;
    json["default_saved_bytes"] = planner.defaultSavedBytes();
    json["baseline_peak_bytes"] = planner.recordedPeak();
    json["step_ms"] = forwardBackwardMs(trace);
    json["points"] = Json::array();
    using enum Table::Align;
    Table table({{"Fraction", right}, {"Saved", right}, {"Peak", right}, {"Bytes", right}, {"Recompute ms", right}});
    for (const OpsPlan& plan : *plans) {
        json["points"].push_back({{"memory_budget", plan.fraction},
                                  {"saved_bytes", plan.savedBytes},
                                  {"peak_bytes", plan.peak},
                                  {"recompute_ms", plan.recomputeMs},
                                  {"recompute_flops", plan.recomputeFlops}});
        table.addRow({formatNumber(plan.fraction, 3), formatBytes(plan.savedBytes), formatBytes(plan.peak),
                      groupedDigits(plan.peak), formatNumber(plan.recomputeMs, 3)});
    }
    if (arguments.json)
        printJson(json);
    else
        table.print(std::cout);
    return 0;
}

} // namespace

void addOpsFrontier(CLI::App& program, Action& chosen)
{
    const auto arguments = std::make_shared<Arguments>();
    CLI::App* command = addCommand(
        program, "ops-frontier",
        "Op-level plans by fraction, of which a smaller one never takes more at its peak than a larger one");
    addOpsArguments(*command, *arguments);
    command->add_option("--points", arguments->points, "Fractions to plan, spread evenly (default 101)")
        ->type_name("N");
    command->add_option("-o,--output", arguments->output, "Write a picture or a table: .svg, .pdf, .png or .csv")
        ->type_name("FILE");
    command->callback([=, &chosen] { chosen = [=] { return runFrontier(*arguments); }; });
}

} // namespace headroom::cli
