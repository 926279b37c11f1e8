// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/step_processes.h"

#include "core/base/available_memory.h"
#include "core/base/bytes.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <map>
#include <optional>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace headroom {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int signalBase = 128; ///< a shell reports a signal as 128 + its number
constexpr int notStarted = 127;
constexpr auto pause = std::chrono::milliseconds(10);
constexpr auto grace = std::chrono::seconds(2);

/// The words of a program as execvpe() takes them. Made before fork(), after which a child of a program with threads
/// may allocate nothing.
class Words
{
public:
    explicit Words(std::vector<std::string> words)
        : words_(std::move(words))
    {
        for (std::string& word : words_)
            pointers_.push_back(word.data());
        pointers_.push_back(nullptr);
    }
    Words(const Words&) = delete;
    Words& operator=(const Words&) = delete;

    char* const* data() const { return pointers_.data(); }

private:
    std::vector<std::string> words_;
    std::vector<char*> pointers_;
};

std::vector<std::string> commandOf(const StepProcess& process)
{
    std::vector<std::string> words{process.program};
    words.insert(words.end(), process.arguments.begin(), process.arguments.end());
    return words;
}

std::vector<std::string> environmentOf(const StepProcess& process)
{
    std::vector<std::string> all;
    for (char** at = environ; *at != nullptr; ++at) {
        const std::string_view variable = *at;
        const auto isReplaced = [&](const auto& pair) { return variable.starts_with(pair.first + "="); };
        if (std::ranges::none_of(process.environment, isReplaced))
            all.emplace_back(variable);
    }
    for (const auto& [name, value] : process.environment)
        all.push_back(name + "=" + value);
    return all;
}

/// Starts a process. Returns its id; -1: it could not be started.
pid_t start(const StepProcess& process)
{
    const Words command(commandOf(process));
    const Words environment(environmentOf(process));
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child != 0)
        return child;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(notStarted);
    const auto opened = [](const std::filesystem::path& file) {
        return open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    };
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int output = opened(process.output);
    const int messages = process.messages == process.output ? output : opened(process.messages);
    const bool isPlaced = process.folder.empty() || chdir(process.folder.c_str()) == 0;
    if (isPlaced && dup2(nothing, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0
        && dup2(messages, STDERR_FILENO) >= 0)
        execvpe(process.program.c_str(), command.data(), environment.data());
    _exit(notStarted);
}

/// The processes that run now, by id.
class Running
{
public:
    explicit Running(std::vector<int>& codes)
        : codes_(codes)
    {
    }

    std::size_t count() const noexcept { return running_.size(); }

    void add(pid_t process, std::size_t at)
    {
        setpgid(process, process); // whoever is first: the child does the same
        running_.emplace(process, at);
    }

    /// Notes the exit codes of processes that have ended.
    void collect()
    {
        for (auto at = running_.begin(); at != running_.end();) {
            int status = 0;
            const pid_t ended = waitpid(at->first, &status, WNOHANG);
            if (ended == 0 || (ended < 0 && errno == EINTR)) {
                ++at;
                continue;
            }
            const int code = WIFEXITED(status) ? WEXITSTATUS(status) : signalBase + WTERMSIG(status);
            codes_[at->second] = ended < 0 || code == notStarted ? notRun : code;
            at = running_.erase(at);
        }
    }

    void signal(int number) const
    {
        for (const auto& [process, at] : running_)
            kill(-process, number);
    }

private:
    std::vector<int>& codes_;
    std::map<pid_t, std::size_t> running_;
};

} // namespace

int processesAtOnce()
{
    const auto cores = static_cast<Bytes>(std::thread::hardware_concurrency());
    return static_cast<int>(std::max<Bytes>(1, std::min(cores, availableMemory() / (4 * GiB))));
}

