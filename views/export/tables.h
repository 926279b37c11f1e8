// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/export/export.h"

#include <string>

namespace headroom {

// The data of the pictures as CSV (RFC 4180, decimal point, bytes as whole numbers), header line first.

/// One row for each change of memory: step, ms, phase, module, op, recomputed, total, and each category. The first row
/// of a step is its start.
std::string timelineCsv(const TimelineExport& data);

/// One row for each corner of each curve; the plan's choice is marked.
std::string tradeOffCsv(const TradeOffExport& data);

std::string frontierCsv(const FrontierExport& data);

} // namespace headroom
