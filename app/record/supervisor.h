// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <functional>
#include <string_view>

namespace headroom {

/// What a supervised work may tell about itself.
class WorkReport
{
public:
    /// What it does now: "backward". Stays in memory that outlives a crash.
    virtual void stage(std::string_view stage) = 0;
    /// Its result is in place; whatever happens now, it is complete.
    virtual void written() = 0;

protected:
    ~WorkReport() = default;
};

/// Runs `work` in a process of its own and returns its exit code. A crash, a kill when memory has run out, and Ctrl+C
/// or SIGTERM also when the work hangs each end as one sentence on stderr that begins with `program`: 1 for what ended
/// by itself, 128 + signal for what was told to end. When this process is killed, the work is too.
int supervise(std::string_view program, const std::function<int(WorkReport&)>& work);

} // namespace headroom
