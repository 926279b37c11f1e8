// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/record/record_options.h"

#include <CLI/CLI.hpp>

namespace headroom {
namespace {

/// Returns CLI::PositiveNumber with a readable message.
CLI::Validator atLeastOne()
{
    return {[](std::string& text) {
                return text.starts_with('-') || text.find_first_not_of('0') == std::string::npos
                    ? "expected a whole number of at least 1, not " + text
                    : std::string();
            },
            "N >= 1"};
}

/// Adds the options that say which step is run.
void addStepOptions(CLI::App& command, RecordOptions& options, const std::vector<std::string>& models)
{
    std::string names;
    for (const std::string& name : models)
        names += (names.empty() ? "" : ", ") + name;
    command.add_option("MODEL", options.model, names);
    command
        .add_option("--device", options.device, "sim: the simulated GPU; cuda, cuda:N or cpu: a real device, measured")
        ->capture_default_str();
    command.add_option("--gpu", options.gpu, "The GPU that the simulation stands for; list: print all")
        ->capture_default_str();
    command.add_option("--batch", options.batch, "Samples a step (default: the model's)")->check(atLeastOne());
    command.add_option("--seq", options.sequence, "Sequence length (default: the model's)")->check(atLeastOne());
    command
        .add_option("--accumulate", options.accumulation,
                    "Micro-batches of an optimizer step, each of --batch samples (default: 1)")
        ->check(atLeastOne());
    command.add_option("--dtype", options.dtype,
                       "float32, bfloat16 or float16: parameters and activations of a demo model "
                       "(default: float32); the file of an exported model fixes both");
    command.add_flag("--autocast", options.autocast,
                     "Forward and loss under torch.autocast(dtype=torch.bfloat16), parameters in float32");
    command.add_option("--optimizer", options.optimizer, "sgd, adam or adamw of torch.optim, as on CUDA")
        ->capture_default_str();
    command.add_option("--momentum", options.momentum, "Momentum of sgd")->check(CLI::Range(0.0, 1.0));
    command.add_option("--loss", options.loss,
                       "sum or mean of the model's first output, or output: the output is the loss (default: output "
                       "where that is a single number, else sum)");
    command.add_option("--lifetimes", options.lifetimes,
                       "Values of an exported graph live until the last use (graph), or, like Python's locals, until "
                       "the module's forward returns (frame)");
    command.add_option("--set", options.settings, "KEY=VALUE: an argument of the model")->allow_extra_args(false);
    command
        .add_option("--input", options.inputs,
                    "NAME=SHAPE[:DTYPE], as x=8x128:int64: an input of a model that states no shape")
        ->allow_extra_args(false);
    command.add_flag("--hold-output", options.holdOutput,
                     "The loop keeps `output = model(x)` alive until the next forward has returned");
    command
        .add_option("--time-limit", options.timeLimit,
                    "Seconds that the opening, the forward or the backward of a model may take, so that a loop without "
                    "an end ends (default: 60 of the processor's time on the simulated GPU, else 3600)")
        ->check(CLI::Range(1.0, 1e9))
        ->type_name("SECONDS");
    command.add_flag("--json", options.json, "Print a JSON document");
    command.add_flag("--progress", options.progress, "Progress as JSON lines on stderr");
}

} // namespace

CLI::App* addRecordCommand(CLI::App& app, RecordOptions& options, const std::vector<std::string>& models)
{
    CLI::App* command = app.add_subcommand("record", "Run a training step and write a step file");
    command->footer("A training script: torch-headroom record [--gpu NAME] [--steps N] [-o step.hrs] train.py "
                    "[arguments of train.py]\nruns python3 -m torch_headroom.record.");
    addStepOptions(*command, options, models);
    command->add_option("-o,--output", options.output, "The step file to write, for example step.hrs");
    command->add_option("--policy", options.policy,
                        "Checkpoint the modules of this policy, from torch-headroom plan -o");
    return command;
}

CLI::App* addVerifyCommand(CLI::App& app, RecordOptions& options, const std::vector<std::string>& models)
{
    CLI::App* command = app.add_subcommand(
        "verify", "Run a training step with a policy and without, and compare with the prediction");
    addStepOptions(*command, options, models);
    command->get_option("--device")
        ->description(
            "sim: the simulated GPU, and for gradients the CPU; cpu: the CPU, too, however large the model is; "
            "cuda or cuda:N: a GPU for everything");
    command->add_option("--policy", options.policy, "The policy to apply, from torch-headroom plan -o");
    command
        ->add_option("--memory-budget", options.memoryBudget,
                     "Instead of a policy: plan the ops of the step for this fraction, as torch-headroom ops-plan does")
        ->type_name("FRACTION");
    command
        ->add_option("--ops-plan", options.opsPlan,
                     "Instead of a policy: a plan for the ops of the step, from torch-headroom ops-plan --json")
        ->type_name("plan.json");
    command->add_option("--solver", options.solver, "How that plan chooses the ops to save (default dp)")
        ->type_name("dp|greedy|ilp");
    command->add_option("--runtime", options.runtime, "What running an op again costs that plan (default flops)")
        ->type_name("flops|measured");
    command
        ->add_option("--op-times", options.opTimes,
                     "With --runtime measured: measured times of the ops, as for torch-headroom ops-plan")
        ->type_name("FILE");
    command->add_flag("--monotone", options.monotone,
                      "Answer with the plan of `ops-frontier`: no larger fraction has a lower peak");
    return command;
}

} // namespace headroom
