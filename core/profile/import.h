// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/profile/profile.h"
#include "core/trace/step_trace.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace headroom {

/// Which step of a profiler's trace is meant, and what the trace may not say.
struct ProfileRequest
{
    std::optional<std::int64_t> step; ///< N of ProfilerStep#N; none: the last whole one
    bool everyStep = false; ///< from the first whole one to the last, as one
    std::string gpu; ///< a spec's name; empty: the trace says it
};

Result<StepTracePtr> importProfile(const Profile& profile, const std::string& name, const ProfileRequest& request);
Result<StepTracePtr> importProfile(const std::filesystem::path& path, const ProfileRequest& request = {});

/// A step file, or a memory snapshot or a profiler's trace as a step: what the file begins with decides.
Result<StepTracePtr> readMeasured(const std::filesystem::path& path, const ProfileRequest& request = {});

} // namespace headroom
