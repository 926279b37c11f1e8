// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <string>
#include <string_view>

namespace headroom {

/// Reports of supervised work to its supervisor, in memory that both processes share: it outlives a crash of the work.
class WorkReport
{
public:
    /// Sets the current stage: "backward".
    void stage(std::string_view stage);
    /// Reports that the result is complete, whatever happens afterwards.
    void written() { written_ = true; }

    bool isWritten() const { return written_; }
    /// Returns " during backward"; empty if no stage was set.
    std::string during() const { return stage_.front() == '\0' ? "" : " during " + std::string(stage_.data()); }

private:
    std::array<char, 64> stage_{};
    std::atomic<bool> written_ = false;
};

/// Runs `work` in a process of its own and returns its exit code. A crash, the kernel's out-of-memory killer, Ctrl+C
/// and SIGTERM end the work, even if it hangs, with one sentence on stderr that begins with `program`. The exit code is
/// then 1 for a crash or kill, and 128 + signal for Ctrl+C and SIGTERM. If this process is killed, so is the work.
int supervise(std::string_view program, const std::function<int(WorkReport&)>& work);

} // namespace headroom
