// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/sac/module_info.h"
#include "core/sac/sac_stats.h"
#include "core/trace/step_trace.h"

#include <map>
#include <string>

namespace headroom {

/// SACStats of every module with children that ran, by fqn, as SACEstimator would collect them on this step.
std::map<std::string, SacStats> sacStats(const StepTrace& trace);

/// The ModuleInfo of a recorded step: memory as MemTracker's module snapshots, times as RuntimeEstimator's, trade-off
/// curves as SACEstimator's (exact convex fit; identical modules get identical curves).
Result<ModuleInfo> moduleInfo(const StepTrace& trace);

} // namespace headroom
