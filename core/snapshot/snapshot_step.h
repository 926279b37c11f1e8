// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/snapshot/device_history.h"
#include "core/trace/step_trace.h"

#include <string>

namespace headroom {

/// A recorded history as a step: its storages are the allocator's blocks, on the recorded time axis; what the device
/// had reserved is in StepTrace::reserved. An op is what the program did between two events, named after the frames;
/// its module is the one that the program named (user metadata), else that of the frames, else the innermost
/// annotation.
///
/// What PyTorch does not record is deduced: the phase from frames and annotations (an event without frames, where
/// others have some, is of autograd's own thread), and the category from the phases in which a block was made and
/// freed. Blocks that were there before are `other`, where their frames do not say more. Nothing is said of saved
/// tensors, so that no plan can be made of it. A request that the device could not meet is an op (out_of_memory.h).
Result<StepTracePtr> stepOf(const Snapshot& snapshot, const DeviceHistory& history, std::size_t device,
                            const std::string& name, const SnapshotWatch& watch = {});

} // namespace headroom
