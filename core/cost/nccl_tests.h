// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/collective_model.h"

#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// Whether a text is what a program of nccl-tests printed.
bool isNcclTests(std::string_view text);

/// The rows of it, times out of place. The collective is the one that the text names ("all_gather_perf"), else the one
/// whose bus bandwidth is that multiple of its algorithm's. Errors (badInput) say what is missing in `file`.
Result<std::vector<CollectiveSample>> readNcclTests(std::string_view text, const std::string& file);

} // namespace headroom
