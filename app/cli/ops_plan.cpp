// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/arguments.h"
#include "app/cli/command.h"
#include "app/cli/pictures.h"
#include "app/cli/table.h"
#include "core/joint/ops_planner.h"
#include "core/joint/ops_policy.h"
#include "core/trace/step_file.h"

#include <CLI/CLI.hpp>

#include <fstream>
#include <iostream>
#include <map>

namespace headroom::cli {

namespace {

constexpr int frontierPoints = 101;

struct Arguments
{
    std::string stepFile;
    std::string memoryBudget;
    std::string solver = "dp";
    std::string runtime = "flops";
    std::string points = std::to_string(frontierPoints);
    std::string output; ///< of ops-plan: a policy; of ops-frontier: a picture or a table
    std::vector<std::string> acUnits;
    std::string opTimes; ///< file of measured times
    bool monotone = false;
    bool json = false;
};

Result<OpsRequest> requestOf(const Arguments& arguments)
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
Status addTimes(const Arguments& arguments, const StepTrace& trace, OpsRequest& request)
{
    if (arguments.opTimes.empty())
        return {};
    Result<std::vector<double>> times = readOpTimes(arguments.opTimes, trace.ops.size());
    if (!times)
        return times.error();
    request.measuredMs = *std::move(times);
    return {};
}

Result<OpsPlanner> plannerOf(const Arguments& arguments)
{
    Result<StepTracePtr> trace = readStepTrace(arguments.stepFile);
    if (!trace)
        return trace.error();
    Result<OpsPlanner> planner = OpsPlanner::create(*std::move(trace));
    if (!planner)
        return Error{planner.error().kind, arguments.stepFile + ": " + planner.error().message};
    return planner;
}

/// Of forward and backward as recorded.
double stepMs(const StepTrace& trace)
{
    double ms = 0;
    for (std::uint32_t i = 0; i < trace.ops.size(); ++i)
        if (trace.ops.phase[OpId(i)] == Phase::forward || trace.ops.phase[OpId(i)] == Phase::backward)
            ms += trace.ops.ms[OpId(i)];
    return ms;
}

/// How an op is found in PyTorch: its module, its name, and which call of that name inside the module's forward.
struct OpPlaces
{
    explicit OpPlaces(const StepTrace& trace)
        : index(trace.ops.size(), 0)
    {
        std::map<std::pair<CallId, StringId>, int> counts;
        for (std::uint32_t i = 0; i < trace.ops.size(); ++i)
            if (trace.ops.phase[OpId(i)] == Phase::forward)
                index[i] = counts[{trace.ops.call[OpId(i)], trace.ops.name[OpId(i)]}]++;
    }
    std::vector<int> index; ///< by op
};

Json opJson(const StepTrace& trace, const OpPlaces& places, OpId op)
{
    return {{"module", op.valid() ? trace.moduleFqn(trace.ops.module[op]) : ""},
            {"op", op.valid() ? trace.opName(op) : ""},
            {"index", op.valid() ? places.index[op.value] : 0}};
}

/// An answer with what it is compared to.
struct Answer
{
    OpsPlan plan;
    OpsPlan standard; ///< of fraction 1
    Bytes baselinePeak = 0; ///< of the step as recorded
    const OpsPlan* lower = nullptr; ///< the frontier's plan, where it takes less at its peak; null: it does not
    std::vector<OpsPlan> frontier;
};

Result<Answer> answer(const OpsPlanner& planner, const Arguments& arguments, const OpsRequest& request)
{
    Answer found;
    Result<std::vector<OpsPlan>> frontier = planner.frontier(request, frontierPoints);
    if (!frontier)
        return frontier.error();
    found.frontier = *std::move(frontier);
    Result<OpsPlan> plan = planner.plan(request);
    if (!plan)
        return plan.error();
    found.plan = *std::move(plan);
    OpsRequest whole = request;
    whole.fraction = 1;
    Result<OpsPlan> standard = planner.plan(whole);
    if (!standard)
        return standard.error();
    found.standard = *std::move(standard);
    found.baselinePeak = planner.recordedPeak();
    if (found.frontier.empty())
        return found;
    const OpsPlan& lower = OpsPlanner::choose(found.frontier, request.fraction);
    if (lower.peak >= found.plan.peak)
        return found;
    if (!arguments.monotone) {
        found.lower = &lower;
    } else {
        if (lower.fraction > request.fraction)
            std::cerr << "headroom: note: with less than a fraction of " << formatNumber(lower.fraction, 2)
                      << " the peak would rise: this is the plan of that fraction\n";
        found.plan = lower;
    }
    return found;
}

Json toJson(const OpsPlanner& planner, const Arguments& arguments, const Answer& found)
{
    const StepTrace& trace = *planner.graph().trace;
    const OpsPlan& plan = found.plan;
    const OpPlaces places(trace);
    Json json;
    json["memory_budget"] = plan.fraction;
    json["solver"] = arguments.solver;
    json["runtime"] = arguments.runtime;
    json["cap_bytes"] = plan.cap;
    json["saved_bytes"] = plan.savedBytes;
    json["default_saved_bytes"] = found.standard.savedBytes;
    json["peak_bytes"] = plan.peak;
    json["default_peak_bytes"] = found.standard.peak;
    json["baseline_peak_bytes"] = found.baselinePeak;
    json["recompute_flops"] = plan.recomputeFlops;
    json["recompute_ms"] = plan.recomputeMs;
    json["step_ms"] = stepMs(trace);
    json["lower_peak"] = nullptr;
    if (found.lower != nullptr)
        json["lower_peak"] = {{"memory_budget", found.lower->fraction},
                              {"peak_bytes", found.lower->peak},
                              {"recompute_ms", found.lower->recomputeMs}};
    json["torch_compile"]
        = {{"activation_memory_budget", plan.fraction},
           {"activation_memory_budget_solver", arguments.solver},
           {"activation_memory_budget_runtime_estimator", arguments.runtime == "flops" ? "flops" : "profile"}};
    json["saved"] = Json::array();
    for (const StorageId storage : plan.saved) {
        Json row = opJson(trace, places, trace.storages.creator[storage]);
        row["bytes"] = trace.storages.bytes[storage];
        json["saved"].push_back(std::move(row));
    }
    json["recomputed"] = Json::array();
    for (const OpId op : plan.recomputed) {
        Json row = opJson(trace, places, op);
        row["flops"] = trace.ops.flops[op];
        row["ms"] = trace.ops.ms[op];
        json["recomputed"].push_back(std::move(row));
    }
    return json;
}

/// Ops by their name: how many, and what they amount to.
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

void print(const StepTrace& trace, const Arguments& arguments, const Answer& found, std::ostream& out)
{
    const OpsPlan& plan = found.plan;
    const double ms = stepMs(trace);
    out << "Fraction      " << formatNumber(plan.fraction, 4) << " of what the default min-cut saves, "
        << exactBytes(found.standard.savedBytes) << "\nSaved         " << exactBytes(plan.savedBytes) << ", at most "
        << exactBytes(plan.cap) << "\nPeak          " << exactBytes(plan.peak) << "; by default "
        << exactBytes(found.standard.peak) << ", without recomputation " << exactBytes(found.baselinePeak)
        << "\nRecompute     " << formatMs(plan.recomputeMs);
    if (ms > 0)
        out << ", " << formatPercent(plan.recomputeMs / ms) << " of the " << formatMs(ms) << " of forward and backward";
    out << "; " << formatNumber(plan.recomputeFlops / 1e9, 3) << " GFLOP\n";
    if (found.lower != nullptr)
        out << "Note          another plan takes less at its peak: " << exactBytes(found.lower->peak) << ", for "
            << formatMs(found.lower->recomputeMs) << " at a fraction of " << formatNumber(found.lower->fraction, 2)
            << "; --monotone answers with it\n";
    printOps(trace, plan, out);
    out << "\nFor torch.compile:\n  torch._functorch.config.activation_memory_budget = "
        << formatNumber(plan.fraction, 4) << "\n  torch._functorch.config.activation_memory_budget_solver = \""
        << arguments.solver << "\"\n  torch._functorch.config.activation_memory_budget_runtime_estimator = \""
        << (arguments.runtime == "flops" ? "flops" : "profile") << "\"\n";
}

/// The plan as selective checkpoints of modules, which eager PyTorch applies.
Status writePolicyOf(const OpsPlanner& planner, const Arguments& arguments, const OpsPlan& plan)
{
    const StepTracePtr& trace = planner.graph().trace;
    std::vector<ModuleId> modules;
    for (const std::string& fqn : arguments.acUnits) {
        const Result<ModuleId> module = findModule(*trace, fqn);
        if (!module)
            return badInput("--ac-unit: " + module.error().message);
        modules.push_back(*module);
    }
    if (modules.empty())
        modules = blocksOf(*trace);
    const Result<Policy> policy = opsPolicy(trace, plan, modules);
    if (!policy)
        return policy.error();
    const Status written = writePolicy(*policy, arguments.output);
    if (written.ok())
        std::cerr << "headroom: " << arguments.output << ": as selective checkpoints of " << policy->modules.size()
                  << " modules the step peaks at " << exactBytes(policy->predicted.peak) << " and recomputes "
                  << formatMs(policy->predicted.recomputeMs) << '\n';
    return written;
}

Result<int> runPlan(const Arguments& arguments)
{
    const Result<double> fraction = parseFraction("--memory-budget", arguments.memoryBudget);
    if (!fraction)
        return fraction.error();
    Result<OpsRequest> request = requestOf(arguments);
    if (!request)
        return request.error();
    request->fraction = *fraction;
    if (!arguments.acUnits.empty() && arguments.output.empty())
        return badInput("--ac-unit names a module to checkpoint in the policy: expected -o policy.json with it");
    const Result<OpsPlanner> planner = plannerOf(arguments);
    if (!planner)
        return planner.error();
    if (const Status status = addTimes(arguments, *planner->graph().trace, *request); !status)
        return status.error();
    const Result<Answer> found = answer(*planner, arguments, *request);
    if (!found)
        return found.error();
    if (!arguments.output.empty()) {
        const Status written = writePolicyOf(*planner, arguments, found->plan);
        if (!written)
            return written.error();
    }
    if (arguments.json)
        printJson(toJson(*planner, arguments, *found));
    else
        print(*planner->graph().trace, arguments, *found, std::cout);
    return 0;
}

Result<int> runFrontier(const Arguments& arguments)
{
    const Result<int> points = parseInteger("--points", arguments.points, 2, 10'000);
    if (!points)
        return points.error();
    Result<OpsRequest> request = requestOf(arguments);
    if (!request)
        return request.error();
    const Result<OpsPlanner> planner = plannerOf(arguments);
    if (!planner)
        return planner.error();
    if (const Status status = addTimes(arguments, *planner->graph().trace, *request); !status)
        return status.error();
    const Result<std::vector<OpsPlan>> plans = planner->frontier(*request, *points);
    if (!plans)
        return plans.error();
    const StepTrace& trace = *planner->graph().trace;
    if (!arguments.output.empty()) {
        FrontierPicture picture{trace.info.model, {}, stepMs(trace)};
        for (const OpsPlan& plan : *plans)
            picture.points.push_back({plan.peak, plan.recomputeMs, 0});
        const Status drawn = drawFrontier(picture, arguments.output);
        if (!drawn)
            return drawn.error();
    }
    Json json;
    json["default_saved_bytes"] = planner->defaultSavedBytes();
    json["baseline_peak_bytes"] = planner->recordedPeak();
    json["step_ms"] = stepMs(trace);
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

void addShared(CLI::App& command, Arguments& arguments)
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
    command.add_flag("--json", arguments.json, "Print one JSON document");
}

} // namespace

void addOpsPlan(CLI::App& program, Action& chosen)
{
    const auto arguments = std::make_shared<Arguments>();
    CLI::App* command = addCommand(program, "ops-plan",
                                   "Which ops of the whole step to run again, for a fraction of the activation memory");
    addShared(*command, *arguments);
    command
        ->add_option("--memory-budget", arguments->memoryBudget,
                     "0: only inputs are kept; 1: what torch.compile keeps by default; between: at most that share")
        ->required()
        ->type_name("FRACTION");
    command->add_flag(
        "--monotone", arguments->monotone,
        "Answer with the plan of `ops-frontier`, which takes no more at its peak than that of any larger fraction");
    command
        ->add_option("-o,--output", arguments->output,
                     "Write the plan as lists of ops to save in selective checkpoints of modules")
        ->type_name("policy.json");
    command->add_option("--ac-unit", arguments->acUnits, "A module to checkpoint in the policy (default: the blocks)")
        ->type_name("FQN");
    command->callback([=, &chosen] { chosen = [=] { return runPlan(*arguments); }; });
}

void addOpsFrontier(CLI::App& program, Action& chosen)
{
    const auto arguments = std::make_shared<Arguments>();
    CLI::App* command = addCommand(
        program, "ops-frontier",
        "Op-level plans by fraction, of which a smaller one never takes more at its peak than a larger one");
    addShared(*command, *arguments);
    command->add_option("--points", arguments->points, "Fractions to plan, spread evenly (default 101)")
        ->type_name("N");
    command->add_option("-o,--output", arguments->output, "Write a picture or a table: .svg, .pdf, .png or .csv")
        ->type_name("FILE");
    command->callback([=, &chosen] { chosen = [=] { return runFrontier(*arguments); }; });
}

} // namespace headroom::cli
