// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/snapshot/import.h"

#include "core/base/try.h"
#include "core/snapshot/snapshot_step.h"
#include "core/trace/step_file.h"

#include <string>

namespace headroom {

Result<ImportedSnapshot> importSnapshot(const std::filesystem::path& path, const ImportRequest& request,
                                        const SnapshotWatch& watch)
{
    // Reading takes about half of the time.
    const auto half = [&](double begin) {
        SnapshotWatch part = watch;
        if (watch.progressed)
            part.progressed = [&watch, begin](double share) { watch.progressed(begin + share / 2); };
        return part;
    };
    ASSIGN_OR_RETURN(SnapshotPtr snapshot, readSnapshot(path, request.range, half(0)));
    return importSnapshot(std::move(snapshot), path, request, half(0.5));
}

Result<ImportedSnapshot> importSnapshot(SnapshotPtr snapshot, const std::filesystem::path& path,
                                        const ImportRequest& request, const SnapshotWatch& watch)
{
    ImportedSnapshot imported;
    imported.snapshot = std::move(snapshot);
    imported.device = request.device.value_or(busiestDevice(*imported.snapshot));
    Result<DeviceHistory> history = deviceHistory(*imported.snapshot, imported.device, request.range);
    if (!history)
        return badInput(path.string() + ": " + history.error().message);
    imported.history = *std::move(history);
    if (imported.history.events.empty())
        return badInput(path.string() + " holds no events of device " + std::to_string(imported.device)
                        + (imported.snapshot->eventCount > 0
                               ? " in this range of time"
                               : ": expected torch.cuda.memory._record_memory_history() to have been on before"));
    ASSIGN_OR_RETURN(imported.step,
                     stepOf(*imported.snapshot, imported.history, imported.device, path.filename().string(), watch));
    if (imported.snapshot->file)
        RETURN_IF_ERROR(imported.snapshot->file->unchanged());
    return imported;
}

bool isSnapshotFile(const std::filesystem::path& path)
{
    const auto file = MappedFile::open(path);
    return file.ok() && looksLikePickle((*file)->bytes());
}

Result<StepTracePtr> readStepOrSnapshot(const std::filesystem::path& path)
{
    if (!isSnapshotFile(path))
        return readStepTrace(path);
    ASSIGN_OR_RETURN(ImportedSnapshot imported, importSnapshot(path));
    return std::move(imported.step);
}

} // namespace headroom
