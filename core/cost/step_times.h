// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/calibration.h"
#include "core/cost/time_model.h"

#include <filesystem>
#include <string>

namespace headroom {

/// The user's choice of op times for a step.
struct TimeChoice
{
    TimeModel model = TimeModel::kernel;
    std::string gpu; ///< the GPU; empty: the GPU that the step was recorded for
    std::string calibration = "auto"; ///< "auto": the user's calibration of the GPU, if any; "none"; or a file
    std::string topology = {}; ///< for a distributed step: a name or a file; empty: the GPU's default
};

/// The source of a step's op times.
struct StepTimes
{
    std::string gpu; ///< the GPU that has a calibration; empty: there is none, or the step was measured
    std::filesystem::path file; ///< file of the calibration
    bool calibrated = false; ///< the calibration was applied
    TimeModel model = TimeModel::roofline; ///< time model of a simulated step, corrected by a calibration
    bool withoutShapes = false; ///< no signatures for the requested model `kernel`: times are the roofline's

    friend bool operator==(const StepTimes&, const StepTimes&) = default;
};

struct TimedStep
{
    StepTracePtr step;
    StepTimes times;
};

/// Whether a simulated step is valid for another GPU than its own. Errors (badInput): the GPU is unknown, or PyTorch
/// would run other ops on it than were recorded.
Status standsFor(const StepTrace& trace, const std::string& gpu);

/// The step with the chosen op times, on the chosen GPU. Every command and the window read steps through withTimes().
/// Errors (badInput): as standsFor() and findTopology(); a calibration that is missing, damaged, or of another GPU; a
/// GPU or a calibration was chosen for a measured step.
Result<TimedStep> withTimes(StepTracePtr step, const TimeChoice& choice);

} // namespace headroom
