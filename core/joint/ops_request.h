// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/joint/ops_plan.h"

#include <filesystem>
#include <string_view>
#include <vector>

namespace headroom {

/// "dp", "greedy" or "ilp".
Result<OpsSolver> parseOpsSolver(std::string_view name);
std::string_view opsSolverName(OpsSolver solver);

/// "flops" or "measured".
Result<OpsRuntime> parseOpsRuntime(std::string_view name);

/// Times of a step's ops that were measured elsewhere, for OpsRequest::measuredMs: of a step file that has the same ops
/// in forward and was measured, or of a JSON list with the ms of each op of the step. Errors name the file and what is
/// wrong with it.
Result<std::vector<double>> readOpTimes(const std::filesystem::path& file, const StepTrace& trace);

} // namespace headroom
