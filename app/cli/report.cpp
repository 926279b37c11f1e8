// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/report/report.h"
#include "app/cli/arguments.h"
#include "app/cli/command.h"
#include "app/cli/pictures.h"
#include "core/base/try.h"
#include "core/policy/card_planner.h"
#include "core/predict/predict.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>

namespace headroom::cli {

namespace {

constexpr int frontierPoints = 33;
constexpr int frontierPointsOfALargeStep = 13;
constexpr std::size_t opsOfALargeStep = 50'000;

struct ReportArguments
{
    std::string stepFile;
    std::string profileStep; ///< of a trace; empty: the last whole step
    std::string output;
    std::string policyFile;
    std::string budget;
    CardArguments onCard;
    OffloadArguments toHost;
    TimeChoice times;
};

bool asksForPlan(const ReportArguments& arguments)
{
    return !arguments.policyFile.empty() || !arguments.budget.empty() || !arguments.onCard.card.empty();
}

/// The plan of a policy, as predicted on the step.
Result<PlanAnswer> planOfPolicy(const StepPlanner& planner, const Policy& policy, const std::string& file)
{
    const Result<CheckpointPlan> regions = checkpointPlan(*planner.trace(), policy);
    if (!regions)
        return badInput(file + ": " + regions.error().message);
    PlanAnswer found;
    found.plan.status = PlanStatus::feasible;
    found.timeline = planner.recorded();
    PlanRequest request;
    request.budget = std::max(policy.budget, planner.recorded()->peak);
    found = answerTo(request, planner.model(), std::move(found));
    ASSIGN_OR_RETURN(PlanAnswer answer, planner.withRegions(std::move(found), *regions));
    answer.plan.budget = policy.budget;
    return answer;
}

void addVerdict(PlanAnswer& answer, const CardPtr& card, const StepTrace& step)
{
    if (card && answer.fits())
        answer.card = CardVerdict{card, runOnCard(*card, step, *answer.timeline)};
}

/// Sets the plan and its policy. `asked` has no budget. Error: as the planner; a policy that is not of this step.
Status addPlan(ReportRequest& request, const StepPlanner& planner, PlanRequest asked, const ReportArguments& arguments)
{
    if (!arguments.policyFile.empty()) {
        ASSIGN_OR_RETURN(request.policy, readPolicy(arguments.policyFile));
        ASSIGN_OR_RETURN(PlanAnswer answer, planOfPolicy(planner, *request.policy, arguments.policyFile));
        addVerdict(answer, request.card, *request.trace);
        request.policyFile = arguments.policyFile;
        request.plan = std::make_shared<const PlanAnswer>(std::move(answer));
        return {};
    }
    PlanAnswer answer;
    if (!arguments.budget.empty()) {
        const Result<Bytes> budget = parseBytes(arguments.budget);
        if (!budget)
            return badInput("--budget " + budget.error().message);
        asked.budget = *budget;
        ASSIGN_OR_RETURN(answer, planner.solve(asked));
        addVerdict(answer, request.card, *request.trace);
    } else {
        ASSIGN_OR_RETURN(answer, planForCardAndSettings(planner, asked, request.card));
        request.isPlannedForCard = !asked.offload;
    }
    if (answer.fits())
        request.policy = answer.policy(planner.model());
    request.plan = std::make_shared<const PlanAnswer>(std::move(answer));
    return {};
}

/// Sets what the planner knows, or why there is no plan. Error: a plan was asked for and cannot be made.
Status addPlanning(ReportRequest& request, const ReportArguments& arguments)
{
    const Status can = plannable(*request.trace);
    const Result<StepPlanner> made = can ? StepPlanner::create(request.trace) : can.error();
    if (!made && (asksForPlan(arguments) || arguments.toHost.offload))
        return badInput(arguments.stepFile + ": " + made.error().message);
    if (!made) {
        request.whyNoPlan = made.error().message;
        ASSIGN_OR_RETURN(Timeline recorded, predict(*request.trace, {}));
        request.recorded = std::make_shared<const Timeline>(std::move(recorded));
        return {};
    }
    const StepPlanner& planner = *made;
    request.recorded = planner.recorded();
    request.modules = planner.moduleInfo();
    PlanRequest all;
    all.budget = std::max<Bytes>(1, planner.recorded()->peak);
    all.offload = arguments.toHost.offload;
    ASSIGN_OR_RETURN(all.hostMemory, hostMemoryOf(arguments.toHost));
    const bool isLarge = request.trace->ops.size() >= opsOfALargeStep;
    ASSIGN_OR_RETURN(request.frontier, planner.frontier(all, isLarge ? frontierPointsOfALargeStep : frontierPoints));
    return asksForPlan(arguments) ? addPlan(request, planner, all, arguments) : Status();
}

Result<int> run(const ReportArguments& arguments)
{
    ReportRequest request;
    ASSIGN_OR_RETURN(const ProfileRequest profile, profileRequest(arguments.profileStep, {arguments.stepFile}));
    ASSIGN_OR_RETURN(request.trace, readStep(arguments.stepFile, arguments.times, StepKind::any, profile));
    ASSIGN_OR_RETURN(request.trace, withHostBandwidth(request.trace, arguments.toHost));
    ASSIGN_OR_RETURN(std::optional<Card> card, cardOf(arguments.onCard, *request.trace));
    if (!card)
        card = recordedCard(*request.trace);
    if (card)
        request.card = std::make_shared<const Card>(*std::move(card));
    request.version = HEADROOM_VERSION;
    RETURN_IF_ERROR(addPlanning(request, arguments));
    ASSIGN_OR_RETURN(const Report report, makeReport(std::move(request)));
    RETURN_IF_ERROR(withoutDisplay([&] { return writeReport(report, arguments.output); }));
    std::cerr << arguments.output << " written\n";
    return 0;
}

} // namespace

void addReport(CLI::App& program, Action& chosen)
{
    const auto arguments = std::make_shared<ReportArguments>();
    CLI::App* command = addCommand(program, "report", "Write an HTML file about a step, to read and to share");
    command->add_option("step", arguments->stepFile, "Step file, memory snapshot or trace of torch.profiler")
        ->required();
    command->add_option("-o,--output", arguments->output, "File to write")->type_name("report.html")->required();
    CLI::Option* policy = command->add_option("--policy", arguments->policyFile, "Show the step under this policy")
                              ->type_name("policy.json");
    command->add_option("--budget", arguments->budget, "Plan for this budget")->type_name("SIZE")->excludes(policy);
    addCardArguments(*command, arguments->onCard, "Card for training: a GPU's name, or a size");
    addOffloadArguments(*command, arguments->toHost, "Plans may also send saved tensors to pinned host memory",
                        {policy});
    addProfileArgument(*command, arguments->profileStep);
    addTimeArguments(*command, arguments->times);
    command->callback([=, &chosen] { chosen = [=] { return run(*arguments); }; });
}

} // namespace headroom::cli
