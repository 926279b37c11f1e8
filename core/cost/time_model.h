// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/op_work.h"
#include "core/cost/roofline.h"
#include "core/trace/step_trace.h"

#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// Who says how long an op takes on a card.
enum class TimeModel : std::uint8_t {
    roofline, ///< PyTorch's RuntimeEstimator (core/cost/roofline.h)
    kernel ///< what kernels reach on real cards (core/cost/kernel_model.h)
};
std::string_view timeModelName(TimeModel model); ///< "roofline", "kernel"

/// Whose the milliseconds of a step's ops are: "roofline", "kernel", "calibration" or "measured".
std::string timesOf(const StepInfo& info);

/// Milliseconds of every op on a card. `kernel` needs the shapes that the ops were called with
/// (StepTrace::Signatures); an op without takes the roofline's.
std::vector<double> opTimes(const StepTrace& trace, const DeviceSpec& device, TimeModel model);

/// The step with other times, on another card; its other columns are shared.
/// `times` is for StepInfo::times.
StepTracePtr withOpTimes(const StepTracePtr& step, std::vector<double> ms, const std::string& gpu,
                         std::string_view times);

/// What an op of a step does, from its name and what it was called with.
OpWork workOf(const StepTrace& trace, OpId op);

} // namespace headroom
