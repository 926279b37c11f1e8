// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/arguments.h"
#include "app/cli/command.h"
#include "app/cli/pictures.h"
#include "app/cli/table.h"
#include "core/base/try.h"
#include "core/plan/piecewise.h"
#include "core/policy/step_planner.h"
#include "core/trace/phase_times.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <memory>

namespace headroom::cli {

namespace {

struct FrontierArguments : PlanArguments
{
    std::string points = "33";
    std::string output;
    CardArguments onCard;
};

struct Frontier
{
    Plan largest; ///< the plan for the largest budget: it has the least budget, the baseline and the step's time
    std::vector<FrontierPoint> points; ///< peak ascending, recomputation descending
    std::vector<CardVerdict> verdicts; ///< by point; empty: no card is asked for
};

/// Solves budgets that are spread evenly from the least feasible one to no checkpointing, each to its optimum. A plan
/// that takes as long as a smaller one is left out.
Result<Frontier> solveBudgets(const PlanSource& source, PlanRequest request, int points)
{
    ASSIGN_OR_RETURN(const PiecewisePlanner planner, PiecewisePlanner::create(source.info));
    request.budget = std::max<Bytes>(1, baseline(*source.info).peak);
    ASSIGN_OR_RETURN(const Plan largest, planner.solve(request));
    Frontier frontier{largest, {}, {}};
    if (source.trace)
        frontier.largest.stepMs = forwardBackwardMs(*source.trace);
    if (largest.status == PlanStatus::infeasible)
        return Error{ErrorKind::infeasible, largest.reason};
    const Bytes least = largest.leastBudget;
    const Bytes most = std::max(least, largest.peak);
    for (int point = 0; point < points; ++point) {
        request.budget = most - (most - least) / (points - 1) * (points - 1 - point);
        if (point == 0)
            request.budget = least;
        ASSIGN_OR_RETURN(const Plan plan, planner.solve(request));
        if (plan.status == PlanStatus::infeasible)
            continue;
        if (frontier.points.empty() || plan.recomputeMs < frontier.points.back().recomputeMs)
            frontier.points.push_back({plan.peak, plan.recomputeMs, plan.gap});
    }
    return frontier;
}

/// Finds the points of the exact formulation, and how training under each of their plans runs on the card, if one is
/// given.
Result<Frontier> solveOnDevice(const PlanSource& source, PlanRequest request, int points,
                               const std::optional<Card>& card)
{
    ASSIGN_OR_RETURN(const StepPlanner planner, StepPlanner::create(source.trace));
    request.budget = std::max<Bytes>(1, planner.recorded()->peak);
    ASSIGN_OR_RETURN(PlanAnswer largest, planner.solve(request));
    if (largest.plan.leastBudget > request.budget) { // pinned modules may take more memory than the step without a plan
        request.budget = largest.plan.leastBudget;
        ASSIGN_OR_RETURN(largest, planner.solve(request));
    }
    if (largest.plan.status == PlanStatus::infeasible)
        return Error{ErrorKind::infeasible, largest.plan.reason};
    ASSIGN_OR_RETURN(std::vector<FrontierPoint> found, planner.frontier(request, points));
    Frontier frontier{largest.plan, std::move(found), {}};
    if (!card)
        return frontier;
    const auto shared = std::make_shared<const Card>(*card);
    for (const FrontierPoint& point : frontier.points) {
        request.budget = point.peak;
        ASSIGN_OR_RETURN(const PlanAnswer planned, planner.solve(request));
        if (!planned.timeline)
            return Error{ErrorKind::internal, "the plan of a point was not found again: " + planned.plan.reason};
        frontier.verdicts.push_back({shared, runOnCard(*card, *source.trace, *planned.timeline),
                                     leastMemory(*card, *source.trace, *planned.timeline)});
    }
    return frontier;
}

Json toJson(const Frontier& frontier, const StepTrace* step)
{
    Json json;
    json["complete"] = isComplete(frontier.points);
    json["world_size"] = frontier.largest.worldSize;
    json["baseline_peak_bytes"] = frontier.largest.baselinePeak;
    json["least_budget_bytes"] = frontier.largest.leastBudget;
    json["step_ms"] = frontier.largest.stepMs;
    json["points"] = Json::array();
    for (std::size_t i = 0; i < frontier.points.size(); ++i) {
        const FrontierPoint& point = frontier.points[i];
        json["points"].push_back({{"peak_bytes", point.peak}, {"recompute_ms", point.recomputeMs}, {"gap", point.gap}});
        if (point.movedBytes > 0)
            json["points"].back()["offload"]
                = {{"moved_bytes", point.movedBytes}, {"host_bytes", point.hostBytes}, {"exposed_ms", point.exposedMs}};
        if (frontier.verdicts.empty())
            continue;
        const CardVerdict& verdict = frontier.verdicts[i];
        Json card = cardRunJson(*verdict.card, *step, verdict.run);
        card["least_capacity_bytes"] = verdict.leastMemory;
        json["points"].back()["card"] = std::move(card);
    }
    return json;
}

void print(const Frontier& frontier, bool exact, std::ostream& out)
{
    using enum Table::Align;
    out << "Peaks count " << countedMemory(exact) << ".\n\n";
    std::vector<Table::Heading> columns{
        {"Peak", right}, {"Bytes", right}, {"Recompute ms", right}, {"Added to the step", right}, {"Gap ms", right}};
    const bool moves = movesAny(frontier.points);
    if (moves)
        columns.insert(columns.begin() + 3, {{"To the host", right}, {"Exposed ms", right}});
    if (!frontier.verdicts.empty())
        columns.insert(columns.end(),
                       {{"Reserved", right}, {frontier.verdicts.front().card->title, right}, {"Runs from", right}});
    Table table(columns);
    std::vector<std::string> assumed;
    for (std::size_t i = 0; i < frontier.points.size(); ++i) {
        const FrontierPoint& point = frontier.points[i];
        const double stepMs = frontier.largest.stepMs;
        std::vector<std::string> cells{
            formatBytes(point.peak), groupedDigits(point.peak), formatNumber(point.recomputeMs, 3),
            stepMs > 0 ? formatPercent(point.costMs() / stepMs) : "-", formatNumber(point.gapMs(), 3)};
        if (moves)
            cells.insert(cells.begin() + 3, {formatBytes(point.movedBytes), formatNumber(point.exposedMs, 3)});
        if (!frontier.verdicts.empty()) {
            const CardRun& run = frontier.verdicts[i].run;
            std::ranges::copy(run.assumptions, std::back_inserter(assumed));
            cells.insert(cells.end(),
                         {run.runs ? formatBytes(run.reservedPeak) : "-", runCell(run),
                          formatBytes(frontier.verdicts[i].leastMemory)});
        }
        table.addRow(std::move(cells));
    }
    table.print(out);
    printAssumptions(assumed, out);
    if (isComplete(frontier.points))
        out << "\nThe frontier is complete, and each plan is proven optimal.\n";
    else if (exact)
        out << "\nThere may be more plans between these points: --points N solves more budgets.\n";
}

Result<int> run(const FrontierArguments& arguments)
{
    ASSIGN_OR_RETURN(const int points, parseInteger("--points", arguments.points, 2, 10'000));
    ASSIGN_OR_RETURN(const PlanRequest request, planRequest(arguments));
    if (!arguments.onCard.card.empty() && (!plansExactly(arguments) || request.worldSize > 1))
        return badInput(cardNeedsStep);
    if (!arguments.output.empty())
        RETURN_IF_ERROR(checkPicturePath(arguments.output));
    ASSIGN_OR_RETURN(const PlanSource source, readPlanSource(arguments));
    const PlanRequest asked = asRecorded(request, source);
    std::optional<Card> card;
    if (source.trace) {
        ASSIGN_OR_RETURN(card, cardOf(arguments.onCard, *source.trace));
    }
    ASSIGN_OR_RETURN(const Frontier frontier,
                     plansExactly(arguments) ? solveOnDevice(source, asked, points, card)
                                             : solveBudgets(source, asked, points));
    if (!arguments.output.empty()) {
        const std::string title = source.trace ? source.trace->info.model : arguments.moduleInfoFile;
        RETURN_IF_ERROR(drawFrontier({title, frontier.points, frontier.largest.stepMs}, arguments.output));
    }
    if (arguments.json)
        printJson(toJson(frontier, source.trace.get()));
    else
        print(frontier, plansExactly(arguments), std::cout);
    return 0;
}

} // namespace

void addFrontier(CLI::App& program, Action& chosen)
{
    const auto arguments = std::make_shared<FrontierArguments>();
    CLI::App* command = addCommand(program, "frontier",
                                   "The least recompute time for every budget, from the least feasible budget up");
    addPlanArguments(*command, *arguments);
    command->add_option("--points", arguments->points, "Budgets to solve (default 33)")->type_name("N");
    addCardArguments(*command, arguments->onCard,
                     "Say of each plan whether training runs on this GPU, given by name or as a size");
    command->add_option("-o,--output", arguments->output, "Write a picture or a table: .svg, .pdf, .png or .csv")
        ->type_name("FILE");
    command->callback([=, &chosen] { chosen = [=] { return run(*arguments); }; });
}

} // namespace headroom::cli
