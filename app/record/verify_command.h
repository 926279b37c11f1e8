// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/record/record_command.h"
#include "core/checkpoint/gradient_comparison.h"
#include "core/predict/memory_levels.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace headroom {

// Parts of the output of `torch-headroom-record verify`, for a policy and for a plan by op.

/// Returns the object "gradients". `compared` null: not compared, for the reason `whyNot`.
nlohmann::json gradientsJson(const GradientComparison* compared, const std::string& whyNot);

/// Returns the line on how the executed memory differs from the predicted memory.
std::string timelineText(const LevelComparison& memory);

/// Returns why the values of a step are not computed on the CPU; empty: the step is small enough, or the values are
/// `wanted` all the same. For a large wanted step, stderr says that the step takes minutes.
std::string withoutCpu(Bytes peak, double flops, bool wanted);

/// Runs the step with and without the policy, or under a plan by op, and prints a comparison with the prediction. The
/// error says where the results first differ. Calls `watch` with the progress.
Status runVerify(const RecordOptions& options, const ProgressReport& watch);

} // namespace headroom
