// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace headroom {

/// The StepInfo as it stands in a step file: one JSON object.
std::string stepInfoToJson(const StepInfo& info);

/// What a real device showed, as "measured" of every document about a step.
nlohmann::ordered_json toJson(const MeasuredStep& measured);

/// Which process of a job, as "distributed" of every document about a step.
nlohmann::ordered_json toJson(const RankInfo& rank);

/// Keys that are missing keep their default, so that older files stay readable; unknown ones are passed over. Errors,
/// which `source` begins: not an object, a value of another type.
Result<StepInfo> stepInfoFromJson(std::string_view text, const std::string& source);

} // namespace headroom
