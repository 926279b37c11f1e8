// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/profile/profile.h"
#include "core/profile/profile_windows.h"
#include "core/trace/step_trace.h"

#include <string>

namespace headroom {

/// A step of a trace as a measured step (StepInfo::source is "profile"). An op takes as long as its kernels, or, where
/// the trace has no kernels, as the CPU took; its bytes and flops follow from the shapes, where there are any. Storages
/// are the blocks that profile_memory recorded; what they are for is deduced from when they lived.
/// `gpu` is the spec that is calibrated; empty: the card that the trace names, if it is known.
Result<StepTracePtr> stepOf(const Profile& profile, const ProfileWindow& window, const std::string& name,
                            const std::string& gpu);

/// The known card on which most kernels ran; empty: the trace does not say, or no spec is known of it.
std::string gpuOf(const Profile& profile);

} // namespace headroom
