// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/op_policy.h"
#include "app/cli/arguments.h"
#include "app/cli/command.h"
#include "app/cli/table.h"
#include "core/base/try.h"
#include "core/plan/plan.h"
#include "core/sac/step_statistics.h"

#include <CLI/CLI.hpp>

#include <iostream>

namespace headroom::cli {

namespace {

struct OpPolicyArguments
{
    std::string stepFile;
    std::string module;
    std::string statsFile;
    std::string memoryBudget;
    TimeChoice times;
    bool json = false;
};

Result<SacStats> statsOf(const OpPolicyArguments& arguments)
{
    if (arguments.stepFile.empty() == arguments.statsFile.empty())
        return badInput("expected either a step file with --module FQN, or --sac-stats FILE.json");
    if (!arguments.statsFile.empty())
        return readSacStats(arguments.statsFile, arguments.module);
    if (arguments.module.empty())
        return badInput(
            "--module is missing: expected the name of a module with children, as `torch-headroom modules` lists "
            "them");
    ASSIGN_OR_RETURN(const StepTracePtr trace, readStep(arguments.stepFile, arguments.times));
    const Result<ModuleId> module = findModule(*trace, arguments.module);
    if (!module)
        return badInput(arguments.stepFile + ": " + module.error().message);
    std::map<std::string, SacStats> stats = sacStats(*trace);
    const auto found = stats.find(arguments.module);
    if (found == stats.end())
        return badInput(arguments.stepFile + ": `" + arguments.module
                        + "` has no statistics of selective checkpointing: expected a module with children that ran");
    return std::move(found->second);
}

void print(const SacStats& stats, const OpPolicy& policy, std::ostream& out)
{
    using enum Table::Align;
    out << "Kept       " << exactBytes(policy.memory) << "\nRecompute  " << formatMs(policy.recomputeMs) << "\n\n";
    Table table({{"Op"}, {"Decision"}, {"Bytes", right}, {"ms", right}});
    for (std::size_t op = 0; op < policy.save.size(); ++op) {
        table.addRow({stats.funcNames[op], policy.save[op] ? "save" : "recompute", groupedDigits(stats.memory[op]),
                      formatNumber(stats.runtimes[op], 5)});
    }
    table.print(out);
}

/// If no policy fits, the document has the same keys and says why.
Json toJson(const Result<OpPolicy>& policy)
{
    Json json;
    json["save"] = Json::array();
    if (policy)
        for (const bool save : policy->save)
            json["save"].push_back(save ? 1 : 0);
    json["memory_bytes"] = policy ? policy->memory : -1;
    json["recompute_ms"] = policy ? policy->recomputeMs : 0.0;
    const PlanStatus status = !policy ? PlanStatus::infeasible
        : policy->gap > 0             ? PlanStatus::feasible
                                      : PlanStatus::optimal;
    json["status"] = planStatusName(status);
    json["reason"] = policy ? "" : policy.error().message;
    return json;
}

Result<int> run(const OpPolicyArguments& arguments)
{
    ASSIGN_OR_RETURN(const double budget, parseFraction("--memory-budget", arguments.memoryBudget));
    ASSIGN_OR_RETURN(const SacStats stats, statsOf(arguments));
    const Result<OpPolicy> policy = opPolicy(stats, budget);
    if (!policy && policy.error().kind != ErrorKind::infeasible)
        return policy.error();
    if (arguments.json)
        printJson(toJson(policy));
    else if (policy)
        print(stats, *policy, std::cout);
    if (!policy)
        return policy.error();
    return 0;
}

} // namespace

void addOpPolicy(CLI::App& program, Action& chosen)
{
    const auto arguments = std::make_shared<OpPolicyArguments>();
    CLI::App* command
        = addCommand(program, "op-policy", "Ops of a module to save for least recompute time under a memory budget");
    command->add_option("step", arguments->stepFile, "Step file");
    command->add_option("--module", arguments->module, "Name of the module")->type_name("FQN");
    CLI::Option* document
        = command->add_option("--sac-stats", arguments->statsFile, "PyTorch's SACStats in place of a step file")
              ->type_name("FILE.json");
    command
        ->add_option("--memory-budget", arguments->memoryBudget,
                     "Share 0..1 of the module's activation memory that may be kept")
        ->required()
        ->type_name("FRACTION");
    addTimeArguments(*command, arguments->times);
    excludeTimes(*command, document);
    addJsonFlag(*command, arguments->json);
    command->callback([=, &chosen] { chosen = [=] { return run(*arguments); }; });
}

} // namespace headroom::cli
