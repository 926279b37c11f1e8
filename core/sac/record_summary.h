// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/roofline.h"
#include "core/timeline/timeline.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace headroom {

/// Ops that ran on zeros for want of a simulated kernel: [{"op", "module", "count"}].
nlohmann::ordered_json fallbacksJson(const StepTrace& step);

/// What is said of a step after it was recorded on `card`. Who records adds "step" (the file), "record_ms" and "notes".
nlohmann::ordered_json recordSummary(const StepTrace& step, const DeviceSpec& card, const Timeline& timeline);

/// Such a document as text, lines.
std::string recordText(const nlohmann::ordered_json& summary);

} // namespace headroom
