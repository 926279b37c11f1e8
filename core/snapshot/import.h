// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/snapshot/device_history.h"
#include "core/trace/step_trace.h"

#include <filesystem>
#include <optional>
#include <string>

namespace headroom {

/// Converts a recorded history to a step. The storages are the allocator's blocks, on the recorded time axis. An op is
/// the work between two events, named after the frames. The op's module is from the user metadata, otherwise from
/// the frames, otherwise the innermost annotation. A failed allocation is an op (out_of_memory.h).
///
/// Facts that PyTorch does not record are deduced. The phase follows from frames and annotations; an event without
/// frames, if other events have some, is from autograd's own thread. The category follows from the phases in which a
/// block was allocated and freed. Older blocks are `other`, unless the frames tell more. Saved tensors are unknown,
/// so no plan can be made of the step. Errors (badInput): events that contradict each other.
Result<StepTracePtr> stepOf(const Snapshot& snapshot, const DeviceHistory& history, std::size_t device,
                            const std::string& name, const SnapshotWatch& watch = {});

/// A memory snapshot of PyTorch, and the history of a single device in a range of time.
struct SnapshotPart
{
    SnapshotPtr snapshot;
    std::size_t device = 0;
    DeviceHistory history;
};

/// A part of a snapshot, and the step made of the part.
struct ImportedSnapshot : SnapshotPart
{
    StepTracePtr step;
};

/// The part of a snapshot to import.
struct ImportRequest
{
    SnapshotRange range;
    std::optional<std::size_t> device; ///< nullopt: the device with most events

    bool isWhole() const { return !device && range.fromMs <= 0 && range.toMs == SnapshotRange().toMs; }
};

/// Returns a part of a snapshot that has been read from `path`. Errors (badInput): no events of this device, none in
/// this range.
Result<SnapshotPart> partOf(SnapshotPtr snapshot, const std::filesystem::path& path, const ImportRequest& request);

/// Imports a snapshot. Errors (badInput): not a snapshot, no events of this device, none in this range.
Result<ImportedSnapshot> importSnapshot(const std::filesystem::path& path, const ImportRequest& request = {},
                                        const SnapshotWatch& watch = {});

/// Imports a snapshot that has been read from `path`. Errors (badInput): no events of this device, none in this range.
Result<ImportedSnapshot> importSnapshot(SnapshotPtr snapshot, const std::filesystem::path& path,
                                        const ImportRequest& request, const SnapshotWatch& watch = {});

/// Reads a step file, or a memory snapshot as a step; the first bytes decide. Errors (badInput): neither of both, which
/// `kinds` says in words.
Result<StepTracePtr> readStepOrSnapshot(const std::filesystem::path& path,
                                        const std::string& kinds = "a step file nor a memory snapshot");

/// Returns whether the file is a pickle; false for unreadable files.
bool isSnapshotFile(const std::filesystem::path& path);

} // namespace headroom
