// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/sac/module_info.h"
#include "core/sac/sac_stats.h"
#include "core/trace/step_trace.h"

#include <map>
#include <span>
#include <string>
#include <vector>

namespace headroom {

/// SACStats of every module with children that ran, by fqn, as SACEstimator would collect them on this step. Of a
/// module that ran more than once, those of its last call, as PyTorch's.
///
/// Random is what the op's schema calls so, flash attention included: PyTorch leaves that one out unless its dropout is
/// passed by keyword, which autograd never does, and would recompute it with another mask than the stored random ops.
///
/// Where PyTorch gives up, this goes on: a module without ops has empty stats; an in-place op on a clone, which is not
/// counted, is its own parent.
std::map<std::string, SacStats> sacStats(const StepTrace& trace);

/// The ops that the SacStats of a module index, in order; empty when the module did not run.
std::vector<OpId> sacOps(const StepTrace& trace, ModuleId module);

/// The same for several modules, in one pass over the step.
std::vector<std::vector<OpId>> sacOps(const StepTrace& trace, std::span<const ModuleId> modules);

/// The ModuleInfo of a recorded step: memory as MemTracker's module snapshots, times as RuntimeEstimator's, trade-off
/// curves as SACEstimator's (exact convex fit; identical modules get identical curves). One entry for each module that
/// ran, in the order of model.modules(). The batch (Category::input) is not counted, as MemTracker does not count it.
///
/// Where PyTorch fails, this goes on: a module without backward has 0 for what is taken in backward; one without memory
/// to discard is a leaf. Times are summed as whole femtoseconds, so that identical modules have identical times
/// wherever they are in the step. Modules that run again in backward, checkpointed, count there with time only.
///
/// Errors (badInput): no module ran; the step was interrupted inside a module.
Result<ModuleInfo> moduleInfo(const StepTrace& trace);

} // namespace headroom
