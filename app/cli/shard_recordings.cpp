// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/shard_recordings.h"

#include "app/cli/python_program.h"
#include "core/base/bytes.h"
#include "core/base/try.h"

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <map>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace headroom::cli {
namespace {

std::filesystem::path messagesOf(const Recording& recording)
{
    return recording.output.string() + ".log";
}

/// Runs in the child process: redirects standard output and error to the file of messages, and becomes Python.
[[noreturn]] void becomeRecording(const std::string& python, const Recording& recording)
{
    const int messages = open(messagesOf(recording).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    dup2(messages, STDOUT_FILENO);
    dup2(messages, STDERR_FILENO);
    for (const auto& [name, value] : recording.environment)
        setenv(name.c_str(), value.c_str(), 1); // NOLINT(concurrency-mt-unsafe): the child has one thread
    std::vector<std::string> words{"-m", "torch_headroom.record"};
    words.insert(words.end(), recording.arguments.begin(), recording.arguments.end());
    become(python, std::move(words));
    _exit(127);
}

std::string lastLine(const std::filesystem::path& file)
{
    std::ifstream in(file);
    std::string last = "it said nothing";
    for (std::string line; std::getline(in, line);)
        if (line.find_first_not_of(" \t\r") != std::string::npos)
            last = line;
    return last;
}

} // namespace

int recordingsAtOnce()
{
    const auto free = static_cast<Bytes>(sysconf(_SC_AVPHYS_PAGES)) * static_cast<Bytes>(sysconf(_SC_PAGESIZE));
    const auto cores = static_cast<Bytes>(std::thread::hardware_concurrency());
    return static_cast<int>(std::max<Bytes>(1, std::min(cores, free / (4 * GiB))));
}

Status runRecordings(std::vector<Recording>& recordings, int jobs, const std::function<void(const Recording&)>& begins)
{
    ASSIGN_OR_RETURN(const std::string python, pythonWithPackage());
    std::map<pid_t, Recording*> running;
    const auto await = [&] {
        int status = 0;
        const pid_t ended = waitpid(-1, &status, 0);
        const auto found = running.find(ended);
        if (found == running.end())
            return;
        // A step that ran out of memory is written, too, as a row like others.
        if (!std::filesystem::exists(found->second->output))
            found->second->failure = lastLine(messagesOf(*found->second));
        running.erase(found);
    };
    for (Recording& recording : recordings) {
        while (static_cast<int>(running.size()) >= jobs)
            await();
        begins(recording);
        const pid_t child = fork();
        if (child == 0)
            becomeRecording(python, recording);
        if (child < 0)
            recording.failure = "its process could not be started";
        else
            running.emplace(child, &recording);
    }
    while (!running.empty())
        await();
    return {};
}

} // namespace headroom::cli
