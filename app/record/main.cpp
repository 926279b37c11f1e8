// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/record/doctor.h"
#include "app/record/record_command.h"
#include "app/record/supervisor.h"
#include "app/record/verify_command.h"
#include "core/base/error.h"
#include "core/base/printable_text.h"
#include "core/trace/step_file.h"

#include <CLI/CLI.hpp>

#include <exception>
#include <functional>
#include <iostream>
#include <new>
#include <string>
#include <string_view>

namespace {

using headroom::ErrorKind;

constexpr std::string_view ownName = "torch-headroom-record";

/// The program that the user called: `torch-headroom record …` becomes this program under the name torch-headroom.
std::string_view program = ownName;

void rememberName(const char* called)
{
    const std::string_view path = called == nullptr ? ownName : called;
    program = path.substr(path.rfind('/') + 1) == "torch-headroom" ? "torch-headroom" : ownName;
}

int fail(ErrorKind kind, const std::string& message)
{
    std::cerr << program << ": " << headroom::printableText(message) << '\n';
    return static_cast<int>(kind);
}

/// Returns the program and the subcommand that was parsed.
std::string commandOf(const CLI::App& app)
{
    std::string command(program);
    for (const CLI::App* chosen : app.get_subcommands())
        command += ' ' + chosen->get_name();
    return command;
}

/// Prints the help, the version or the error of CLI11. Returns the exit code.
int usageExit(const CLI::App& app, const CLI::ParseError& error)
{
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success))
        return app.exit(error, std::cout, std::cerr);
    return fail(ErrorKind::badInput, std::string(error.what()) + " (see " + commandOf(app) + " --help)");
}

/// Runs `work` and returns the exit code. An exception becomes an internal error.
int guarded(const std::function<int()>& work)
{
    try {
        return work();
    } catch (const std::bad_alloc&) {
        return fail(ErrorKind::internal,
                    "this machine has not enough memory for the recording; try a smaller model or batch");
    } catch (const std::exception& error) {
        // Only the first line: libtorch's errors continue with a backtrace.
        const std::string_view message = error.what();
        return fail(ErrorKind::internal, "internal error: " + std::string(message.substr(0, message.find('\n'))));
    }
}

using Command = std::function<headroom::Status(const headroom::ProgressReport&)>;

/// Returns the limit of a stage's time, so that a loop without an end ends.
headroom::StageLimit limitOf(const headroom::RecordOptions& options, bool computes)
{
    constexpr double simulatedSeconds = 60;
    constexpr double realSeconds = 3600; // a CPU may compute for long
    const double standard = computes ? realSeconds : simulatedSeconds;
    return {options.timeLimit > 0 ? options.timeLimit : standard, !computes};
}

int runSupervised(const headroom::RecordOptions& options, const Command& command,
                  const std::function<bool(std::string_view)>& computes,
                  const std::function<headroom::Status()>& publish)
{
    const auto run = [&](headroom::WorkReport& report) {
        return guarded([&] {
            const auto stage = [&](std::string_view name) { report.stage(name, limitOf(options, computes(name))); };
            stage("the opening of the model");
            const headroom::Status done = command([&](std::string_view name, double share) {
                if (share < 1)
                    stage(name);
                else
                    report.written();
            });
            return done ? 0 : fail(done.error().kind, done.error().message);
        });
    };
    return headroom::supervise(program, {run, publish});
}

int runRecord(const headroom::RecordOptions& options)
{
    auto job = headroom::prepareRecord(options);
    if (!job)
        return fail(job.error().kind, job.error().message);
    return runSupervised(
        options, [&](const headroom::ProgressReport& watch) { return headroom::runRecord(*job, watch); },
        [&](std::string_view) { return job->request.recordingDevice != headroom::RecordingDevice::sim; },
        [&] { return job->file->commit(headroom::stepDurability); });
}

int runVerify(const headroom::RecordOptions& options)
{
    const bool gpu = options.device.starts_with("cuda");
    return runSupervised(
        options, [&](const headroom::ProgressReport& watch) { return headroom::runVerify(options, watch); },
        [&](std::string_view stage) { return gpu || stage == "gradients"; }, {});
}

int run(int argc, char** argv)
{
    const std::string name(program);
    const std::string version = name + " " HEADROOM_VERSION;
    CLI::App app("Records a training step for Headroom.", name);
    app.set_version_flag("--version", version);
    // Not require_subcommand(1): that message would hide the unknown word.
    app.require_subcommand(0, 1);

    bool doctorJson = false;
    CLI::App* doctor = app.add_subcommand("doctor", "What this machine has for recording: torch, CUDA, CUPTI, GPUs");
    doctor->add_flag("--json", doctorJson, "Print a JSON document");
    headroom::RecordOptions options;
    const CLI::App* record = headroom::addRecordCommand(app, options, headroom::demoModels());
    headroom::RecordOptions verified;
    headroom::addVerifyCommand(app, verified, headroom::demoModels());
    for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
        command->set_version_flag("--version", version);

    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return usageExit(app, error);
    }
    if (doctor->parsed())
        return headroom::runDoctor(doctorJson);
    if (app.get_subcommands().empty())
        return fail(ErrorKind::badInput, "a command is missing: record, verify or doctor (see " + name + " --help)");
    if ((record->parsed() ? options : verified).gpu == "list") {
        headroom::listGpus();
        return 0;
    }
    return record->parsed() ? runRecord(options) : runVerify(verified);
}

} // namespace

int main(int argc, char** argv)
{
    rememberName(argc > 0 ? argv[0] : nullptr);
    return guarded([&] { return run(argc, argv); });
}
