// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/snapshot/snapshot_replay.h"
#include "core/trace/step_trace.h"

#include <filesystem>
#include <optional>

namespace headroom {

/// A memory snapshot of PyTorch converted to a step, with its sources.
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

/// Reads a step file, or a memory snapshot as a step; the first bytes of the file decide.
Result<StepTracePtr> readStepOrSnapshot(const std::filesystem::path& path);

/// Returns whether the file is a pickle. False also if it cannot be read.
bool isSnapshotFile(const std::filesystem::path& path);

} // namespace headroom
