// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
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

/// Number of processes to run at once: each has a CPU core and 4 GiB of the available memory.
int processesAtOnce();

/// The exit code of a process that could not be started, or that `stop` kept from starting.
constexpr int notRun = -1;

/// Runs the processes, `jobs` at once, and returns the exit codes, in order; a signal is 128 + its number. `begins` is
/// called before each start. Each process has a process group; `stop` ends the groups (SIGTERM, after 2 s SIGKILL), and
/// the processes end with this one. Any thread may call.
std::vector<int> runProcesses(std::span<const StepProcess> processes, int jobs, const std::stop_token& stop = {},
                              const std::function<void(const StepProcess&)>& begins = {});

/// Makes the first SIGINT, SIGTERM or SIGHUP a request to stop while this object lives; the next one ends the process.
/// One object at a time. A signal that is ignored stays ignored, as with nohup.
class StopBySignal
{
public:
    StopBySignal();
    ~StopBySignal();
    StopBySignal(const StopBySignal&) = delete;
    StopBySignal& operator=(const StopBySignal&) = delete;

    std::stop_token token() const { return source_.get_token(); }
    int signal() const; ///< that came; 0: none

private:
    std::stop_source source_;
    std::jthread thread_;
};

/// A process that has imported what a script imports, and records the script's steps for a card in forks of itself:
/// packaging/python/torch_headroom/_record/fork_server.py. The process ends with this object.
class ForkServer
{
public:
    /// The server starts once the file `begun` exists. `address`: the socket, which exists once the server serves.
    ForkServer(StepProcess process, std::filesystem::path address, std::filesystem::path begun);

    bool isProven() const { return std::filesystem::exists(address_.string() + ".proven"); }
    /// From now on, wait() waits for no longer than two recordings of this time, and a minute at least: the imports of
    /// a server take no longer than a recording on a machine that does nothing else, and on a busy one both times vary.
    void expect(std::chrono::steady_clock::duration recording);
    /// Waits until the server serves, has ended, or has taken too long.
    void wait(const std::stop_token& stop) const;

private:
    std::filesystem::path address_;
    std::chrono::steady_clock::time_point latest_ = std::chrono::steady_clock::time_point::max();
    std::atomic<bool> hasEnded_ = false;
    std::jthread thread_; ///< last: uses the others
};

/// A folder of this process among the temporary files, in TMPDIR or /tmp. The destructor removes the folder with all
/// files.
class TemporaryFolder
{
public:
    explicit TemporaryFolder(std::string_view name); ///< `name` begins the folder's name
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    const Result<std::filesystem::path>& path() const noexcept { return path_; } ///< error: no folder can be made

private:
    Result<std::filesystem::path> path_;
};

/// The last line of a file of messages that is not blank; "it said nothing" if there is none.
std::string lastLine(const std::filesystem::path& file);

} // namespace headroom
