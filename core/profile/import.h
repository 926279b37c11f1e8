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

/// The step of a profiler's trace to import, and facts that the trace may lack.
struct ProfileRequest
{
    std::optional<std::int64_t> step; ///< N of ProfilerStep#N; nullopt: the last whole step
    bool everyStep = false; ///< import all steps, from the first whole step to the last, as a single step
    std::string gpu; ///< name of a GPU spec; empty: the GPU in the trace
};

/// Makes a step of a trace. Errors (badInput): no such step, a trace that contradicts itself; of a
/// file also as readProfile().
Result<StepTracePtr> importProfile(const Profile& profile, const std::string& name, const ProfileRequest& request);
Result<StepTracePtr> importProfile(const std::filesystem::path& path, const ProfileRequest& request = {});

/// Reads a step file, memory snapshot or profiler's trace; the first bytes decide. Errors (badInput): no such file.
Result<StepTracePtr> readMeasured(const std::filesystem::path& path, const ProfileRequest& request = {});

} // namespace headroom
