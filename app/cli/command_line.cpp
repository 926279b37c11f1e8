// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/command_line.h"

#include "app/cli/arguments.h"
#include "app/cli/command.h"
#include "app/cli/pictures.h"
#include "app/cli/python_program.h"
#include "app/recording/recorder_program.h"
#include "app/window/run_window.h"
#include "core/base/atomic_write.h"
#include "core/base/json_text.h"
#include "core/base/printable_text.h"
#include "core/base/try.h"
#include "core/plan/plan.h"

#include <CLI/CLI.hpp>

#include <algorithm>
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

void addJsonFlag(CLI::App& command, bool& json)
{
    command.add_flag("--json", json, "Print a JSON document");
}

void printJson(const Json& document)
{
    std::cout << jsonText(document, 2) << '\n';
}

void printError(const std::string& message)
{
    std::string line = message;
    std::ranges::replace_if(
        line, [](char c) { return c == '\n' || c == '\r'; }, ' ');
    std::cerr << "torch-headroom: " << printableText(line) << '\n';
}

// runCommandLine() has become torch-headroom-record, if installed, before the command line is parsed. This command is
// for --help, and for the error without that program.
void addRecord(CLI::App& program, Action& chosen)
{
    CLI::App* command
        = addCommand(program, "record", "Record a training step of a model or of a training script in a step file");
    command->prefix_command();
    command->callback([&chosen] { chosen = [] { return Error{ErrorKind::internal, missingRecorder}; }; });
    command->footer("A training script: torch-headroom record [--gpu NAME] [--steps N] [-o step.hrs] train.py "
                    "[arguments of train.py]\nruns python3 -m torch_headroom.record. A model needs "
                    "torch-headroom-record: no such program is installed\nbeside this program.");
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

/// Returns CLI11's message and the command that prints the help.
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

/// Refuses options of the window before a command, which the command would not see, and an output in the place of an
/// input.
Status checkWords(const CLI::App& program)
{
    for (const CLI::App* command : program.get_subcommands()) {
        for (const CLI::Option* option : program.get_options())
            if (option->count() > 0 && !option->get_lnames().empty())
                return badInput("--" + option->get_lnames().front() + " stands before `" + command->get_name()
                                + "`, and is of the window there: expected the option behind the command");
        const CLI::Option* output = command->get_option_no_throw("--output");
        if (output == nullptr || output->count() == 0)
            continue;
        const std::string file = output->results().front();
        for (const CLI::Option* option : command->get_options())
            for (const std::string& input : option == output ? std::vector<std::string>() : option->results())
                RETURN_IF_ERROR(checkReplaced(file, input));
    }
    return {};
}

/// Runs a command, prints the error, and checks that the output was written.
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
    if (SearchLimit::endedByClock())
        std::cerr
            << "torch-headroom: this computer is so slow or busy that a search was cut short: another run may find "
               "a better plan\n";
    return *result;
}

/// The command line: all commands with their options, and the values that were given.
struct CommandLine
{
    explicit CommandLine(const OpenWindow& openWindow);

    CLI::App program{"Plan the GPU memory of PyTorch training to the byte.\nWithout a command, the window opens.",
                     "torch-headroom"};
    std::string file;
    std::string measured;
    std::string profileStep;
    cli::SnapshotArguments part;
    WindowOptions options;
    Action chosen;
};

CommandLine::CommandLine(const OpenWindow& openWindow)
{
    program.set_version_flag("--version", "torch-headroom " HEADROOM_VERSION);
    program.require_subcommand(0, 1);
    program.add_option(
        "FILE", file,
        "What to open in the window: a step (.hrs), a model (.pt2, .pt), a script (.py), a memory snapshot");
    cli::addSnapshotArguments(program, part);
    cli::addTimeArguments(program, options.times);
    cli::addMeasuredArgument(program, measured);
    cli::addProfileArgument(program, profileStep);
    for (const auto add :
         {cli::addRecord, cli::addVerify, cli::addInfo, cli::addModules, cli::addOps, cli::addPlan, cli::addFrontier,
          cli::addCalibrate, cli::addOpPolicy, cli::addOpsPlan, cli::addOpsFrontier, cli::addCompare, cli::addExport,
          cli::addImport, cli::addAllocator, cli::addShard, cli::addFit, cli::addReport, cli::addDoctor})
        add(program, chosen);
    cli::addScreenshot(program, chosen, openWindow);
}

/// Sets the options of the window. Error: the file does not exist, or options contradict each other.
Status completeOptions(CommandLine& line)
{
    const std::string& file = line.file;
    if (!file.empty() && !exists(file))
        return badInput(unknownCommand(file));
    if (!line.measured.empty() && file.empty())
        return badInput("--measured is compared with a step: expected `torch-headroom step.hrs --measured run.hrs`");
    ASSIGN_OR_RETURN(line.options.file, cli::qtName(file));
    ASSIGN_OR_RETURN(line.options.measured, cli::qtName(line.measured));
    ASSIGN_OR_RETURN(line.options.profile, cli::profileRequest(line.profileStep, {file, line.measured}));
    if (!line.part.any())
        return {};
    ASSIGN_OR_RETURN(line.options.part, cli::importRequest(line.part, {file}));
    return {};
}

/// The command line with the words of `fit` in the order that CLI11 reads.
class Arguments
{
public:
    Arguments(int argc, char** argv)
        : words_(argv, argv + argc)
    {
        if (argc > 1 && words_[1] == "fit") {
            const std::vector<std::string> ordered = cli::fitWords({words_.begin() + 2, words_.end()});
            words_.resize(2);
            words_.insert(words_.end(), ordered.begin(), ordered.end());
        }
        for (std::string& word : words_)
            pointers_.push_back(word.data());
        pointers_.push_back(nullptr);
    }
    Arguments(const Arguments&) = delete;
    Arguments& operator=(const Arguments&) = delete;

    int count() const { return static_cast<int>(words_.size()); }
    char** data() { return pointers_.data(); }

private:
    std::vector<std::string> words_;
    std::vector<char*> pointers_;
};

int parseAndRun(int argc, char** argv, const OpenWindow& openWindow)
{
    CommandLine line(openWindow);
    const CLI::App& program = line.program;
    try {
        line.program.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success))
            return program.exit(error, std::cout, std::cerr);
        const bool mistyped = program.get_subcommands().empty() && !line.file.empty() && !exists(line.file);
        cli::printError(mistyped ? unknownCommand(line.file) : usageMessage(program, error));
        return exitCode(ErrorKind::badInput);
    }
    if (const Status right = checkWords(program); !right) {
        cli::printError(right.error().message);
        return exitCode(right.error().kind);
    }
    if (line.chosen)
        return runAction(line.chosen);
    if (const Status complete = completeOptions(line); !complete) {
        cli::printError(complete.error().message);
        return exitCode(complete.error().kind);
    }
    return openWindow(argc, argv, line.options);
}

} // namespace

void withCommandLine(const std::function<void(CLI::App&)>& use)
{
    const OpenWindow nothing = [](int&, char**, const WindowOptions&) { return 0; };
    CommandLine line(nothing);
    use(line.program);
}

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
        Arguments arguments(argc, argv);
        return parseAndRun(arguments.count(), arguments.data(), openWindow);
    } catch (const std::exception& error) {
        cli::printError(std::string("internal error: ") + error.what());
        return exitCode(ErrorKind::internal);
    }
}

} // namespace headroom
