// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace headroom {

/// Returns a StepInfo as the JSON object of a step file's section "info".
std::string stepInfoToJson(const StepInfo& info);

/// Returns the object "measured" of JSON output about a step.
nlohmann::ordered_json toJson(const MeasuredStep& measured);

/// Returns the object "distributed" of JSON output about a step.
nlohmann::ordered_json toJson(const RankInfo& rank);

/// Reads a StepInfo. A missing key leaves the default value, so that older files stay readable; unknown keys are
/// ignored. Errors (badInput) begin with `source`: not an object, a value of the wrong type.
Result<StepInfo> stepInfoFromJson(std::string_view text, const std::string& source);

} // namespace headroom
