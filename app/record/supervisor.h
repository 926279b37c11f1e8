// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace headroom {

/// The longest time of a stage of the work.
struct StageLimit
{
    double seconds = 0;
    bool processorTime = false; ///< of the processor, summed over all threads; otherwise of the clock
};

/// Reports of supervised work to the supervisor, in memory that both processes share: a report outlives a crash of the
/// work.
class WorkReport
{
public:
    /// Sets the current stage: "backward". The stage's time begins.
    void stage(std::string_view stage, StageLimit limit);
    /// Reports that the result is complete, whatever happens afterwards.
    void written() { written_ = true; }

    bool isWritten() const { return written_; }
    /// Returns " during backward"; empty if no stage was set.
    std::string during() const { return stage_.front() == '\0' ? "" : " during " + std::string(stage_.data()); }

    /// Returns the number of stages that were set; 0: none, and there is no limit.
    std::uint64_t stages() const { return stages_; }
    const StageLimit& limit() const { return limit_; }

private:
    std::array<char, 64> stage_{};
    StageLimit limit_;
    std::atomic<bool> written_ = false;
    std::atomic<std::uint64_t> stages_ = 0;
};

/// Work for supervise().
struct SupervisedWork
{
    std::function<int(WorkReport&)> run; ///< in a separate process; returns the exit code
    std::function<Status()> publish; ///< in the supervisor, after the work has ended, if written() was reported
};

/// Runs `work` in a separate process and returns the exit code. A crash, the kernel's out-of-memory killer, Ctrl+C,
/// SIGTERM and a stage beyond its limit end the work, even if the work hangs, with a sentence on stderr that begins
/// with `program`. The exit code is then 1 for a crash or kill, 2 for the limit, and 128 + signal for Ctrl+C and
/// SIGTERM. If this process is killed, so is the work.
int supervise(std::string_view program, const SupervisedWork& work);

} // namespace headroom
