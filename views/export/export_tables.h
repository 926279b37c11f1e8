// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/export/export.h"

#include <string>
#include <string_view>

/// The data of the pictures as CSV (RFC 4180, decimal point, bytes as whole numbers), header line first.
namespace headroom {

std::string csvField(std::string_view text); ///< the text as a field, in quotes if needed

/// A row for each change of memory: step, ms, phase, module, op, recomputed, total, and each category. The first row
/// of a step is the start.
std::string timelineCsv(const TimelineExport& data);
/// A row for each corner of each curve; the plan's choice is marked.
std::string tradeOffCsv(const TradeOffExport& data);
/// A row for each block that is alive at the peak. The times are empty for a block from before or after the step.
std::string peakCsv(const StepTrace& trace, const Timeline& timeline, std::size_t count, const LiveTree& tree);
std::string frontierCsv(const FrontierExport& data);

} // namespace headroom
