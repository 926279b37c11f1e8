// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/record/doctor.h"
#include "core/base/error.h"

#include <CLI/CLI.hpp>

#include <exception>
#include <iostream>

namespace {

/// Exit code of CLI11 to that of the programs: help and version are 0, everything else is bad usage.
int usageExit(const CLI::App& app, const CLI::ParseError& error)
{
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success))
        return app.exit(error, std::cout, std::cerr);
    std::cerr << "headroom-record: " << error.what() << " (see headroom-record --help)\n";
    return static_cast<int>(headroom::ErrorKind::badInput);
}

int run(int argc, char** argv)
{
    CLI::App app("Records one training step for Headroom.", "headroom-record");
    app.set_version_flag("--version", "headroom-record " HEADROOM_VERSION);
    app.require_subcommand(1);

    bool doctorJson = false;
    CLI::App* doctor = app.add_subcommand("doctor", "What this machine has for recording: torch, CUDA, CUPTI, GPUs");
    doctor->add_flag("--json", doctorJson, "One JSON document on stdout");

    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return usageExit(app, error);
    }
    return headroom::runDoctor(doctorJson);
}

} // namespace

int main(int argc, char** argv)
{
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {
        std::cerr << "headroom-record: internal error: " << error.what() << '\n';
        return static_cast<int>(headroom::ErrorKind::internal);
    }
}
