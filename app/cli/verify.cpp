// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/arguments.h"
#include "app/cli/command.h"
#include "app/cli/table.h"
#include "app/recording/recorder_program.h"
#include "core/base/try.h"
#include "core/policy/policy.h"
#include "core/predict/memory_levels.h"
#include "core/predict/predict.h"
#include "core/trace/phase_times.h"
#include "core/trace/whole_step.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string_view>
#include <vector>

namespace headroom::cli {

namespace {

struct VerifyArguments
{
    std::string stepFile;
    std::string executedFile;
    std::string policyFile;
    bool json = false;
};

struct Report
{
    LevelComparison memory;
    Policy policy;
    Bytes baselinePeak = 0; ///< of the step without the policy
    Timeline predicted;
    double stepMs = 0;
    double executedRecomputeMs = 0; ///< besides what the script's own checkpoints recompute without the policy
};

Result<Report> compare(const StepTrace& step, const StepTrace& executed, Policy policy)
{
    if (step.info.gpu != executed.info.gpu)
        return badInput("the steps were recorded on `" + step.info.gpu + "` and on `" + executed.info.gpu
                        + "`, which choose other kernels: expected the same --gpu for both");
    ASSIGN_OR_RETURN(const CheckpointPlan plan, checkpointPlan(step, policy));
    const Result<Timeline> recorded = predict(step, {});
    const Result<Timeline> predicted = predict(step, plan);
    const Result<Timeline> ran = predict(executed, {});
    for (const auto* timeline : {&recorded, &predicted, &ran})
        if (!*timeline)
            return timeline->error();
    return Report{compareLevels(step, *predicted, executed, *ran),
                  std::move(policy),
                  recorded->peak,
                  *predicted,
                  forwardBackwardMs(step),
                  std::max(0.0, recomputedMs(executed) - recomputedMs(step))};
}

/// Returns the first disagreement with the prediction or the budget as an error; success if there is none.
Status verdict(const Report& report)
{
    if (!report.memory.timelinesAgree())
        return Error{ErrorKind::internal, "executed and predicted memory part: " + report.memory.firstDifference};
    if (report.policy.worldSize == 1 && report.memory.executedPeak > report.policy.budget)
        return Error{ErrorKind::infeasible,
                     "the executed step takes " + exactBytes(report.memory.executedPeak)
                         + ", more than the policy's budget of " + exactBytes(report.policy.budget)
                         + "; make the policy of this very step"};
    return {};
}

/// Returns the keys of `torch-headroom-record verify --json`.
Json toJson(const Report& report, const StepTrace& step, const Status& status)
{
    Json json;
    json["model"] = step.info.model;
    json["gpu"] = step.info.gpu;
    json["agrees"] = status.ok();
    json["reason"] = status ? std::string() : status.error().message;
    json["budget_bytes"] = report.policy.budget;
    json["world_size"] = report.policy.worldSize;
    json["baseline_peak_bytes"] = report.baselinePeak;
    json["predicted_peak_bytes"] = report.predicted.peak;
    json["executed_peak_bytes"] = report.memory.executedPeak;
    json["allocations"] = report.memory.allocations;
    json["unequal_allocations"] = report.memory.unequalAllocations;
    json["only_gathered_differs"] = !report.memory.gatherDifference.empty();
    json["largest_difference_bytes"] = report.memory.largestDifference;
    json["step_ms"] = report.stepMs;
    json["predicted_recompute_ms"] = report.predicted.recomputeMs;
    json["executed_recompute_ms"] = report.executedRecomputeMs;
    json["gradients"] = {{"compared", false}, {"reason", "recorded steps hold no values"}};
    return json;
}

void print(const Report& report, const StepTrace& step)
{
    const LevelComparison& memory = report.memory;
    std::cout << step.info.model << ", " << report.policy.modules.size()
              << (report.policy.modules.size() == 1 ? " module" : " modules") << " checkpointed\n"
              << "Budget        " << exactBytes(report.policy.budget) << "\nExecuted      "
              << exactBytes(memory.executedPeak) << "; without the policy " << exactBytes(report.baselinePeak)
              << "\nPredicted     " << exactBytes(report.predicted.peak) << "\nTimeline      ";
    if (!memory.gatherDifference.empty())
        std::cout << "equal to the byte, peak included, but for what was gathered: " << memory.unequalAllocations
                  << " of " << memory.allocations << " allocations differ, by " << exactBytes(memory.largestDifference)
                  << " at most\n              (" << memory.gatherDifference << ")\n";
    else if (memory.timelinesAgree())
        std::cout << "equal to the byte after each of " << groupedDigits(static_cast<Bytes>(memory.allocations))
                  << " allocations\n";
    else
        std::cout << memory.unequalAllocations << " of " << memory.allocations << " allocations differ, by "
                  << exactBytes(memory.largestDifference) << " at most\n";
    std::cout << "Recompute     " << formatMs(report.executedRecomputeMs) << ", predicted "
              << formatMs(report.predicted.recomputeMs) << ", forward and backward " << formatMs(report.stepMs) << '\n';
}

/// Reads a step that was recorded to the end.
Result<StepTracePtr> readWholeStep(const std::string& file)
{
    ASSIGN_OR_RETURN(StepTracePtr step, readStep(file, {}));
    if (const Status whole = checkWhole(*step, "it cannot be compared"); !whole)
        return badInput(file + ": " + whole.error().message);
    return step;
}

Status checkArguments(const VerifyArguments& arguments, const std::vector<std::string>& others)
{
    const std::string usage = ": expected torch-headroom verify step.hrs --executed executed.hrs --policy policy.json";
    if (arguments.executedFile.empty())
        return Error{ErrorKind::internal, missingRecorder};
    if (!others.empty())
        return badInput("`" + others.front() + "` is no option for two recorded steps" + usage);
    if (arguments.stepFile.empty())
        return badInput("the step without the policy is missing" + usage);
    if (arguments.policyFile.empty())
        return badInput("--policy is missing: name the policy that the step ran under, for example "
                        "--policy policy.json");
    return {};
}

Result<int> run(const VerifyArguments& arguments, const std::vector<std::string>& others)
{
    RETURN_IF_ERROR(checkArguments(arguments, others));
    ASSIGN_OR_RETURN(const StepTracePtr step, readWholeStep(arguments.stepFile));
    ASSIGN_OR_RETURN(const StepTracePtr executed, readWholeStep(arguments.executedFile));
    ASSIGN_OR_RETURN(Policy policy, readPolicy(arguments.policyFile));
    ASSIGN_OR_RETURN(const Report report, compare(*step, *executed, std::move(policy)));
    const Status status = verdict(report);
    if (arguments.json)
        printJson(toJson(report, *step, status));
    else
        print(report, *step);
    if (!status)
        return status.error();
    return 0;
}

} // namespace

bool comparesSteps(char** arguments)
{
    for (; *arguments != nullptr; ++arguments) {
        const std::string_view argument = *arguments;
        if (argument == "--executed" || argument.starts_with("--executed="))
            return true;
    }
    return false;
}

void addVerify(CLI::App& program, Action& chosen)
{
    const auto arguments = std::make_shared<VerifyArguments>();
    CLI::App* command = addCommand(program, "verify", "Compare a step that ran under a policy with its prediction");
    command->add_option("STEP", arguments->stepFile, "The step without the policy")->type_name("step.hrs");
    command->add_option("--executed", arguments->executedFile, "The same step, recorded with the policy applied")
        ->type_name("executed.hrs");
    command->add_option("--policy", arguments->policyFile, "The policy, as torch-headroom plan -o writes it")
        ->type_name("policy.json");
    command->add_flag("--json", arguments->json, "Print one JSON document");
    command->footer("A model in place of the step is run by torch-headroom-record with the policy and without:\n"
                    "torch-headroom verify MODEL --policy policy.json [record's options], where torch-headroom-record "
                    "is installed\n"
                    "beside this program.");
    command->allow_extras(); // options of torch-headroom-record, to report a missing torch-headroom-record
    command->callback([=, &chosen] {
        const std::vector<std::string> others = command->remaining();
        chosen = [=] { return run(*arguments, others); };
    });
}

} // namespace headroom::cli
