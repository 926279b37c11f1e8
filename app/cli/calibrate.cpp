// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/command.h"
#include "app/cli/table.h"
#include "core/cost/calibration.h"
#include "core/trace/step_file.h"

#include <CLI/CLI.hpp>

#include <filesystem>
#include <iostream>

namespace headroom::cli {

namespace {

struct Arguments
{
    std::vector<std::string> steps;
    std::string output;
    bool json = false;
};

Result<int> run(const Arguments& arguments)
{
    Calibration learned;
    for (const std::string& file : arguments.steps) {
        const Result<StepTracePtr> step = readStepTrace(file);
        if (!step)
            return step.error();
        const Result<Calibration> one = calibrate(**step, file);
        if (!one)
            return one.error();
        if (!learned.gpu.empty() && learned.gpu != one->gpu)
            return badInput(file + " was measured on " + one->gpu + ", the steps before it on " + learned.gpu
                            + ": calibrate one GPU at a time");
        learned = learned.gpu.empty() ? *one : merged(learned, *one);
    }
    const std::filesystem::path target
        = arguments.output.empty() ? calibrationFile(learned.gpu) : std::filesystem::path(arguments.output);
    if (target.empty())
        return badInput("neither HOME nor HEADROOM_CALIBRATION_DIR is set: name the file to write with -o");
    if (const Status written = addToCalibration(learned, target); !written)
        return written.error();
    if (arguments.json) {
        Json document{{"gpu", learned.gpu},
                      {"file", target.string()},
                      {"ops", learned.curves.size()},
                      {"ratio", learned.ratio},
                      {"shortest_ms", learned.shortestMs}};
        printJson(document);
        return 0;
    }
    std::cout << "GPU           " << learned.gpu << "\nKinds of ops  " << learned.curves.size() << "\nMeasured      "
              << formatNumber(learned.ratio, 2) << " times the roofline\nWritten to    " << target.string()
              << "; torch-headroom plan and torch-headroom frontier use it for steps of this GPU\n";
    return 0;
}

} // namespace

void addCalibrate(CLI::App& program, Action& chosen)
{
    const auto arguments = std::make_shared<Arguments>();
    CLI::App* command
        = addCommand(program, "calibrate", "Learn how long ops take on a GPU from steps that were measured there");
    command->add_option("step", arguments->steps, "Step files, recorded with --device cuda")->required();
    command->add_option(
        "-o,--output", arguments->output,
        "The calibration to write or to add to (default: one for each GPU in the user's configuration)");
    command->add_flag("--json", arguments->json, "Print one JSON document");
    command->callback([=, &chosen] { chosen = [=] { return run(*arguments); }; });
}

} // namespace headroom::cli
