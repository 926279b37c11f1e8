// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <string>
#include <string_view>

namespace headroom {

/// The StepInfo as it stands in a step file: one JSON object.
std::string stepInfoToJson(const StepInfo& info);

/// Keys that are missing keep their default, so that older files stay readable; unknown ones are passed over. Errors:
/// not an object, a value of another type.
Result<StepInfo> stepInfoFromJson(std::string_view text);

} // namespace headroom
