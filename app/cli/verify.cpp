// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/arguments.h"
#include "app/cli/command.h"
#include "app/cli/python_program.h"
#include "app/recording/recorder_program.h"
#include "app/recording/step_processes.h"
#include "core/base/try.h"
#include "core/cost/device_specs.h"
#include "core/joint/ops_planner.h"
#include "core/joint/ops_policy.h"
#include "core/joint/ops_request.h"
#include "core/policy/policy.h"
#include "core/policy/verification_report.h"
#include "core/predict/predict.h"
#include "core/trace/out_of_memory.h"
#include "core/trace/phase_times.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string_view>
#include <vector>

namespace headroom::cli {

namespace {

constexpr std::string_view stepSuffix = ".hrs";

struct VerifyArguments
{
    std::string stepFile;
    std::string executedFile;
    std::string policyFile;
    std::string opsPlanFile;
    std::string python;
    std::string outputFile;
    bool progress = false;
    bool json = false;
};

/// "batch 8, sequence 1024"
std::string sizesOf(const StepInfo& info)
{
    return "batch " + std::to_string(info.batch)
        + (info.sequence > 0 ? ", sequence " + std::to_string(info.sequence) : std::string());
}

Result<VerificationReport> compare(const StepTrace& step, const StepTrace& executed, const Policy& policy)
{
    if (step.info.gpu != executed.info.gpu)
        return badInput("the steps were recorded on `" + step.info.gpu + "` and on `" + executed.info.gpu
                        + "`, and kernels differ between GPUs: expected the same --gpu for both");
    ASSIGN_OR_RETURN(const CheckpointPlan plan, checkpointPlan(step, policy));
    ASSIGN_OR_RETURN(const Timeline recorded, predict(step, {}));
    ASSIGN_OR_RETURN(const Timeline predicted, predict(step, plan));
    ASSIGN_OR_RETURN(const Timeline ran, predict(executed, {}));
    VerificationReport report;
    report.model = step.info.model;
    report.gpu = step.info.gpu;
    const Result<DeviceSpec> card = findDeviceSpec(step.info.gpu);
    report.device = card ? card->title : step.info.gpu;
    report.simulated = step.info.simulated;
    report.baselinePeak = recorded.peak;
    report.predictedPeak = predicted.peak;
    report.memory = compareLevels(step, predicted, executed, ran);
    if (!report.memory.timelinesAgree() && sizesOf(step.info) != sizesOf(executed.info))
        return badInput("the step with the policy ran with " + sizesOf(executed.info) + ", the recorded step with "
                        + sizesOf(step.info)
                        + ", so that their bytes cannot be compared: fix these sizes in the script (a search for the "
                          "largest batch that fits finds another one under a policy), and record both steps again");
    report.modules = VerificationReport::Modules{
        policy.budget,           policy.worldSize,      policy.modules.size(),
        forwardBackwardMs(step), predicted.recomputeMs, std::max(0.0, recomputedMs(executed) - recomputedMs(step))};
    report.values.whyNot = "recorded steps hold no values";
    return report;
}

/// Reads a step that was recorded to the end.
Result<StepTracePtr> readWholeStep(const std::string& file)
{
    ASSIGN_OR_RETURN(StepTracePtr step, readStep(file, {}));
    if (const Status whole = checkWhole(*step, "the step cannot be compared"); !whole)
        return badInput(file + ": " + whole.error().message);
    return step;
}

constexpr const char* usage = ": expected torch-headroom verify step.hrs --policy policy.json";

Status checkArguments(const CLI::App& command, const VerifyArguments& arguments, const std::vector<std::string>& others)
{
    if (arguments.executedFile.empty() && !arguments.stepFile.ends_with(stepSuffix))
        return Error{ErrorKind::internal, missingRecorder};
    if (!others.empty())
        return badInput("`" + others.front() + "` is no option for a recorded step" + usage);
    if (arguments.stepFile.empty())
        return badInput("the step without the policy is missing" + std::string(usage));
    if (arguments.policyFile.empty() && arguments.opsPlanFile.empty())
        return badInput("--policy is missing: name the policy that the step runs under, for example --policy "
                        "policy.json");
    if (!arguments.policyFile.empty() && !arguments.opsPlanFile.empty())
        return badInput("--policy and --ops-plan exclude each other: expected a single plan");
    if (!arguments.executedFile.empty())
        RETURN_IF_ERROR(refuse(command, {"-o", "--python"},
                               "and --executed exclude each other: expected a run by verify, or --executed for an "
                               "earlier run"));
    return {};
}

/// Returns the policy to verify. A plan by op runs in PyTorch as selective checkpoints of modules.
Result<Policy> policyOf(const VerifyArguments& arguments, const StepTracePtr& step)
{
    if (arguments.opsPlanFile.empty())
        return readPolicy(arguments.policyFile);
    ASSIGN_OR_RETURN(const SavedOps given, readOpsPlan(arguments.opsPlanFile, *step));
    ASSIGN_OR_RETURN(const OpsPlanner planner, OpsPlanner::create(step));
    ASSIGN_OR_RETURN(const OpsPlan plan, planner.planSaving(given.saved, given.fraction));
    return opsPolicy(planner.model(), plan);
}

/// Runs the step's script under the policy and reads the step that it makes; nullptr: a signal ended the script, and
/// `signalled` is the exit code.
Result<StepTracePtr> execute(const VerifyArguments& arguments, const StepTrace& step, const Policy& policy,
                             int& signalled)
{
    const TemporaryFolder folder("torch-headroom-verify"); // of the files that the user does not keep
    ASSIGN_OR_RETURN(const std::filesystem::path passing, folder.path());
    ScriptRun run;
    run.python = arguments.python;
    run.progress = arguments.progress;
    run.output
        = arguments.outputFile.empty() ? passing / "executed.hrs" : std::filesystem::absolute(arguments.outputFile);
    if (arguments.policyFile.empty()) {
        run.policy = passing / "policy.json";
        RETURN_IF_ERROR(writePolicy(policy, run.policy));
    } else {
        run.policy = std::filesystem::absolute(arguments.policyFile);
    }
    ASSIGN_OR_RETURN(signalled, runScript(step, arguments.stepFile, run));
    if (signalled != 0)
        return StepTracePtr();
    return readWholeStep(run.output.string());
}

/// Becomes torch-headroom-record, which runs the model that the step was recorded from.
Error verifyModel(const CLI::App& command, const VerifyArguments& arguments, const StepTrace& step)
{
    if (const Status no = refuse(command, {"-o", "--python"},
                                 "is for a step of a script, and " + arguments.stepFile + " is of a model");
        !no)
        return no.error();
    if (step.info.arguments.empty())
        return badInput(arguments.stepFile
                        + " does not say how the step was recorded, so that the step cannot run again"
                        + std::string(usage));
    const auto recorder = recorderProgram();
    if (!recorder)
        return Error{ErrorKind::internal, missingRecorder};
    std::vector<std::string> words{"torch-headroom", "verify"};
    words.insert(words.end(), step.info.arguments.begin(), step.info.arguments.end());
    if (arguments.opsPlanFile.empty())
        words.insert(words.end(), {"--policy", arguments.policyFile});
    else
        words.insert(words.end(), {"--ops-plan", arguments.opsPlanFile});
    if (arguments.json)
        words.emplace_back("--json");
    if (arguments.progress)
        words.emplace_back("--progress");
    std::vector<char*> argv;
    for (std::string& word : words)
        argv.push_back(word.data());
    argv.push_back(nullptr);
    return Error{ErrorKind::internal, becomeRecorder(*recorder, argv.data())};
}

Result<int> run(const CLI::App& command, const VerifyArguments& arguments, const std::vector<std::string>& others)
{
    RETURN_IF_ERROR(checkArguments(command, arguments, others));
    ASSIGN_OR_RETURN(const StepTracePtr step, readWholeStep(arguments.stepFile));
    if (arguments.executedFile.empty() && programOf(*step).empty())
        return verifyModel(command, arguments, *step);
    StepTracePtr executed;
    if (!arguments.executedFile.empty()) {
        ASSIGN_OR_RETURN(executed, readWholeStep(arguments.executedFile));
    }
    ASSIGN_OR_RETURN(const Policy policy, policyOf(arguments, step));
    int signalled = 0;
    if (!executed) {
        ASSIGN_OR_RETURN(executed, execute(arguments, *step, policy, signalled));
    }
    if (!executed)
        return signalled;
    ASSIGN_OR_RETURN(const VerificationReport report, compare(*step, *executed, policy));
    const Status status = verdict(report);
    if (arguments.json)
        printJson(toJson(report, status));
    else
        std::cout << textOf(report);
    if (!status)
        return status.error();
    return 0;
}

} // namespace

bool comparesSteps(char** arguments)
{
    bool isValue = false; // of the option before, such as --op-times
    for (; *arguments != nullptr; ++arguments) {
        const std::string_view argument = *arguments;
        if (argument == "--executed" || argument.starts_with("--executed=")
            || (argument.ends_with(stepSuffix) && !argument.starts_with('-') && !isValue))
            return true;
        isValue = argument.starts_with('-') && argument != "--json" && argument != "--progress";
    }
    return false;
}

void addVerify(CLI::App& program, Action& chosen)
{
    const auto arguments = std::make_shared<VerifyArguments>();
    CLI::App* command = addCommand(program, "verify", "Run a step under a plan and compare with the prediction");
    command->add_option("STEP", arguments->stepFile, "The step without the policy; a script's runs again")
        ->type_name("step.hrs");
    command->add_option("--executed", arguments->executedFile, "The same step, recorded with the policy applied")
        ->type_name("executed.hrs");
    command->add_option("--policy", arguments->policyFile, "Policy from torch-headroom plan -o")
        ->type_name("policy.json");
    command->add_option("--ops-plan", arguments->opsPlanFile, "Plan by op, from torch-headroom ops-plan --json")
        ->type_name("plan.json");
    command
        ->add_option("--python", arguments->python, "The Python that runs the script, in place of the recorded Python")
        ->type_name("PROGRAM");
    command->add_option("-o,--output", arguments->outputFile, "Keep the step that the script makes under the policy")
        ->type_name("executed.hrs");
    command->add_flag("--progress", arguments->progress, "Progress as JSON lines on stderr");
    addJsonFlag(*command, arguments->json);
    command->footer("A model in place of the step is run by torch-headroom-record with the policy and without:\n"
                    "torch-headroom verify MODEL --policy policy.json [record's options], where torch-headroom-record "
                    "is installed\n"
                    "beside this program.");
    command->allow_extras(); // options of torch-headroom-record, to report a missing torch-headroom-record
    command->callback([=, &chosen] {
        const std::vector<std::string> others = command->remaining();
        chosen = [=] { return run(*command, *arguments, others); };
    });
}

} // namespace headroom::cli
