// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/profile/profile.h"
#include "core/profile/profile_windows.h"
#include "core/trace/step_trace.h"

#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// An op of a trace as a recorded step has it: below composite ops, so that aten::linear is its aten::addmm.
struct ProfiledOp
{
    const Profile::Span* span = nullptr;
    Phase phase = Phase::forward;
    std::uint32_t module = 0; ///< of `ProfiledStep::modules`
    double gpuMs = 0; ///< of its kernels, copies and fills, and those of the ops inside of it
    double cpuMs = 0;
    std::int64_t kernels = 0;
    Profile::Text kernel = 0; ///< name of the first of them
};

/// What a trace says of one step.
struct ProfiledStep
{
    struct Module
    {
        std::string name; ///< "layers.0.attention"; of the root empty
        std::uint32_t parent = 0;
    };

    std::vector<ProfiledOp> ops; ///< by their begin
    std::vector<Module> modules{Module()}; ///< parents before children; the first is the root
    double stepMs = 0; ///< the longer of what the CPU took, and of the time from the first kernel to the last one's end
    double cpuMs = 0; ///< of its ops on the CPU
    double busyMs = 0; ///< the GPU worked; where streams overlap the time counts once
    double kernelMs = 0;
    double withoutOpMs = 0; ///< of it, what no op launched
    double spanMs = 0; ///< from the first kernel's begin to the last one's end
    double synchronizationMs = 0; ///< the CPU waited for the GPU
    std::int64_t kernels = 0;
};

/// Kernels belong to the window in which they were launched, and to the innermost op that encloses the launch on its
/// thread. Modules are those of python (with_stack), of TorchScript (with_modules) and what record_function named; an
/// op of backward has that of the forward op with its sequence number.
ProfiledStep profiledStep(const Profile& profile, const ProfileWindow& window);

/// "aten::linear" calls other ops and has no kernel of its own in any backend (resources/composite_ops.txt).
bool isCompositeOp(std::string_view name);

} // namespace headroom
