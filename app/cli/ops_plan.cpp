// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/command.h"
#include "app/cli/ops_arguments.h"
#include "app/cli/step_lines.h"
#include "app/cli/table.h"
#include "core/base/try.h"
#include "core/joint/ops_frontier.h"
#include "core/joint/ops_policy.h"
#include "core/policy/step_planner.h"
#include "core/predict/predict.h"
#include "core/predict/regions.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <utility>

namespace headroom::cli {

namespace {

constexpr int mostFractions = 101; ///< of a frontier

struct OpsPlanArguments : OpsArguments
{
    std::string memoryBudget; ///< empty: the card's
    std::string policyFile;
    std::vector<std::string> acUnits;
    bool monotone = false;
};

/// Returns the number of fractions in the frontier that an answer is compared with. Unless --monotone asks for the
/// frontier, a larger step has fewer, so that the answer takes no noticeable time.
int comparedFractions(const StepTrace& trace, bool monotone)
{
    constexpr std::size_t ops = 200'000;
    return monotone ? mostFractions : std::clamp(static_cast<int>(ops / (trace.ops.size() + 1)), 3, mostFractions);
}

/// Returns for each op how many ops of the same name its module's forward ran before it. PyTorch finds an op by its
/// module, its name and this index.
std::vector<int> opIndices(const StepTrace& trace)
{
    std::vector<int> indices(trace.ops.size(), 0);
    std::map<std::pair<CallId, StringId>, int> counts;
    for (std::uint32_t i = 0; i < trace.ops.size(); ++i)
        if (trace.ops.phase[OpId(i)] == Phase::forward)
            indices[i] = counts[{trace.ops.call[OpId(i)], trace.ops.name[OpId(i)]}]++;
    return indices;
}

Json opJson(const StepTrace& trace, const std::vector<int>& indices, OpId op)
{
    return {{"module", op.valid() ? trace.moduleFqn(trace.ops.module[op]) : ""},
            {"op", op.valid() ? trace.opName(op) : ""},
            {"index", op.valid() ? indices[op.value] : 0}};
}

/// The answer, and the plans that it is compared with.
struct ComparedAnswer
{
    PlanAnswer answer; ///< with a verdict if a card is given
    OpsPlan standard; ///< the plan for fraction 1
    std::optional<OpsPlan> lower; ///< the frontier's plan if it has a lower peak
    std::vector<OpsPlan> frontier;
    std::optional<HostedComparison> offload = {}; ///< with --offload

