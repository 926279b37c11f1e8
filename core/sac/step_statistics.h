// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/sac/module_info.h"
#include "core/sac/sac_stats.h"
#include "core/trace/step_trace.h"

#include <map>
#include <string>
#include <vector>

namespace headroom {

/// By fqn: SACStats of every module with children that ran, as SACEstimator would collect them on this step. For a
/// module that ran more than once: of the last call, as in PyTorch.
///
/// An op is random if its schema has the tag nondeterministic_seeded, flash attention included. PyTorch omits flash
/// attention unless dropout is passed by keyword, as autograd never does; a recomputation would then draw another
/// mask.
///
/// Two cases that raise in PyTorch have a result: a module without ops has empty stats; an in-place op on a clone
/// (a clone is not counted) is the op's own parent.
std::map<std::string, SacStats> sacStats(const StepTrace& trace);

/// The ModuleInfo of a recorded step: memory as in MemTracker's module snapshots, times as RuntimeEstimator's,
/// trade-off curves as SACEstimator's (with an exact fit). Has an entry for each module that ran, in the order of
/// model.modules(). The batch (Category::input) is not counted, as in MemTracker.
///
/// Two cases that fail in PyTorch have a result: a module without backward has 0 bytes in backward, and a module
/// without memory to discard is a leaf. Times are summed as integers (Femtoseconds), so that identical modules have
/// identical times. A recomputation of a checkpointed module in backward counts only in time.
///
/// Errors (badInput): no module ran; the step was interrupted inside a module.
Result<ModuleInfo> moduleInfo(const StepTrace& trace);

} // namespace headroom
