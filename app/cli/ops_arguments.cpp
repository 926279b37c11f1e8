// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/ops_arguments.h"

#include "app/cli/command.h"
#include "core/base/try.h"
#include "core/joint/ops_policy.h"
#include "core/joint/ops_request.h"
#include "core/policy/step_planner.h"

#include <CLI/CLI.hpp>

#include <utility>

namespace headroom::cli {

namespace {

Result<OpsRequest> requestOf(const OpsArguments& arguments)
{
    OpsRequest request;
    ASSIGN_OR_RETURN(request.solver, parseOpsSolver(arguments.solver));
    if (!arguments.opTimes.empty() && arguments.runtime != "measured")
        return badInput("--op-times has measured times: expected --runtime measured as well");
    ASSIGN_OR_RETURN(request.runtime, parseOpsRuntime(arguments.runtime));
    return request;
}

Result<OpsPlanner> plannerOf(const OpsArguments& arguments)
{
    ASSIGN_OR_RETURN(StepTracePtr trace, readStep(arguments.stepFile, arguments.times));
    ASSIGN_OR_RETURN(trace, withHostBandwidth(trace, arguments.toHost));
    Result<OpsPlanner> planner = OpsPlanner::create(std::move(trace));
    if (!planner)
        return Error{planner.error().kind, arguments.stepFile + ": " + planner.error().message};
    return planner;
}

} // namespace

void addOpsArguments(CLI::App& command, OpsArguments& arguments)
{
    command.add_option("step", arguments.stepFile, "Step file")->required();
    command.add_option("--solver", arguments.solver, "How the ops to save are chosen (default dp: exact)")
        ->type_name("dp|greedy|ilp");
    command
        .add_option("--runtime", arguments.runtime, "Cost of running an op again: flops (default) or time in the step")
        ->type_name("flops|measured");
    command
        .add_option("--op-times", arguments.opTimes,
                    "Measured times: the same step, recorded on a GPU (record --device cuda), or a JSON list with the "
                    "ms of each op")
        ->type_name("FILE");
    addTimeArguments(command, arguments.times);
    addJsonFlag(command, arguments.json);
}

Result<OpsInput> readOpsInput(const OpsArguments& arguments)
{
    ASSIGN_OR_RETURN(OpsRequest request, requestOf(arguments));
    ASSIGN_OR_RETURN(OpsPlanner planner, plannerOf(arguments));
    if (!arguments.opTimes.empty()) {
        ASSIGN_OR_RETURN(request.measuredMs, readOpTimes(arguments.opTimes, *planner.graph().trace));
    }
    ASSIGN_OR_RETURN(std::optional<Card> card, cardOf(arguments.onCard, *planner.graph().trace));
    return OpsInput{std::move(planner), std::move(request), std::move(card)};
}

CardVerdict verdictOf(const Card& card, const StepTrace& step, const PlanAnswer& answer)
{
    return {std::make_shared<const Card>(card), runOnCard(card, step, *answer.timeline),
            leastMemory(card, step, *answer.timeline)};
}

Result<HostedComparison> hostedOf(const OpsInput& input, const OpsArguments& arguments, const OpsPlan& plan,
                                  std::span<const OpsPlan> plans, std::span<const ModuleId> modules, bool forCard)
{
    const StepModel& model = input.planner.model();
    const StepTrace& trace = *model.trace();
    RETURN_IF_ERROR(offloadable(model));
    HostedLimits limits;
    ASSIGN_OR_RETURN(limits.hostMemory, hostMemoryOf(arguments.toHost));
    HostedComparison compared;
    ASSIGN_OR_RETURN(compared.plain, opsRegions(model, plan, modules));
    ASSIGN_OR_RETURN(compared.plainTimeline, model.predict(compared.plain));
    if (forCard)
        limits.fits = [&](const Timeline& timeline) { return runOnCard(*input.card, trace, timeline).runs; };
    else
        limits.fits = [most = compared.plainTimeline.peak](const Timeline& timeline) { return timeline.peak <= most; };
    Result<PlanAnswer> hosted = hostedAnswer(model, plans, modules, limits);
    if (!hosted && hosted.error().kind == ErrorKind::infeasible)
        return Error{ErrorKind::infeasible,
                     "no policy by op "
                         + (forCard ? "runs on " + input.card->title
                                    : "takes at most " + formatBytes(compared.plainTimeline.peak))
                         + ", whatever goes to the host"
                         + (limits.hostMemory > 0 ? " within --host-memory: allow more host memory, or" : ":")
                         + " plan by module (torch-headroom plan --offload)"};
    if (!hosted)
        return hosted.error();
    compared.hosted = *std::move(hosted);
    if (input.card)
        compared.hosted.card = verdictOf(*input.card, trace, compared.hosted);
    return compared;
}

Json policyJson(const StepTrace& trace, const HostedComparison& found)
{
    Json json{{"peak_bytes", found.hosted.plan.peak},
              {"recompute_ms", found.hosted.plan.recomputeMs},
              {"without_offload",
               {{"peak_bytes", found.plainTimeline.peak}, {"recompute_ms", found.plainTimeline.recomputeMs}}}};
    addOffload(json, trace, found.hosted);
    return json;
}

} // namespace headroom::cli
