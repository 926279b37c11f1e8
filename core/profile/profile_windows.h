// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/profile/profile.h"

#include <optional>
#include <string>
#include <vector>

namespace headroom {

/// A training step in a trace, by what began in it.
struct ProfileWindow
{
    std::string name; ///< "ProfilerStep#4"
    std::int64_t number = 0; ///< 4
    Profile::Nanoseconds begin = 0;
    Profile::Nanoseconds end = 0; ///< the first instant after it
    std::size_t spans = 0;
    bool whole = true; ///< false: the trace begins or ends inside of it
};

/// The steps of a trace in their order: those that the profiler named (ProfilerStep#N), else what lies between the ends
/// of Optimizer.step, counted from 1, else the trace. A step with less than half of the ops of the fullest one is not
/// whole: the profiler's last one may hold nothing.
std::vector<ProfileWindow> profileWindows(const Profile& profile);

/// The last whole step, or that of a number. Error (badInput), begins with `name`: there is none of this number.
Result<ProfileWindow> chooseWindow(const std::vector<ProfileWindow>& windows, std::optional<std::int64_t> number,
                                   const std::string& name);

} // namespace headroom