std::vector<int> runProcesses(std::span<const StepProcess> processes, int jobs, const std::stop_token& stop,
                              const std::function<void(const StepProcess&)>& begins)
{
    std::vector<int> codes(processes.size(), notRun);
    Running running(codes);
    std::size_t next = 0;
    std::optional<Clock::time_point> stopped;
    while (running.count() > 0 || (next < processes.size() && !stop.stop_requested())) {
        while (next < processes.size() && running.count() < static_cast<std::size_t>(jobs) && !stop.stop_requested()) {
            if (begins)
                begins(processes[next]);
            if (const pid_t child = start(processes[next]); child > 0)
                running.add(child, next);
            ++next;
        }
        if (stop.stop_requested() && !stopped) {
            running.signal(SIGTERM);
            stopped = Clock::now();
        } else if (stopped && Clock::now() - *stopped > grace) {
            running.signal(SIGKILL);
        }
        running.collect();
        if (running.count() > 0)
            std::this_thread::sleep_for(pause);
    }
    return codes;
}

namespace {

volatile std::sig_atomic_t received = 0;
constexpr auto stopSignals = std::to_array({SIGINT, SIGTERM, SIGHUP});

void note(int number)
{
    received = number;
}

} // namespace

StopBySignal::StopBySignal()
    : thread_([this](const std::stop_token& stop) {
        while (received == 0 && !stop.stop_requested())
            std::this_thread::sleep_for(pause);
        if (received != 0)
            source_.request_stop();
    })
{
    struct sigaction action = {};
    action.sa_handler = note;
    action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
    for (const int number : stopSignals) {
        struct sigaction before = {};
        sigaction(number, nullptr, &before);
        if (before.sa_handler != SIG_IGN)
            sigaction(number, &action, nullptr);
    }
}

StopBySignal::~StopBySignal()
{
    for (const int number : stopSignals) {
        struct sigaction own = {};
        sigaction(number, nullptr, &own);
        if (own.sa_handler == note)
            std::signal(number, SIG_DFL);
    }
}

int StopBySignal::signal() const
{
    return received;
}

ForkServer::ForkServer(StepProcess process, std::filesystem::path address, std::filesystem::path begun)
    : address_(std::move(address))
    , thread_([this, process = std::move(process), begun = std::move(begun)](const std::stop_token& stop) {
        while (!std::filesystem::exists(begun) && !stop.stop_requested())
            std::this_thread::sleep_for(pause);
        runProcesses(std::span(&process, 1), 1, stop);
        hasEnded_ = true;
    })
{
}

void ForkServer::expect(std::chrono::steady_clock::duration recording)
{
    latest_ = std::chrono::steady_clock::now()
        + std::max<std::chrono::steady_clock::duration>(2 * recording, std::chrono::minutes(1));
}

void ForkServer::wait(const std::stop_token& stop) const
{
    while (!std::filesystem::exists(address_) && !hasEnded_ && !stop.stop_requested()
           && std::chrono::steady_clock::now() < latest_)
        std::this_thread::sleep_for(pause);
}

namespace {

Result<std::filesystem::path> madeFolder(std::string_view name)
{
    const char* const chosen = std::getenv("TMPDIR");
    std::error_code problem;
    std::string folder = (std::filesystem::temp_directory_path(problem) / name).string() + "-XXXXXX";
    if (!problem && mkdtemp(folder.data()) == nullptr)
        problem = {errno, std::generic_category()};
    if (problem)
        return badInput("no folder can be made among the temporary files in " + std::string(chosen ? chosen : "/tmp")
                        + ": " + problem.message() + "; set TMPDIR to a folder with room that you may write to");
    return std::filesystem::path(folder);
}

} // namespace

TemporaryFolder::TemporaryFolder(std::string_view name)
    : path_(madeFolder(name))
{
}

TemporaryFolder::~TemporaryFolder()
{
    std::error_code ignored;
    if (path_)
        std::filesystem::remove_all(*path_, ignored);
}

std::string lastLine(const std::filesystem::path& file)
{
    std::ifstream in(file);
    std::string last = "no message";
    for (std::string line; std::getline(in, line);)
        if (line.find_first_not_of(" \t\r") != std::string::npos)
            last = line;
    return last;
}

} // namespace headroom
