// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/fit/fit.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// How a row is known: "recorded", "calculated" from recordings of other sizes, or "failed".
std::string_view sourceOf(const FitRow& row);

/// "yes", "with a plan", "no", or "failed".
std::string_view verdictOf(const FitRow& row);

/// What the search found for one card, as sentences: the largest sizes, the fastest, and by how much.
std::vector<std::string> findings(const FitSeries& series, const FitRequest& request);

/// The failures of rows, a sentence for each cause: "--batch 1, 3 failed: the batch is odd".
std::vector<std::string> failures(const FitSeries& series, const FitRequest& request);

/// The document of `torch-headroom fit --json`: the series, each with its rows.
nlohmann::ordered_json toJson(const FitResult& result);

/// The rows as comma-separated values with a line of names.
std::string toCsv(const FitResult& result);

} // namespace headroom
