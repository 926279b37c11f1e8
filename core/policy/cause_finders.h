// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/causes.h"
#include "core/timeline/timeline.h"
#include "core/trace/source_lines.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace headroom {

struct FoundCause
{
    CauseKind kind = CauseKind::growth;
    Bytes bytes = 0;
    std::string sentence;
    std::vector<StorageId> storages; ///< that the bytes are of; empty: `line` is known
    std::uint32_t line = SourceLines::none;
};

/// Returns what the shapes of the tensors at the peak tell: scores of attention, logits, and results of ops that make
/// much from little. `atPeak`: the live blocks at the peak; `peak`: the bytes of all.
std::vector<FoundCause> causesByShape(const StepTrace& step, const std::vector<LiveBlock>& atPeak, Bytes peak);

/// Returns the line of a snapshot that holds more from step to step, or from call to call of a model, and most bytes.
std::optional<FoundCause> growthOfSnapshot(const StepTrace& step, const Timeline& timeline, const SourceLines& lines);

} // namespace headroom
