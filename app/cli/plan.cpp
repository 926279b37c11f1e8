// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/arguments.h"
#include "app/cli/command.h"
#include "app/cli/step_lines.h"
#include "app/cli/table.h"
#include "core/base/printable_text.h"
#include "core/base/try.h"
#include "core/cost/card_memory.h"
#include "core/plan/piecewise.h"
#include "core/policy/card.h"
#include "core/policy/card_planner.h"
#include "core/policy/plan_answer.h"
#include "core/policy/trainer_plan.h"
#include "core/predict/step_clock.h"
#include "core/trace/phase_times.h"
#include "core/trace/remarks.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>

namespace headroom::cli {

namespace {

struct PlanCommandArguments : PlanArguments
{
    std::string budget; ///< empty: the card's memory
    CardArguments onCard;
    std::string policyFile;
    std::string trainer; ///< the trainer for which to print a configuration; empty: none
};

/// The policy of a plan of PyTorch's formulation. Its prediction is that of its execution, not the planner's coarser
/// model of memory.
Result<Policy> modelPolicy(const StepTrace& step, const PlanAnswer& answer)
{
    ASSIGN_OR_RETURN(Policy policy, makePolicy(step, answer.plan));
    if (answer.timeline) {
        policy.predicted.peak = answer.timeline->peak;
        policy.predicted.recomputeMs = answer.timeline->recomputeMs;
    }
    return policy;
}

/// Solves PyTorch's formulation: memory as its ModuleInfo counts it.
Result<PlanAnswer> answerModel(const PlanSource& source, const PlanRequest& request)
{
    ASSIGN_OR_RETURN(const PiecewisePlanner planner, PiecewisePlanner::create(source.info));
    PlanAnswer answer;
    ASSIGN_OR_RETURN(answer.plan, planner.solve(request));
    if (!source.trace)
        return answer;
    answer.plan.stepMs = forwardBackwardMs(*source.trace);
    if (answer.plan.status == PlanStatus::infeasible)
        return answer;
    ASSIGN_OR_RETURN(const Policy policy, modelPolicy(*source.trace, answer));
    ASSIGN_OR_RETURN(answer.regions, checkpointPlan(*source.trace, policy));
    ASSIGN_OR_RETURN(Timeline timeline, predict(*source.trace, answer.regions));
    answer.timeline = std::make_shared<const Timeline>(std::move(timeline));
    return answer;
}

/// Whether the plan for --budget runs on the card of the recording; nullopt: it is unknown, or no plan fits.
std::optional<CardVerdict> onRecordedCard(const StepTrace& step, const PlanAnswer& answer)
{
    if (!answer.fits() || answer.plan.worldSize > 1)
        return std::nullopt;
    const std::optional<Card> card = recordedCard(step);
    if (!card)
        return std::nullopt;
    return CardVerdict{std::make_shared<const Card>(*card), runOnCard(*card, step, *answer.timeline)};
}

/// Solves the exact formulation: all memory on the device counts.
Result<PlanAnswer> answerDevice(const StepPlanner& planner, const PlanRequest& request,
                                const PlanCommandArguments& arguments)
{
    ASSIGN_OR_RETURN(std::optional<Card> card, cardOf(arguments.onCard, *planner.trace()));
    if (card)
        return planForCardAndSettings(planner, request, std::make_shared<const Card>(*std::move(card)));
    ASSIGN_OR_RETURN(PlanAnswer answer, planner.solve(request));
    answer.card = onRecordedCard(*planner.trace(), answer);
    return answer;
}

/// The policy of a plan that fits, with the verdict of the card of --card.
Policy devicePolicy(const StepPlanner& planner, const PlanAnswer& answer, const PlanCommandArguments& arguments)
{
    Policy policy = answer.policy(planner.model());
    if (!arguments.onCard.card.empty())
        noteCard(policy, *answer.card->card, answer.card->run, answer.card->leastMemory, arguments.onCard.settings);
    return policy;
}

/// Answers the request, and writes the policy of a plan that fits if -o asks for one.
Result<PlanAnswer> answerAndWrite(const PlanSource& source, const PlanRequest& request,
                                  const PlanCommandArguments& arguments)
{
    const bool writes = !arguments.policyFile.empty();
    if (!plansExactly(arguments)) {
        ASSIGN_OR_RETURN(PlanAnswer answer, answerModel(source, request));
        if (writes && answer.fits()) {
            ASSIGN_OR_RETURN(const Policy policy, modelPolicy(*source.trace, answer));
            RETURN_IF_ERROR(writePolicy(policy, arguments.policyFile));
        }
        return answer;
    }
    ASSIGN_OR_RETURN(const StepPlanner planner, StepPlanner::create(source.trace));
    ASSIGN_OR_RETURN(PlanAnswer answer, answerDevice(planner, request, arguments));
    if (writes && answer.fits())
        RETURN_IF_ERROR(writePolicy(devicePolicy(planner, answer, arguments), arguments.policyFile));
    return answer;
}

/// Prints a note if the budget is more than the card of the recording has.
void printLargeBudget(Bytes budget, const StepTrace& step, std::ostream& out)
{
    const Result<DeviceSpec> spec = findDeviceSpec(step.info.gpu);
    if (!spec)
        return;
    if (const Bytes usable = cardMemory(*spec, step).usable(); budget > usable)
        out << "              note: the budget is above the " << exactBytes(usable) << " that a " << spec->title
            << " has\n              without CUDA's context, cuBLAS's workspaces and NCCL's buffers.\n";
}

/// Prints whether training runs on the card.
void printCard(const CardVerdict& on, std::ostream& out)
{
    const std::string settings = allocatorSettings(on.card->rules);
    const std::string what
        = on.card->name.empty() ? "a card with " + on.card->title + " for the allocator" : on.card->title;
    const std::string with = settings.empty() ? "" : ", with PYTORCH_CUDA_ALLOC_CONF=" + settings;
    if (on.run.runs)
        out << "Card          runs on " << what << with << ":\n              " << exactBytes(on.run.reservedPeak)
            << " reserved at most, " << formatBytes(on.run.left) << " left\n";
    else
        out << "Card          does not run on " << what << with << ":\n              " << printableText(on.run.reason)
            << "\n              (step " << on.run.failedStep << " of training)\n";
    if (on.run.runs && on.run.retries > 0)
        out << "              Requests that wait until unused segments went back: " << on.run.retries
            << " in a step.\n";
    if (on.leastMemory > 0)
        out << "              " << (on.run.runs ? "The plan" : "A plan") << " runs from " << formatBytes(on.leastMemory)
            << " for the allocator on.\n";
    printAssumptions(on.run.assumptions, out);
    if (on.better)
        out << "Settings      PYTORCH_CUDA_ALLOC_CONF=" << on.better->settings
            << (on.run.runs ? " saves " + formatMs(on.better->savedMs) + " in each step"
                            : std::string(" makes a plan possible"))
            << ":\n              --settings " << on.better->settings << " plans with these settings.\n";
}

void printRemarks(const PlanSource& source, std::ostream& out)
{
    for (const std::string& remark : source.trace ? planRemarks(*source.trace) : std::vector<std::string>())
        out << "Remark        " << printableText(remark) << '\n';
}

/// Prints the modules that move tensors to the host: what each moves, and how long the GPU waits for the copies.
void printOffloaded(const StepTrace& step, const CheckpointPlan& regions, std::ostream& out)
{
    using enum Table::Align;
    const auto modules = offloadByModule(step, regions);
    if (!modules)
        return;
    Table table({{"Module"}, {"Offloads"}, {"To the host", right}, {"Copies", right}, {"Exposed", right}});
    for (const ModuleOffload& module : *modules)
        table.addRow({std::string(step.moduleFqn(module.module)), std::string(module.what()),
                      formatBytes(module.copies.bytes), formatMs(module.copies.copyMs),
                      formatMs(module.copies.exposedMs)});
    out << '\n';
    table.print(out);
}

/// `clock` is clockText() of the step under the policy; empty: the step has no clock.
void print(const PlanAnswer& answer, const PlanSource& source, const PlanCommandArguments& arguments,
           const std::string& clock, std::ostream& out)
{
    const Plan& plan = answer.plan;
    const double scriptMs = source.trace ? recomputedMs(*source.trace) : 0;
    out << "Plan          " << planStatusName(plan.status);
    if (plan.gap > 0)
        out << "; a better plan saves at most " << formatMs(plan.gapMs())
            << (plan.stepMs > 0 ? ", " + formatPercent(plan.gapMs() / plan.stepMs) + " of forward and backward" : "");
    out << "\nBudget        " << exactBytes(plan.budget);
    if (plan.worldSize > 1)
        out << " on each of " << plan.worldSize << " ranks";
    out << "\n              Counted: " << countedMemory(plansExactly(arguments)) << ".\n";
    if (plan.worldSize > 1)
        out << "              Calculated from a step of one GPU, without gathered parameters, buffers of collectives "
               "and\n              time of collectives; record the script with --nproc-per-node to count all.\n";
    if (source.trace && arguments.onCard.card.empty())
        printLargeBudget(plan.budget, *source.trace, out);
    if (answer.card)
        printCard(*answer.card, out);
    if (plan.status == PlanStatus::infeasible) {
        out << "Least budget  " << exactBytes(plan.leastBudget) << '\n';
        printRemarks(source, out);
        printNotCheckpointable(notCheckpointable(*source.info), out);
        if (scriptMs > 0)
            out << "Starts from   " << ownCheckpoints(scriptMs, "\n              ") << '\n';
        return;
    }
    out << "Peak          " << exactBytes(plan.peak) << "; without checkpointing " << exactBytes(plan.baselinePeak)
        << (plan.worldSize > 1 && !plansExactly(arguments) ? " on one card" : "") << '\n';
    printRemarks(source, out);
    out << "Recompute     " << formatMs(plan.recomputeMs);
    if (plan.stepMs > 0)
        out << ", " << formatPercent(plan.recomputeMs / plan.stepMs) << " of the " << formatMs(plan.stepMs)
            << " of forward and backward" << (source.trace ? axisNote(*source.trace) : std::string());
    out << '\n';
    printOffload(plan, out);
    if (source.trace)
        out << "Times         " << timesTitle(source.trace->info) << '\n';
    if (!clock.empty())
        out << "Step          " << clock << '\n';
    if (scriptMs > 0)
        out << "Starts from   " << ownCheckpoints(scriptMs, "\n              ") << '\n';
    if (plan.msPerGiB > 0)
        out << "Price         " << formatNumber(plan.msPerGiB, 2) << " ms per GiB\n";
    if (!plan.binding.module.empty())
        out << "Tightest      " << printableText(plan.binding.module) << ", " << plan.binding.phase << '\n';
    if (answer.timeline && !plansExactly(arguments))
        out << "On the device " << exactBytes(answer.timeline->peak)
            << "\n              The predicted peak of the step under this plan: everything counts, optimizer state "
               "included;\n              --formulation exact plans for that.\n";
    printNotCheckpointable(notCheckpointable(*source.info), out);
    printWholeOnly(wholeOnly(*source.info), out);
    if (offloads(answer.regions))
        printOffloaded(*source.trace, answer.regions, out);
    if (plan.decisions.empty()) {
        out << "\nNothing has to be recomputed.\n";
        return;
    }
    out << '\n';
    const char* share = plansExactly(arguments) ? "Activations discarded" : "SAC memory discarded";
    Table table({{"Checkpointed module"}, {share, Table::Align::right}});
    for (const auto& [fqn, ratio] : plan.decisions)
        table.addRow({fqn, formatPercent(ratio)});
    table.print(out);
}

/// Prints the best plan among a trainer's own options as the trainer's configuration, and nothing else, so that it can
/// be redirected into a file.
Result<int> printTrainerConfig(const PlanCommandArguments& arguments, const PlanRequest& request)
{
    const Result<Trainer> trainer = parseTrainer(arguments.trainer);
    if (!trainer)
        return badInput("--trainer: " + trainer.error().message);
    if (arguments.stepFile.empty() || arguments.json)
        return badInput("--trainer prints a trainer's configuration for a recorded step: expected a step file, and no "
                        "--json");
    if (!request.pins.empty() || !request.acUnits.empty() || !request.fsdpUnits.empty() || request.offload
        || !arguments.formulation.empty())
        return badInput("--trainer plans with the trainer's own options: expected no --pin, --ac-unit, --fsdp-unit, "
                        "--offload or --formulation");
    ASSIGN_OR_RETURN(const PlanSource source, readPlanSource(arguments));
    ASSIGN_OR_RETURN(const PlanAnswer step, planForTrainer(source.trace, *trainer, asRecorded(request, source)));
    if (step.plan.status == PlanStatus::infeasible)
        return Error{ErrorKind::infeasible, step.plan.reason};
    const Policy policy = step.policy(source.trace);
    ASSIGN_OR_RETURN(const std::string config, trainerConfig(*source.trace, policy, *trainer));
    if (!arguments.policyFile.empty())
        RETURN_IF_ERROR(writePolicy(policy, arguments.policyFile));
    std::cout << "# predicted: peak " << exactBytes(step.plan.peak) << ", recompute " << formatMs(step.plan.recomputeMs)
              << '\n'
              << config;
    return 0;
}

Result<int> run(const PlanCommandArguments& arguments)
{
    ASSIGN_OR_RETURN(PlanRequest request, planRequest(arguments));
    if (arguments.onCard.card.empty()) {
        const Result<Bytes> budget = parseBytes(arguments.budget);
        if (!budget)
            return badInput("--budget " + budget.error().message);
        request.budget = *budget;
    } else if (!plansExactly(arguments) || request.worldSize > 1 || !arguments.trainer.empty()) {
        return badInput(cardNeedsStep);
    }
    if (!arguments.policyFile.empty() && arguments.stepFile.empty())
        return badInput(
            "-o writes a policy with the ops of a recorded step: expected a step file in place of --module-info");
    if (!arguments.trainer.empty())
        return printTrainerConfig(arguments, request);
    ASSIGN_OR_RETURN(const PlanSource source, readPlanSource(arguments));
    request = asRecorded(std::move(request), source);
    ASSIGN_OR_RETURN(const PlanAnswer found, answerAndWrite(source, request, arguments));
    if (arguments.json) {
        Json document = toJson(found, source.trace.get(), *source.info, plansExactly(arguments));
        if (source.trace)
            RETURN_IF_ERROR(addClock(document, *source.trace, found.regions));
        printJson(document);
    } else {
        std::string clock;
        if (source.trace && found.timeline && hasClock(*source.trace)) {
            ASSIGN_OR_RETURN(clock, clockText(*source.trace, found.regions));
        }
        print(found, source, arguments, clock, std::cout);
    }
    if (found.plan.status == PlanStatus::infeasible)
        return Error{ErrorKind::infeasible, found.plan.reason};
    return 0;
}

} // namespace

void addPlan(CLI::App& program, Action& chosen)
{
    const auto arguments = std::make_shared<PlanCommandArguments>();
    CLI::App* command = addCommand(program, "plan", "The checkpoint plan of least recompute time under a budget");
    addPlanArguments(*command, *arguments);
    CLI::Option* budget
        = command->add_option("--budget", arguments->budget, "Memory that the step may take, as 1.6GiB; this or --card")
              ->type_name("SIZE");
    addCardArguments(*command, arguments->onCard,
                     "Card for training: a GPU's name, or a size: memory for the caching allocator")
        ->excludes(budget);
    command->add_option("-o,--output", arguments->policyFile, "Write the policy that PyTorch training applies")
        ->type_name("policy.json");
    command
        ->add_option("--trainer", arguments->trainer,
                     "Plan with a trainer's own options for checkpointing, and print the trainer's configuration")
        ->type_name("torchtitan|huggingface");
    command->callback([=, &chosen] {
        if (arguments->budget.empty() && arguments->onCard.card.empty())
            throw CLI::RequiredError("Either --budget or --card");
        chosen = [=] { return run(*arguments); };
    });
}

} // namespace headroom::cli
