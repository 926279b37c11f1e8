// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/export/export.h"
#include "app/cli/arguments.h"
#include "app/cli/command.h"
#include "app/cli/pictures.h"
#include "core/base/try.h"
#include "core/sac/step_statistics.h"
#include "core/trace/phase_times.h"

#include <CLI/CLI.hpp>

#include <iostream>

namespace headroom::cli {

namespace {

struct ExportArguments
{
    std::string stepFile;
    std::string profileStep; ///< of a trace; empty: the last whole step
    std::string output;
    bool timeline = false;
    bool tradeOff = false;
    bool frontier = false;
    bool peak = false;
    std::string by = "module"; ///< of --peak: the outermost level
    std::string policyFile;
    std::string module;
    TimeChoice times;
    bool dark = false;
};

std::string titleOf(const StepInfo& info)
{
    std::string title = info.model;
    if (info.batch > 0)
        title += ", batch " + std::to_string(info.batch);
    return title + ", " + info.gpu;
}

Status drawTimeline(const StepTracePtr& trace, const ExportArguments& arguments, const ExportOptions& options)
{
    ASSIGN_OR_RETURN(Timeline recorded, predict(*trace, {}));
    TimelineExport data;
    data.title = titleOf(trace->info);
    data.trace = trace;
    data.recorded = std::make_shared<const Timeline>(std::move(recorded));
    if (!arguments.policyFile.empty()) {
        ASSIGN_OR_RETURN(const Policy policy, readPolicy(arguments.policyFile));
        const Result<CheckpointPlan> regions = checkpointPlan(*trace, policy);
        if (!regions)
            return badInput(arguments.policyFile + ": " + regions.error().message);
        ASSIGN_OR_RETURN(Timeline planned, predict(*trace, *regions));
        data.planned = std::make_shared<const Timeline>(std::move(planned));
        data.budget = policy.budget;
    }
    return withoutDisplay([&] { return exportTimeline(data, arguments.output, options); });
}

Status drawTradeOff(const StepTracePtr& trace, const ExportArguments& arguments, const ExportOptions& options)
{
    ASSIGN_OR_RETURN(ModuleInfo info, moduleInfo(*trace));
    TradeOffExport data;
    data.title = titleOf(trace->info);
    data.info = std::make_shared<const ModuleInfo>(std::move(info));
    if (!arguments.module.empty()) {
        RETURN_IF_ERROR(findModule(*trace, arguments.module));
        data.selected = arguments.module;
    }
    return withoutDisplay([&] { return exportTradeOff(data, arguments.output, options); });
}

Status drawDeviceFrontier(const StepTracePtr& trace, const ExportArguments& arguments, const ExportOptions& options)
{
    ASSIGN_OR_RETURN(const StepPlanner planner, StepPlanner::create(trace));
    PlanRequest request;
    request.budget = std::max<Bytes>(1, planner.recorded()->peak);
    ASSIGN_OR_RETURN(std::vector<FrontierPoint> points, planner.frontier(request, 64));
    return drawFrontier({titleOf(trace->info), std::move(points), forwardBackwardMs(*trace)}, arguments.output,
                        options);
}

Status drawPeak(const StepTracePtr& trace, const ExportArguments& arguments, const ExportOptions& options)
{
    ASSIGN_OR_RETURN(Timeline recorded, predict(*trace, {}));
    PeakExport data;
    data.title = titleOf(trace->info);
    data.trace = trace;
    data.timeline = std::make_shared<const Timeline>(std::move(recorded));
    data.by = arguments.by == "category" ? LiveTree::By::category : LiveTree::By::module;
    return withoutDisplay([&] { return exportPeak(data, arguments.output, options); });
}

Result<int> run(const ExportArguments& arguments)
{
    if (int(arguments.timeline) + int(arguments.tradeOff) + int(arguments.frontier) + int(arguments.peak) != 1)
        return badInput("export: expected either --timeline, --tradeoff, --frontier or --peak");
    if (arguments.by != "module" && arguments.by != "category")
        return badInput("--by " + arguments.by + ": expected module or category");
    ASSIGN_OR_RETURN(const ProfileRequest profile, profileRequest(arguments.profileStep, {arguments.stepFile}));
    ASSIGN_OR_RETURN(const StepTracePtr trace, readStep(arguments.stepFile, arguments.times, StepKind::any, profile));
    ExportOptions options;
    options.dark = arguments.dark;
    const auto draw = arguments.timeline ? drawTimeline
        : arguments.tradeOff             ? drawTradeOff
        : arguments.peak                 ? drawPeak
                                         : drawDeviceFrontier;
    RETURN_IF_ERROR(draw(trace, arguments, options));
    std::cerr << arguments.output << " written\n";
    return 0;
}

} // namespace

void addExport(CLI::App& program, Action& chosen)
{
    const auto arguments = std::make_shared<ExportArguments>();
    CLI::App* command = addCommand(program, "export", "Pictures and tables of a step, without a display");
    command->add_option("step", arguments->stepFile, "Step file")->required();
    command->add_option("output", arguments->output, "File to write: .svg, .png, .pdf or .csv; of --peak also .folded")
        ->required();
    CLI::Option* timeline = command->add_flag("--timeline", arguments->timeline, "Memory by category over the step");
    CLI::Option* tradeOff = command->add_flag("--tradeoff", arguments->tradeOff,
                                              "Memory against recompute time, a curve for each module");
    command->add_flag("--frontier", arguments->frontier, "Recompute time against the peak on the device");
    CLI::Option* peak = command->add_flag("--peak", arguments->peak,
                                          "What is alive at the peak: an icicle, or folded stacks (.folded)");
    command->add_option("--by", arguments->by, "--peak: by module (the default) or category, then by line and block")
        ->type_name("module|category")
        ->needs(peak);
    command->add_option("--policy", arguments->policyFile, "--timeline: the step under this policy as well")
        ->type_name("policy.json")
        ->needs(timeline);
    command->add_option("--module", arguments->module, "--tradeoff: the curve to point out")
        ->type_name("FQN")
        ->needs(tradeOff);
    addProfileArgument(*command, arguments->profileStep);
    addTimeArguments(*command, arguments->times);
    command->add_flag("--dark", arguments->dark, "Light on dark");
    command->callback([=, &chosen] { chosen = [=] { return run(*arguments); }; });
}

} // namespace headroom::cli
