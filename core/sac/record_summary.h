// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/roofline.h"
#include "core/timeline/timeline.h"

#include <nlohmann/json_fwd.hpp>

#include <span>
#include <string>

namespace headroom {

/// fallbackOps() as JSON: [{"op", "module", "count"}].
nlohmann::ordered_json fallbacksJson(const StepTrace& step);

/// Adds "out_of_memory" if allocations of the step failed. `ms` has the time of each op.
void addOutOfMemory(nlohmann::ordered_json& document, const StepTrace& step, std::span<const double> ms);

/// The summary of a step recorded for `card`, as JSON. The recorder adds "step" (the file), "record_ms" and "notes".
nlohmann::ordered_json recordSummary(const StepTrace& step, const DeviceSpec& card, const Timeline& timeline);

/// A summary as lines of text.
std::string recordText(const nlohmann::ordered_json& summary);

} // namespace headroom
