// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/atomic_write.h"
#include "core/trace/step_trace.h"

#include <filesystem>

namespace headroom {

/// Reads a step file into memory, so that a later change of the file does not change the step; only the section table
/// and the StepInfo are parsed. Every offset, count, id and checksum is checked, so that a damaged file is never read
/// out of bounds. Errors (badInput) name the file, the offset and what was expected: not a step file, written by a
/// newer Headroom, truncated, damaged, changed during the reading.
Result<StepTracePtr> readStepTrace(const std::filesystem::path& path);

/// Returns whether the file begins as a step file; false for unreadable files.
bool isStepFile(const std::filesystem::path& path);

/// Writes the step to `path` as an AtomicFile. Error: the file cannot be created, written or renamed.
Status writeStepTrace(const StepTrace& trace, const std::filesystem::path& path);
/// Writes the step into `file`; the caller commits the file. Error: the file cannot be written.
Status writeStepTrace(const StepTrace& trace, AtomicFile& file);
/// Waiting for the disk would take longer than recording a small model. Checksums detect an incomplete file, and the
/// step can be recorded again.
constexpr Durability stepDurability = Durability::inSystem;

/// Checks the invariants of a StepTrace (see the comment of StepTables) and the order of the events: no free before
/// alloc, calls nest and ops do not, each id begins once. The error (badInput) is the first violation.
Status validate(const StepTrace& trace);

} // namespace headroom
