// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/cost/time_model.h"
#include "core/trace/step_trace.h"

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headroom {

/// How long ops take on one GPU, learned from steps that were measured there.
///
/// An op of one name and element type has a curve: the time that it took for each time that the model said. Between
/// two of them the time is interpolated, beyond them it keeps its ratio to the model; nothing takes less than the
/// shortest kernel that was seen. An op that never ran there takes the ratio of its class, or of all ops together.
struct Calibration
{
    struct Point
    {
        double modelMs = 0; ///< what `base` says
        double measuredMs = 0; ///< the mean of `count` ops
        std::int64_t count = 0;

        friend bool operator==(const Point&, const Point&) = default;
    };
    /// All ops of a class together.
    struct Sum
    {
        double modelMs = 0;
        double measuredMs = 0;

        friend bool operator==(const Sum&, const Sum&) = default;
    };
    /// "aten.mm.default", or, learned from a profiler's trace, "aten.mm"; DType of the first result.
    using Key = std::pair<std::string, DType>;

    std::string gpu; ///< name of the spec whose times it corrects: "h200-141gb"
    TimeModel base = TimeModel::roofline; ///< the model that it corrects
    std::vector<std::string> steps; ///< models of the steps that it was learned from
    double shortestMs = 0;
    double ratio = 1; ///< measured to modelled, of all ops together
    std::map<Key, std::vector<Point>> curves; ///< by rising modelMs
    std::map<std::string, Sum, std::less<>> classes; ///< by workClassName(); empty for the roofline

    friend bool operator==(const Calibration&, const Calibration&) = default;
};

/// Learns from a step that was measured on a known GPU. Errors (badInput) name what is missing: a simulated step, times
/// that are not kernels', a card that has no spec. `file` is for the messages.
Result<Calibration> calibrate(const StepTrace& measured, const std::string& file);

/// `newer` first: where both saw an op at a time of the model, the newer one counts. Of two models only the newer
/// one's counts.
Calibration merged(const Calibration& older, const Calibration& newer);

/// Time of an op of this name, type, class (empty: not known) and time of the model; 0 stays 0.
double calibratedMs(const Calibration& calibration, std::string_view op, DType dtype, std::string_view workClass,
                    double modelMs);

/// The simulated step with the times of the calibration. A measured one has its own and stays what it is, as does one
/// without the shapes that the calibration's model needs.
StepTracePtr calibrated(const StepTracePtr& step, const Calibration& calibration);

std::string calibrationToJson(const Calibration& calibration);
/// Errors (badInput) name `file` and what was expected.
Result<Calibration> calibrationFromJson(std::string_view text, const std::string& file);

/// Where this user's calibrations lie, one file a GPU: HEADROOM_CALIBRATION_DIR, or torch-headroom/calibration in the
/// user's configuration.
std::filesystem::path calibrationFolder();
std::filesystem::path calibrationFile(const std::string& gpu);

/// That of a GPU; none where there is no file.
Result<std::optional<Calibration>> readCalibration(const std::filesystem::path& file);

/// Adds to what is in the file.
Status addToCalibration(const Calibration& learned, const std::filesystem::path& file);

} // namespace headroom
