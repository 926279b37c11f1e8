// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <functional>
#include <string_view>

namespace headroom {

/// Reports of supervised work to its supervisor.
class WorkReport
{
public:
    /// Sets the current stage: "backward". It is in memory that outlives a crash.
    virtual void stage(std::string_view stage) = 0;
    /// The result is complete, whatever happens afterwards.
    virtual void written() = 0;

protected:
    ~WorkReport() = default;
};

/// Runs `work` in a process of its own and returns its exit code. A crash, the kernel's out-of-memory killer, Ctrl+C
/// and SIGTERM end the work, even if it hangs, with one sentence on stderr that begins with `program`. The exit code is
/// then 1 for a crash or kill, and 128 + signal for Ctrl+C and SIGTERM. If this process is killed, so is the work.
int supervise(std::string_view program, const std::function<int(WorkReport&)>& work);

} // namespace headroom
