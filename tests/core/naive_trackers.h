// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/sac/module_info.h"
#include "core/sac/sac_stats.h"
#include "core/trace/step_trace.h"

#include <map>
#include <string>

namespace headroom {

/// MemTracker, RuntimeEstimator and SACEstimator on a recorded step, written down as they are in Python: after every op
/// they look at every module. Slow and plain, to hold moduleInfo() and sacStats() against. Trade-offs are left out.
struct NaiveStatistics
{
    ModuleInfo info;
    std::map<std::string, SacStats> sac;
};
NaiveStatistics naiveStatistics(const StepTrace& trace);

} // namespace headroom