    const OpsPlan& plan() const { return answer.ops->plan(); }
};

/// Returns the plan of least recomputation that runs on the card; if none runs, the plan with the lowest peak.
Result<OpsPlan> planForCard(const OpsInput& input)
{
    const OpsPlanner& planner = input.planner;
    ASSIGN_OR_RETURN(std::vector<OpsPlan> plans, planner.frontier(input.request, mostFractions));
    if (plans.empty())
        return badInput("--card: the step has no op that can be recomputed");
    std::size_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < plans.size(); ++i)
        if (plans[i].recomputeMs < least
            && runOnCard(*input.card, *planner.graph().trace, planner.timeline(plans[i])).runs) {
            least = plans[i].recomputeMs;
            best = i;
        }
    return std::move(plans[best]);
}

/// Returns the plan of least recomputation that the request asks for, or that runs on the card, and compares it.
Result<ComparedAnswer> answer(const OpsInput& input, const OpsPlanArguments& arguments)
{
    const OpsPlanner& planner = input.planner;
    const StepTrace& trace = *planner.graph().trace;
    OpsRequest request = input.request;
    const bool forCard = arguments.memoryBudget.empty();
    OpsPlan plan;
    if (forCard) {
        ASSIGN_OR_RETURN(plan, planForCard(input));
        request.fraction = plan.fraction;
    }
    ASSIGN_OR_RETURN(const std::vector<OpsPlan> frontier,
                     planner.frontier(request, comparedFractions(trace, arguments.monotone)));
    if (!forCard) {
        ASSIGN_OR_RETURN(plan, planner.plan(request));
    }
    ComparedAnswer found;
    const double fraction = std::exchange(request.fraction, 1);
    ASSIGN_OR_RETURN(found.standard, planner.plan(request));
    if (!forCard && !frontier.empty()) {
        const OpsPlan& lower = OpsPlanner::choose(frontier, fraction);
        if (lower.peak < plan.peak && !arguments.monotone) {
            found.lower = lower;
        } else if (lower.peak < plan.peak) {
            if (lower.fraction > fraction)
                std::cerr << "torch-headroom: note: with less than a fraction of " << formatNumber(lower.fraction, 2)
                          << " the peak would rise: this is the plan of that fraction\n";
            plan = lower;
        }
    }
    found.frontier = frontier;
    found.answer = answerOf(planner, std::move(plan));
    if (input.card)
        found.answer.card = verdictOf(*input.card, trace, found.answer);
    return found;
}

/// Returns the modules with ops that no plan runs again, although backward needs their results.
std::vector<Obstacle> notCheckpointable(const OpsPlanner& planner)
{
    std::vector<Obstacle> modules;
    for (const auto& [module, reason] : planner.graph().keptModules)
        modules.push_back({planner.graph().trace->moduleFqn(module), reason});
    return modules;
}

/// The ops of forward whose results go to the host.
std::vector<OpId> hostedOps(const StepModel& model, const CheckpointPlan& regions)
{
    std::vector<OpId> found;
    for (const CheckpointRegion& region : regions) {
        const std::vector<OpId> ops = model.regionOps(region.module);
        for (std::size_t i = 0; region.hosted && i < ops.size(); ++i)
            if (region.hosted->ops[i])
                found.push_back(ops[i]);
    }
    return found;
}

Json hostedJson(const StepTrace& trace, const StepModel& model, const std::vector<int>& indices,
                const HostedComparison& found)
{
    Json json = policyJson(trace, found);
    json["offloaded"] = Json::array();
    for (const OpId op : hostedOps(model, found.hosted.regions)) {
        Json row = opJson(trace, indices, op);
        row["bytes"] = movedBytes(model, op);
        json["offloaded"].push_back(std::move(row));
    }
    return json;
}

Json toJson(const OpsPlanner& planner, const OpsPlanArguments& arguments, const ComparedAnswer& found)
{
    const StepTrace& trace = *planner.graph().trace;
    const OpsPlan& plan = found.plan();
    const Plan& figures = found.answer.plan;
    const std::vector<int> indices = opIndices(trace);
    Json json;
    json["memory_budget"] = plan.fraction;
    json["solver"] = arguments.solver;
    json["runtime"] = arguments.runtime;
    json["cap_bytes"] = plan.cap;
    json["saved_bytes"] = plan.savedBytes;
    json["default_saved_bytes"] = found.standard.savedBytes;
    json["peak_bytes"] = figures.peak;
    json["default_peak_bytes"] = found.standard.peak;
    json["baseline_peak_bytes"] = figures.baselinePeak;
    json["recompute_flops"] = plan.recomputeFlops;
    json["recompute_ms"] = figures.recomputeMs;
    json["step_ms"] = figures.stepMs;
    if (const auto& verdict = found.answer.card) {
        json["card"] = cardRunJson(*verdict->card, trace, verdict->run);
        json["card"]["least_capacity_bytes"] = verdict->leastMemory;
    }
    if (found.answer.clock)
        json["clock"] = clockJson(*found.answer.clock);
    json["lower_peak"] = nullptr;
    if (found.lower)
        json["lower_peak"] = {{"memory_budget", found.lower->fraction},
                              {"peak_bytes", found.lower->peak},
                              {"recompute_ms", found.lower->recomputeMs}};
    json["torch_compile"]
        = {{"activation_memory_budget", plan.fraction},
           {"activation_memory_budget_solver", arguments.solver},
           {"activation_memory_budget_runtime_estimator", arguments.runtime == "flops" ? "flops" : "profile"}};
    json["saved"] = Json::array();
    for (const StorageId storage : plan.saved) {
        Json row = opJson(trace, indices, trace.storages.creator[storage]);
        row["storage"] = storage.value; // `verify --ops-plan` finds it by this number
        row["bytes"] = trace.storages.bytes[storage];
        json["saved"].push_back(std::move(row));
    }
    json["recomputed"] = Json::array();
    for (const OpId op : plan.recomputed) {
        Json row = opJson(trace, indices, op);
        row["flops"] = trace.ops.flops[op];
        row["ms"] = trace.ops.ms[op];
        json["recomputed"].push_back(std::move(row));
    }
    if (found.offload)
        json["policy"] = hostedJson(trace, planner.model(), indices, *found.offload);
    addObstacles(json, "not_checkpointable", notCheckpointable(planner));
    return json;
}

/// Prints the number of ops by name, with their bytes and times.
void printOps(const StepTrace& trace, const OpsPlan& plan, std::ostream& out)
{
    using enum Table::Align;
    struct Sum
    {
        int saved = 0, recomputed = 0;
        Bytes bytes = 0;
        double ms = 0;
    };
    std::map<std::string_view, Sum> sums;
    for (const StorageId storage : plan.saved) {
        const OpId creator = trace.storages.creator[storage];
        Sum& sum = sums[creator.valid() ? trace.opName(creator) : "(made between ops)"];
        ++sum.saved;
        sum.bytes += trace.storages.bytes[storage];
    }
    for (const OpId op : plan.recomputed) {
        Sum& sum = sums[trace.opName(op)];
        ++sum.recomputed;
        sum.ms += trace.ops.ms[op];
    }
    Table table({{"Op"}, {"Results saved", right}, {"Bytes saved", right}, {"Runs again", right}, {"ms", right}});
    for (const auto& [op, sum] : sums)
        table.addRow({std::string(op), groupedDigits(sum.saved), groupedDigits(sum.bytes),
                      groupedDigits(sum.recomputed), formatNumber(sum.ms, 3)});
    if (!table.empty()) {
        out << '\n';
        table.print(out);
    }
}

void printVerdict(const CardVerdict& verdict, std::ostream& out)
{
    const auto& [card, run, least, better, tried] = verdict;
    out << "Card          "
        << (run.runs
                ? "runs on " + card->title + ", " + exactBytes(run.reservedPeak) + " reserved at most, " + runCell(run)
                : "does not run on " + card->title + ": " + run.reason)
        << "\n              The plan runs from " << formatBytes(least) << " for the allocator on.\n";
    printAssumptions(run.assumptions, out);
}

void print(const OpsPlanner& planner, const OpsPlanArguments& arguments, const ComparedAnswer& found, std::ostream& out)
{
    const StepTrace& trace = *planner.graph().trace;
    const OpsPlan& plan = found.plan();
    const Plan& figures = found.answer.plan;
    out << "Fraction      " << formatNumber(plan.fraction, 4) << " of what the default min-cut saves, "
        << exactBytes(found.standard.savedBytes) << "\nSaved         " << exactBytes(plan.savedBytes) << ", at most "
        << exactBytes(plan.cap) << "\nPeak          " << exactBytes(figures.peak) << "; by default "
        << exactBytes(found.standard.peak) << ", without recomputation " << exactBytes(figures.baselinePeak)
        << "\nRecompute     " << formatMs(figures.recomputeMs);
    if (figures.stepMs > 0)
        out << ", " << formatPercent(figures.recomputeMs / figures.stepMs) << " of the " << formatMs(figures.stepMs)
            << " of forward and backward";
    out << "; " << formatNumber(plan.recomputeFlops / 1e9, 3) << " GFLOP\n";
    if (found.answer.clock)
        out << "Step          " << clockText(*found.answer.clock) << '\n';
    if (found.answer.card)
        printVerdict(*found.answer.card, out);
    if (found.lower)
        out << "Note          another plan has a lower peak: " << exactBytes(found.lower->peak) << ", for "
            << formatMs(found.lower->recomputeMs) << " at a fraction of " << formatNumber(found.lower->fraction, 2)
            << "; --monotone answers with that plan\n";
    if (found.offload) {
        const Plan& hosted = found.offload->hosted.plan;
        out << "Policy        " << exactBytes(hosted.peak) << " at the peak and " << formatMs(hosted.recomputeMs)
            << " of recomputation;\n              without offload " << exactBytes(found.offload->plainTimeline.peak)
            << " and " << formatMs(found.offload->plainTimeline.recomputeMs) << '\n';
        printOffload(hosted, out);
    }
    printNotCheckpointable(notCheckpointable(planner), out);
    printOps(trace, plan, out);
    out << "\nFor torch.compile:\n  torch._functorch.config.activation_memory_budget = "
        << formatNumber(plan.fraction, 4) << "\n  torch._functorch.config.activation_memory_budget_solver = \""
        << arguments.solver << "\"\n  torch._functorch.config.activation_memory_budget_runtime_estimator = \""
        << (arguments.runtime == "flops" ? "flops" : "profile") << "\"\n";
}

/// Notes how training under the policy, which takes other memory than the plan, runs on the card.
/// Error (infeasible): it does not run.
Status noteOnCard(Policy& policy, const Card& card, const StepTrace& step, const std::optional<std::string>& settings)
{
    ASSIGN_OR_RETURN(const CheckpointPlan regions, checkpointPlan(step, policy));
    ASSIGN_OR_RETURN(const Timeline timeline, predict(step, regions));
    const CardRun run = runOnCard(card, step, timeline);
    noteCard(policy, card, run, leastMemory(card, step, timeline), settings);
    if (run.runs)
        return {};
    return Error{ErrorKind::infeasible,
                 "-o: as selective checkpoints of modules the plan does not run on " + card.title + ": " + run.reason
                     + "; nothing was written"};
}

/// Writes the plan as selective checkpoints of modules, which eager PyTorch applies. With a card, the policy has to run
/// there.
Status writePolicyOf(const OpsInput& input, const OpsPlanArguments& arguments, const std::vector<ModuleId>& modules,
                     const ComparedAnswer& found)
{
    const OpsPlanner& planner = input.planner;
    Policy policy;
    if (found.offload) {
        policy = found.offload->hosted.policy(planner.model());
    } else {
        ASSIGN_OR_RETURN(policy, opsPolicy(planner.model(), found.plan(), modules));
    }
    if (input.card)
        RETURN_IF_ERROR(noteOnCard(policy, *input.card, *planner.model().trace(), arguments.onCard.settings));
    const Status written = writePolicy(policy, arguments.policyFile);
    if (written.ok())
        std::cerr << "torch-headroom: " << arguments.policyFile << ": as selective checkpoints of "
                  << policy.modules.size() << " modules the step peaks at " << exactBytes(policy.predicted.peak)
                  << " and recomputes " << formatMs(policy.predicted.recomputeMs) << '\n';
    return written;
}

/// The modules of --ac-unit.
Result<std::vector<ModuleId>> modulesOf(const OpsPlanArguments& arguments, const StepTrace& trace)
{
    std::vector<ModuleId> modules;
    for (const std::string& fqn : arguments.acUnits) {
        const Result<ModuleId> module = findModule(trace, fqn);
        if (!module)
            return badInput("--ac-unit: " + module.error().message);
        modules.push_back(*module);
    }
    return modules;
}

Result<int> runPlan(const OpsPlanArguments& arguments)
{
    double fraction = 1;
    if (!arguments.memoryBudget.empty()) {
        ASSIGN_OR_RETURN(fraction, parseFraction("--memory-budget", arguments.memoryBudget));
    }
    if (!arguments.acUnits.empty() && arguments.policyFile.empty())
        return badInput("--ac-unit names a module to checkpoint in the policy: expected -o policy.json as well");
    ASSIGN_OR_RETURN(OpsInput input, readOpsInput(arguments));
    input.request.fraction = fraction;
    ASSIGN_OR_RETURN(const std::vector<ModuleId> modules, modulesOf(arguments, *input.planner.model().trace()));
    ASSIGN_OR_RETURN(ComparedAnswer found, answer(input, arguments));
    if (arguments.toHost.offload) {
        std::vector<OpsPlan> plans = found.frontier;
        plans.push_back(found.plan());
        plans.push_back(found.standard);
        ASSIGN_OR_RETURN(found.offload,
                         hostedOf(input, arguments, found.plan(), plans, modules, arguments.memoryBudget.empty()));
    }
    const std::optional<CardVerdict>& verdict = (found.offload ? found.offload->hosted : found.answer).card;
    const bool fails = verdict && !verdict->run.runs;
    if (!arguments.policyFile.empty() && !fails)
        RETURN_IF_ERROR(writePolicyOf(input, arguments, modules, found));
    if (arguments.json)
        printJson(toJson(input.planner, arguments, found));
    else
        print(input.planner, arguments, found, std::cout);
    if (fails)
        return Error{ErrorKind::infeasible,
                     (found.offload ? "the policy does not run on " : "the plan does not run on ")
                         + verdict->card->title + ": " + verdict->run.reason
                         + "; the least memory for the allocator is " + formatBytes(verdict->leastMemory)};
    return 0;
}

} // namespace

