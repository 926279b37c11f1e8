// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/record/supervisor.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <new>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace headroom {
namespace {

/// Creates a report in memory that a child process shares with its parent.
auto sharedReport()
{
    void* const memory = mmap(nullptr, sizeof(WorkReport), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        throw std::bad_alloc();
    const auto unmap = [](WorkReport* report) { munmap(report, sizeof(WorkReport)); };
    return std::unique_ptr<WorkReport, decltype(unmap)>(new (memory) WorkReport(), unmap);
}

/// The signals that the supervising process waits for instead of being interrupted by them.
class AwaitedSignals
{
public:
    AwaitedSignals()
    {
        sigemptyset(&awaited_);
        for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP})
            sigaddset(&awaited_, signal);
        sigprocmask(SIG_BLOCK, &awaited_, &before_);
    }
    ~AwaitedSignals() { restore(); }
    AwaitedSignals(const AwaitedSignals&) = delete;
    AwaitedSignals& operator=(const AwaitedSignals&) = delete;

    void restore() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }
    int next() const
    {
        int signal = -1;
        while ((signal = sigwaitinfo(&awaited_, nullptr)) < 0 && errno == EINTR) {}
        return signal;
    }

private:
    sigset_t awaited_{};
    sigset_t before_{};
};

[[noreturn]] void runChild(pid_t parent, WorkReport& report, const std::function<int(WorkReport&)>& work)
{
    // A window that cancels kills the supervisor.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        std::_Exit(EXIT_FAILURE);
    std::set_terminate([] { std::abort(); }); // the supervisor prints the message
    const int code = work(report);
    std::cout.flush();
    std::cerr.flush();
    // Not exit(), which would destroy statics while libtorch's threads still run.
    std::_Exit(code);
}

bool isRequest(int signal)
{
    return signal == SIGINT || signal == SIGTERM || signal == SIGHUP;
}

std::string sentence(int signal, const WorkReport& report)
{
    const std::string result = report.isWritten() ? "the step file is complete" : "nothing was written";
    if (isRequest(signal))
        return "interrupted" + report.during() + "; " + result;
    if (signal == SIGKILL)
        return "killed" + report.during() + "; " + result
            + "; the system does this when memory runs out, so try a smaller model or batch";
    return "crashed" + report.during() + " (" + strsignal(signal) + "); " + result
        + "; this is a defect of Headroom or of libtorch";
}

} // namespace

void WorkReport::stage(std::string_view stage)
{
    const std::size_t size = std::min(stage.size(), stage_.size() - 1);
    std::copy_n(stage.begin(), size, stage_.begin());
    stage_[size] = '\0';
}

int supervise(std::string_view program, const std::function<int(WorkReport&)>& work)
{
    std::cout.flush();
    std::cerr.flush();
    const auto report = sharedReport();
    const AwaitedSignals signals;
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child < 0) {
        std::cerr << program << ": no process for the recording: " << std::strerror(errno) << '\n';
        return EXIT_FAILURE;
    }
    if (child == 0) {
        signals.restore();
        runChild(parent, *report, work);
    }
    int request = 0;
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
        const int signal = signals.next();
        if (!isRequest(signal))
            continue;
        request = signal;
        kill(child, SIGKILL); // the work may hang in a kernel; a step file is complete or has no name yet
    }
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    const int ended = request != 0 ? request : WTERMSIG(status);
    std::cerr << program << ": " << sentence(ended, *report) << '\n';
    return isRequest(ended) ? 128 + ended : EXIT_FAILURE;
}

} // namespace headroom
