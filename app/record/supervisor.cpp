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
#include <time.h>
#include <unistd.h>

namespace headroom {
namespace {

/// Creates a report in memory that a child process shares with the parent.
auto sharedReport()
{
    void* const memory = mmap(nullptr, sizeof(WorkReport), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        throw std::bad_alloc();
    const auto unmap = [](WorkReport* report) { munmap(report, sizeof(WorkReport)); };
    return std::unique_ptr<WorkReport, decltype(unmap)>(new (memory) WorkReport(), unmap);
}

/// The signals that the supervising process waits for, instead of being interrupted.
class AwaitedSignals
{
public:
    AwaitedSignals()
    {
        sigemptyset(&awaited_);
        for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) {
            struct sigaction action = {};
            sigaction(signal, nullptr, &action);
            if (action.sa_handler != SIG_IGN) // nohup ignores SIGHUP; a blocked signal would come all the same
                sigaddset(&awaited_, signal);
        }
        sigprocmask(SIG_BLOCK, &awaited_, &before_);
    }
    ~AwaitedSignals() { restore(); }
    AwaitedSignals(const AwaitedSignals&) = delete;
    AwaitedSignals& operator=(const AwaitedSignals&) = delete;

    void restore() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }
    /// Returns the next signal; -1: none came for a while.
    int next() const
    {
        constexpr timespec pause{0, 200'000'000};
        return sigtimedwait(&awaited_, nullptr, &pause);
    }

private:
    sigset_t awaited_{};
    sigset_t before_{};
};

/// The time of the current stage of a process.
class StageClock
{
public:
    explicit StageClock(pid_t process)
    {
        if (clock_getcpuclockid(process, &processor_) != 0)
            processor_ = CLOCK_MONOTONIC;
    }
    /// Returns whether the stage takes longer than the limit. A stage begins with the first call during it.
    bool isOver(const WorkReport& report)
    {
        const std::uint64_t stages = report.stages();
        if (stages == 0 || report.isWritten())
            return false;
        if (stages != stages_) {
            stages_ = stages;
            clockBegin_ = seconds(CLOCK_MONOTONIC);
            processorBegin_ = seconds(processor_);
        }
        return report.limit().seconds < (report.limit().processorTime ? seconds(processor_) - processorBegin_
                                                                      : seconds(CLOCK_MONOTONIC) - clockBegin_);
    }

private:
    static double seconds(clockid_t clock)
    {
        timespec time{};
        clock_gettime(clock, &time);
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
    }

    clockid_t processor_ = CLOCK_MONOTONIC;
    std::uint64_t stages_ = 0;
    double clockBegin_ = 0;
    double processorBegin_ = 0;
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

/// Returns the sentence about work that ran longer than a stage may.
std::string endless(const WorkReport& report)
{
    return "ended" + report.during() + " after more than "
        + std::to_string(static_cast<std::int64_t>(report.limit().seconds)) + " s"
        + (report.limit().processorTime ? " of the processor's time" : "")
        + ", perhaps in an endless loop; nothing was written; --time-limit SECONDS allows more";
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

void WorkReport::stage(std::string_view stage, StageLimit limit)
{
    limit_ = limit;
    const std::size_t size = std::min(stage.size(), stage_.size() - 1);
    std::copy_n(stage.begin(), size, stage_.begin());
    stage_[size] = '\0';
    ++stages_;
}

int supervise(std::string_view program, const SupervisedWork& work)
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
        runChild(parent, *report, work.run);
    }
    StageClock clock(child);
    int request = 0;
    bool tooLong = false;
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
        const int signal = signals.next();
        if (isRequest(signal))
            request = signal;
        else
            tooLong |= clock.isOver(*report);
        if (isRequest(signal) || tooLong)
            kill(child, SIGKILL); // the work may hang in a kernel; a step file is complete or has no name yet
    }
    if (report->isWritten() && work.publish) {
        if (const Status published = work.publish(); !published) {
            std::cerr << program << ": " << published.error().message << '\n';
            return static_cast<int>(published.error().kind);
        }
    }
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    if (tooLong && request == 0) {
        std::cerr << program << ": " << endless(*report) << '\n';
        return static_cast<int>(ErrorKind::badInput);
    }
    const int ended = request != 0 ? request : WTERMSIG(status);
    std::cerr << program << ": " << sentence(ended, *report) << '\n';
    return isRequest(ended) ? 128 + ended : EXIT_FAILURE;
}

} // namespace headroom
