// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/collective_model.h"

#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// Whether a text is the output of a program of nccl-tests.
bool isNcclTests(std::string_view text);

/// The rows of the output, with the out-of-place times. The collective is the one that the text names
/// ("all_gather_perf"), else it is inferred from the ratio of bus bandwidth to algorithm bandwidth. Errors (badInput)
/// say what is missing in `file`.
Result<std::vector<CollectiveSample>> readNcclTests(std::string_view text, const std::string& file);

} // namespace headroom
