// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/snapshot/snapshot_replay.h"
#include "core/trace/step_trace.h"

#include <filesystem>
#include <optional>

namespace headroom {

/// A memory snapshot of PyTorch as a step, with what it was made of.
struct ImportedSnapshot
{
    SnapshotPtr snapshot;
    std::size_t device = 0;
    DeviceHistory history;
    StepTracePtr step;
};

/// Which part of a snapshot is wanted.
struct ImportRequest
{
    SnapshotRange range;
    std::optional<std::size_t> device; ///< without one, that with most events

    bool isWhole() const { return !device && range.fromMs <= 0 && range.toMs == SnapshotRange().toMs; }
};

/// Errors (badInput): not a snapshot, nothing of this device, nothing in this range.
Result<ImportedSnapshot> importSnapshot(const std::filesystem::path& path, const ImportRequest& request = {},
                                        const SnapshotWatch& watch = {});

/// The same of one that was read. `path` names it.
Result<ImportedSnapshot> importSnapshot(SnapshotPtr snapshot, const std::filesystem::path& path,
                                        const ImportRequest& request, const SnapshotWatch& watch = {});

/// A step file, or a memory snapshot as a step: what the file begins with decides.
Result<StepTracePtr> readStepOrSnapshot(const std::filesystem::path& path);

/// Is the file a pickle? False also when it cannot be read.
bool isSnapshotFile(const std::filesystem::path& path);

} // namespace headroom
