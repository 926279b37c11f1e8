// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/snapshot/device_history.h"
#include "core/trace/step_trace.h"

#include <string>

namespace headroom {

/// Converts a recorded history to a step. Its storages are the allocator's blocks, on the recorded time axis;
/// StepTrace::reserved has the reserved bytes. An op is the work between two events, named after the frames. Its module
/// is the one in the user metadata, else that of the frames, else the innermost annotation.
///
/// Facts that PyTorch does not record are deduced. The phase comes from frames and annotations; an event without
/// frames, where others have some, is from autograd's own thread. The category comes from the phases in which a block
/// was made and freed. Older blocks are `other`, unless their frames say more. Saved tensors are unknown, so no plan
/// can be made of such a step. A failed allocation is an op (out_of_memory.h).
Result<StepTracePtr> stepOf(const Snapshot& snapshot, const DeviceHistory& history, std::size_t device,
                            const std::string& name, const SnapshotWatch& watch = {});

} // namespace headroom
