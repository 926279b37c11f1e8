// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace headroom {

/// A program to run in the background.
struct StepProcess
{
    std::string program; ///< path, or a name that PATH has
    std::vector<std::string> arguments;
    std::vector<std::pair<std::string, std::string>> environment = {}; ///< added to this process's environment
    std::string folder = {}; ///< working folder; empty: this process's
    std::filesystem::path output; ///< file that receives stdout
    std::filesystem::path messages; ///< file that receives stderr; may be `output`
};

/// Number of processes to run at once: each has a CPU core and 4 GiB of the free memory.
int processesAtOnce();

/// The exit code of a process that could not be started, or that `stop` kept from starting.
constexpr int notRun = -1;

/// Runs the processes, `jobs` at once, and returns the exit codes, in order; a signal is 128 + its number. `begins` is
/// called before each start. Each process has a process group; `stop` ends the groups (SIGTERM, after 2 s SIGKILL), and
/// the processes end with this one. Any thread may call.
std::vector<int> runProcesses(std::span<const StepProcess> processes, int jobs, const std::stop_token& stop = {},
                              const std::function<void(const StepProcess&)>& begins = {});

/// The last line of a file of messages that is not blank; "it said nothing" if there is none.
std::string lastLine(const std::filesystem::path& file);

} // namespace headroom
