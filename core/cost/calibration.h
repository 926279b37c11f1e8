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

/// Corrects the op times of a time model for a GPU by steps that were measured on this GPU.
///
/// Ops of one name and element type have a curve: measured time over the model's time. Between two points the time is
/// interpolated; beyond the ends the ratio of the end point applies. No op takes less than the shortest measured
/// kernel. An op without a curve has the ratio of its class, or else of all ops.
struct Calibration
{
    struct Point
    {
        double modelMs = 0; ///< time by the model `base`
        double measuredMs = 0; ///< mean of `count` ops
        std::int64_t count = 0;

        friend bool operator==(const Point&, const Point&) = default;
    };
    /// Sums over all ops of a class.
    struct Sum
    {
        double modelMs = 0;
        double measuredMs = 0;

        friend bool operator==(const Sum&, const Sum&) = default;
    };
    /// Op name, "aten.mm.default" or, from a profiler's trace, "aten.mm"; DType of the first result.
    using Key = std::pair<std::string, DType>;

    std::string gpu; ///< name of the GPU's DeviceSpec: "h200-141gb"
    TimeModel base = TimeModel::roofline; ///< the time model that is corrected
    std::vector<std::string> steps; ///< StepInfo::model of the measured steps
    double shortestMs = 0;
    double ratio = 1; ///< measured over modelled time of all ops
    double cpuFactor = 0; ///< StepInfo::cpuFactor of the machine; 0: not known
    std::map<Key, std::vector<Point>> curves; ///< by ascending modelMs
    std::map<std::string, Sum, std::less<>> classes; ///< by workClassName(); empty for the roofline

    friend bool operator==(const Calibration&, const Calibration&) = default;
};

/// Makes a calibration from a step that was measured on a known GPU. Errors (badInput) begin with `file`: the step is
/// simulated, has no kernel times, or its GPU has no DeviceSpec.
Result<Calibration> calibrate(const StepTrace& measured, const std::string& file);

/// Merges two calibrations. Where both have a point at the same modelMs, `newer` counts. If the time models
/// differ, only `newer` counts.
Calibration merged(const Calibration& older, const Calibration& newer);

/// Calibrated time in ms of an op of this name, type and class (empty: unknown), with time `modelMs` by the model; 0
/// stays 0.
double calibratedMs(const Calibration& calibration, std::string_view op, DType dtype, std::string_view workClass,
                    double modelMs);

/// The simulated step with calibrated times of GPU and CPU. A measured step is returned unchanged, and so
/// is one without the signatures that the calibration's model needs.
StepTracePtr calibrated(const StepTracePtr& step, const Calibration& calibration);

std::string calibrationToJson(const Calibration& calibration);
/// Errors (badInput) name `file` and what was expected.
Result<Calibration> calibrationFromJson(std::string_view text, const std::string& file);

/// The folder of the user's calibrations, with a file per GPU: HEADROOM_CALIBRATION_DIR, or
/// torch-headroom/calibration in the user's configuration folder.
std::filesystem::path calibrationFolder();
std::filesystem::path calibrationFile(const std::string& gpu);

/// Reads a calibration; nullopt if there is no file. Errors (badInput) as calibrationFromJson().
Result<std::optional<Calibration>> readCalibration(const std::filesystem::path& file);

/// Merges `learned` into the calibration in the file, or creates the file. Errors (badInput): the file is of another
/// GPU, cannot be read, or cannot be written.
Status addToCalibration(const Calibration& learned, const std::filesystem::path& file);

} // namespace headroom
