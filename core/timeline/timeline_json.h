// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/timeline.h"

#include <nlohmann/json_fwd.hpp>

namespace headroom {

/// A JSON object with the bytes of each category by its name (categoryName()).
nlohmann::ordered_json toJson(const StepInfo& info, const CategoryBytes& bytes);

/// Adds "at_peak", and "phases" with the bytes at each mark, to JSON output about a step. If a mark repeats, as in
/// gradient accumulation, the last mark counts.
void addAccount(nlohmann::ordered_json& document, const StepInfo& info, const Timeline& timeline);

} // namespace headroom
