// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/snapshot/device_history.h"
#include "core/trace/step_trace.h"

#include <string>

namespace headroom {

/// Converts a recorded history to a step. Its storages are the allocator's blocks, on the recorded time axis. An op is
/// the work between two events, named after the frames. Its module is the one in the user metadata, otherwise that of
/// the frames, otherwise the innermost annotation. A failed allocation is an op (out_of_memory.h).
///
/// Facts that PyTorch does not record are deduced. The phase follows from frames and annotations; an event without
/// frames, if other events have some, is from autograd's own thread. The category follows from the phases in which a
/// block was allocated and freed. Older blocks are `other`, unless their frames tell more. Saved tensors are unknown,
/// so no plan can be made of the step.
Result<StepTracePtr> stepOf(const Snapshot& snapshot, const DeviceHistory& history, std::size_t device,
                            const std::string& name, const SnapshotWatch& watch = {});

} // namespace headroom
