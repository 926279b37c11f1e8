// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/timeline.h"

#include <nlohmann/json_fwd.hpp>

namespace headroom {

/// Bytes by category, by the names that categories have in documents.
nlohmann::ordered_json toJson(const StepInfo& info, const CategoryBytes& bytes);

/// Adds "at_peak", and "phases" with the bytes at each instant, as every document about a step has them. Of an instant
/// that comes again, as in gradient accumulation, the last.
void addAccount(nlohmann::ordered_json& document, const StepInfo& info, const Timeline& timeline);

/// Adds "out_of_memory", where the step has such instants.
void addOutOfMemory(nlohmann::ordered_json& document, const StepTrace& step);

} // namespace headroom