void addOpsPlan(CLI::App& program, Action& chosen)
{
    const auto arguments = std::make_shared<OpsPlanArguments>();
    CLI::App* command = addCommand(program, "ops-plan",
                                   "Ops of the whole step to run again, for a fraction of the activation memory");
    addOpsArguments(*command, *arguments);
    command
        ->add_option("--memory-budget", arguments->memoryBudget,
                     "0: only inputs are kept; 1: what torch.compile keeps by default; between: at most that share; "
                     "by default the share of least recomputation that runs on the card")
        ->type_name("FRACTION");
    addCardArguments(*command, arguments->onCard,
                     "Card for training: a GPU's name, or a size: memory for the caching allocator");
    command->add_flag("--monotone", arguments->monotone,
                      "Answer with the plan of `ops-frontier`: no larger fraction has a lower peak");
    command
        ->add_option("-o,--output", arguments->policyFile,
                     "Write the plan as lists of ops to save in selective checkpoints of modules")
        ->type_name("policy.json");
    command->add_option("--ac-unit", arguments->acUnits, "A module to checkpoint in the policy (default: the blocks)")
        ->type_name("FQN");
    addOffloadArguments(
        *command, arguments->toHost,
        "Also find a policy of the same memory with results of ops and arguments of modules in pinned host memory; -o "
        "writes that policy");
    command->callback([=, &chosen] {
        if (arguments->memoryBudget.empty() && arguments->onCard.card.empty())
            throw CLI::RequiredError("Either --memory-budget or --card");
        chosen = [=] { return runPlan(*arguments); };
    });
}

} // namespace headroom::cli
