// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <filesystem>

namespace headroom {

/// Opens a step file by mapping it. Nothing is parsed but the section table and the StepInfo; every offset, count, id
/// and the checksum are checked, so that a damaged file cannot be read out of bounds. Errors (badInput) name the file,
/// the offset and what was expected: not a step file, made by a newer Headroom, truncated, damaged.
Result<StepTracePtr> readStepTrace(const std::filesystem::path& path);

/// Writes atomically: a new file beside `path`, then rename. Nothing half-written stays.
Status writeStepTrace(const StepTrace& trace, const std::filesystem::path& path);

/// Checks everything that a StepTrace promises (see its comment) and the order of events: no free before alloc, ops and
/// calls nest, each id begins once. Returns the first violation.
Status validate(const StepTrace& trace);

} // namespace headroom
