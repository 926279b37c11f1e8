// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/profile/profile.h"
#include "core/profile/profile_windows.h"
#include "core/trace/step_trace.h"

#include <string>

namespace headroom {

/// Converts a step of a trace to a measured step (StepInfo::source is "profile"). The time of an op is that of its
/// kernels, or its CPU time if the trace has no kernels. Bytes and flops follow from the shapes, if there are any.
/// Storages are the blocks that profile_memory recorded; their categories are deduced from their lifetimes. `gpu` is
/// the spec to calibrate; empty: the card that the trace names, if it is known.
Result<StepTracePtr> stepOf(const Profile& profile, const ProfileWindow& window, const std::string& name,
                            const std::string& gpu);

/// Returns the known card on which most kernels ran; empty: the trace names none, or its card has no spec.
std::string gpuOf(const Profile& profile);

} // namespace headroom
