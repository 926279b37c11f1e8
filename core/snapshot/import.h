// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/snapshot/snapshot_replay.h"
#include "core/trace/step_trace.h"

#include <filesystem>
#include <optional>

namespace headroom {

/// A memory snapshot of PyTorch, and the step that was made of it.
struct ImportedSnapshot
{
    SnapshotPtr snapshot;
    std::size_t device = 0;
    DeviceHistory history;
    StepTracePtr step;
};

/// The part of a snapshot to import.
struct ImportRequest
{
    SnapshotRange range;
    std::optional<std::size_t> device; ///< nullopt: the one with most events

    bool isWhole() const { return !device && range.fromMs <= 0 && range.toMs == SnapshotRange().toMs; }
};

/// Imports a snapshot. Errors (badInput): not a snapshot, no events of this device, none in this range.
Result<ImportedSnapshot> importSnapshot(const std::filesystem::path& path, const ImportRequest& request = {},
                                        const SnapshotWatch& watch = {});

/// Imports a snapshot that has been read from `path`.
Result<ImportedSnapshot> importSnapshot(SnapshotPtr snapshot, const std::filesystem::path& path,
                                        const ImportRequest& request, const SnapshotWatch& watch = {});

/// Reads a step file, or a memory snapshot as a step. The first bytes of the file determine which it is.
Result<StepTracePtr> readStepOrSnapshot(const std::filesystem::path& path);

/// Returns whether the file is a pickle; false if it cannot be read.
bool isSnapshotFile(const std::filesystem::path& path);

} // namespace headroom
