// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/calibration.h"
#include "core/cost/time_model.h"

#include <filesystem>
#include <string>

namespace headroom {

/// Which times the ops of a step are to have.
struct TimeChoice
{
    TimeModel model = TimeModel::kernel;
    std::string gpu; ///< the card; empty: the one that the step was recorded for
    std::string calibration = "auto"; ///< what was learned of the card, if anything; "none"; or a file
    std::string topology = {}; ///< of a distributed step: a name or a file; empty: the card's
};

/// Whose times a step has.
struct StepTimes
{
    std::string gpu; ///< of which a calibration is there; empty: none, or the step was measured itself
    std::filesystem::path file; ///< the calibration
    bool calibrated = false; ///< the ops' times are the calibration's
    TimeModel model = TimeModel::roofline; ///< of a simulated step; what a calibration corrects
    bool withoutShapes = false; ///< `kernel` was asked for, and the file holds no shapes: the times are the roofline's

    friend bool operator==(const StepTimes&, const StepTimes&) = default;
};

struct TimedStep
{
    StepTracePtr step;
    StepTimes times;
};

/// Whether a simulated step says anything of another card than its own. Errors (badInput) say why not: a card that is
/// not known, or on which PyTorch would run other kernels than were recorded.
Status standsFor(const StepTrace& trace, const std::string& gpu);

/// The step with the times that are asked for, and on the card; every command and the window read steps through this.
/// Errors (badInput): as standsFor() and findTopology(); a calibration that is not there, broken, or of another GPU; a
/// measured step has times of its own, of its own card.
Result<TimedStep> withTimes(StepTracePtr step, const TimeChoice& choice);

} // namespace headroom
