// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/command_line.h"

#include "app/cli/arguments.h"
#include "app/cli/command.h"
#include "app/cli/python_program.h"
#include "app/cli/snapshot_arguments.h"
#include "app/cli/verify.h"
#include "app/recording/recorder_program.h"
#include "app/window/run_window.h"

#include <CLI/CLI.hpp>

#include <exception>
#include <filesystem>
#include <iostream>
#include <string_view>

namespace headroom {

namespace cli {

CLI::App* addCommand(CLI::App& program, const std::string& name, const std::string& description)
{
    CLI::App* command = program.add_subcommand(name, description);
    command->set_version_flag("--version", "torch-headroom " HEADROOM_VERSION);
    return command;
}

void printJson(const Json& document)
{
    std::cout << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

void printError(const std::string& message)
{
    std::string line = message;
    for (char& character : line) {
        if (character == '\n' || character == '\r')
            character = ' ';
    }
    std::cerr << "torch-headroom: " << line << '\n';
}

} // namespace cli

namespace {

using cli::Action;

int exitCode(ErrorKind kind)
{
    return static_cast<int>(kind);
}

bool exists(const std::string& file)
{
    std::error_code problem;
    return std::filesystem::exists(file, problem);
}

/// What CLI11 says, and where help is.
std::string usageMessage(const CLI::App& program, const CLI::ParseError& error)
{
    std::string command = "torch-headroom";
    for (const CLI::App* chosen : program.get_subcommands())
        command += ' ' + chosen->get_name();
    return std::string(error.what()) + "; `" + command + " --help` says what is expected";
}

std::string unknownCommand(const std::string& word)
{
    return "`" + word + "` is neither a command nor a file; `torch-headroom --help` lists the commands";
}

/// Runs what was asked for, and makes sure that the answer arrived.
int runAction(const Action& action)
{
    const Result<int> result = action();
    std::cout.flush();
    if (!result) {
        cli::printError(result.error().message);
        return exitCode(result.error().kind);
    }
    if (!std::cout) {
        cli::printError("the answer cannot be written to standard output: is the disk full?");
        return exitCode(ErrorKind::badInput);
    }
    return *result;
}

int parseAndRun(int argc, char** argv, const OpenWindow& openWindow)
{
    CLI::App program("Plan the GPU memory of PyTorch training to the byte.\nWithout a command, the window opens.",
                     "torch-headroom");
    program.set_version_flag("--version", "torch-headroom " HEADROOM_VERSION);
    program.require_subcommand(0, 1);
    std::string file;
    program.add_option(
        "FILE", file,
        "What to open in the window: a step (.hrs), a model (.pt2, .pt), a script (.py), a memory snapshot");
    WindowOptions options;
    std::string measured;
    cli::SnapshotArguments part;
    cli::addSnapshotArguments(program, part);
    cli::addCalibrationArgument(program, options.calibration);
    program.add_option("--measured", measured, "With a step: a measured step or memory snapshot to lay over it")
        ->type_name("FILE");
    Action chosen;
    for (const auto add : {cli::addRecord, cli::addVerify, cli::addInfo, cli::addModules, cli::addOps, cli::addPlan,
                           cli::addFrontier, cli::addCalibrate, cli::addOpPolicy, cli::addOpsPlan, cli::addOpsFrontier,
                           cli::addExport, cli::addImport, cli::addAllocator, cli::addDoctor})
        add(program, chosen);
    cli::addScreenshot(program, chosen, openWindow);

    try {
        program.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success))
            return program.exit(error, std::cout, std::cerr);
        const bool mistyped = program.get_subcommands().empty() && !file.empty() && !exists(file);
        cli::printError(mistyped ? unknownCommand(file) : usageMessage(program, error));
        return exitCode(ErrorKind::badInput);
    }
    if (chosen)
        return runAction(chosen);
    if (!file.empty() && !exists(file)) {
        cli::printError(unknownCommand(file));
        return exitCode(ErrorKind::badInput);
    }
    if (!measured.empty() && file.empty()) {
        cli::printError("--measured is compared with a step: expected `torch-headroom step.hrs --measured run.hrs`");
        return exitCode(ErrorKind::badInput);
    }
    options.file = QString::fromStdString(file);
    options.measured = QString::fromStdString(measured);
    if (part.any()) {
        const Result<ImportRequest> request = cli::importRequest(part);
        if (!request || !isSnapshotFile(file)) {
            cli::printError(request ? "--device, --from and --to choose a part of a memory snapshot, which `" + file
                                    + "` is not"
                                    : request.error().message);
            return exitCode(ErrorKind::badInput);
        }
        options.part = *request;
    }
    return openWindow(argc, argv, options);
}

} // namespace

int runCommandLine(int argc, char** argv, const OpenWindow& openWindow)
{
    try {
        const std::string_view command = argc > 1 ? argv[1] : "";
        if (command == "record" && cli::namesScript(argv + 2)) {
            cli::printError(cli::becomePython(argv + 2));
            return exitCode(ErrorKind::badInput);
        }
        if (command == "record" || (command == "verify" && !cli::comparesSteps(argv + 2))) {
            if (const auto recorder = recorderProgram()) {
                cli::printError(becomeRecorder(*recorder, argv));
                return exitCode(ErrorKind::internal);
            }
        }
        return parseAndRun(argc, argv, openWindow);
    } catch (const std::exception& error) {
        cli::printError(std::string("internal error: ") + error.what());
        return exitCode(ErrorKind::internal);
    }
}

} // namespace headroom
