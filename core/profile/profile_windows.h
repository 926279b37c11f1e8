// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/profile/profile.h"

#include <optional>
#include <string>
#include <vector>

namespace headroom {

/// A training step in a trace: all events that begin in this window.
struct ProfileWindow
{
    std::string name; ///< "ProfilerStep#4"
    std::int64_t number = 0; ///< 4
    Profile::Nanoseconds begin = 0;
    Profile::Nanoseconds end = 0; ///< exclusive
    std::size_t spans = 0;
    bool whole = true; ///< false: the trace begins or ends inside it
};

/// Returns the steps of a trace in order: those that the profiler named (ProfilerStep#N). Without these, they are the
/// windows between the ends of Optimizer.step, counted from 1; without those, the whole trace. A step with less than
/// half of the spans of the fullest one is not whole: the profiler's last one may be empty.
std::vector<ProfileWindow> profileWindows(const Profile& profile);

/// Returns the step with this number, or without a number the last whole step. Error (badInput), which begins with
/// `name`: no step has this number.
Result<ProfileWindow> chooseWindow(const std::vector<ProfileWindow>& windows, std::optional<std::int64_t> number,
                                   const std::string& name);

} // namespace headroom
