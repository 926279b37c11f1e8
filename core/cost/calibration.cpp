// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/calibration.h"

#include "core/cost/roofline.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace headroom {
namespace {

/// Roofline times closer than this are the same op on the same shapes.
constexpr double sameTime = 1e-6;

bool isSame(double a, double b)
{
    return std::abs(a - b) <= sameTime * std::max(a, b);
}

/// Adds one op to a curve, which stays sorted.
void add(std::vector<Calibration::Point>& curve, double rooflineMs, double measuredMs)
{
    auto place = std::ranges::lower_bound(curve, rooflineMs * (1 - sameTime), {}, &Calibration::Point::rooflineMs);
    if (place == curve.end() || !isSame(place->rooflineMs, rooflineMs))
        place = curve.insert(place, {rooflineMs, 0, 0});
    place->measuredMs
        = (place->measuredMs * static_cast<double>(place->count) + measuredMs) / static_cast<double>(place->count + 1);
    ++place->count;
}

double onCurve(const std::vector<Calibration::Point>& curve, double rooflineMs)
{
    const auto above = std::ranges::lower_bound(curve, rooflineMs, {}, &Calibration::Point::rooflineMs);
    if (above == curve.begin())
        return above->measuredMs * rooflineMs / above->rooflineMs;
    const auto& below = *std::prev(above);
    if (above == curve.end())
        return below.measuredMs * rooflineMs / below.rooflineMs;
    const double share = (rooflineMs - below.rooflineMs) / (above->rooflineMs - below.rooflineMs);
    return below.measuredMs + share * (above->measuredMs - below.measuredMs);
}

/// The overall ratio and the shortest time, of ops that took any.
void summarize(Calibration& calibration)
{
    double measured = 0;
    double roofline = 0;
    double shortest = std::numeric_limits<double>::infinity();
    for (const auto& [key, curve] : calibration.curves) {
        for (const Calibration::Point& point : curve) {
            const auto count = static_cast<double>(point.count);
            measured += point.measuredMs * count;
            roofline += point.rooflineMs * count;
            if (point.measuredMs > 0)
                shortest = std::min(shortest, point.measuredMs);
        }
    }
    calibration.ratio = roofline > 0 ? measured / roofline : 1;
    calibration.shortestMs = std::isfinite(shortest) ? shortest : 0;
}

} // namespace

Result<Calibration> calibrate(const StepTrace& measured, const std::string& file)
{
    if (measured.info.simulated || !measured.info.measured)
        return badInput(file + " was not measured: record a step on the GPU with --device cuda");
    if (measured.info.measured->kernels == 0)
        return badInput(
            file + " has no times of kernels"
            + (measured.info.measured->notes.empty() ? std::string() : ": " + measured.info.measured->notes.front()));
    const auto spec = findDeviceSpec(measured.info.gpu);
    if (!spec)
        return badInput(file + " was measured on " + measured.info.gpu
                        + ", which no simulation stands for: there is nothing to calibrate");
    Calibration calibration;
    calibration.gpu = spec->name;
    calibration.steps.push_back(measured.info.model);
    const StepTrace::Ops& ops = measured.ops;
    for (std::uint32_t row = 0; row < ops.size(); ++row) {
        const OpId op(row);
        const double roofline = rooflineMs(*spec, ops.bytes[op], ops.flops[op], ops.dtype[op], ops.flags[op]);
        if ((ops.flags[op] & opMeasured) == 0 || roofline <= 0)
            continue;
        add(calibration.curves[{std::string(measured.opName(op)), ops.dtype[op]}], roofline, ops.ms[op]);
    }
    summarize(calibration);
    return calibration;
}

Calibration merged(const Calibration& older, const Calibration& newer)
{
    Calibration both = newer;
    for (const std::string& step : older.steps)
        if (std::ranges::find(both.steps, step) == both.steps.end())
            both.steps.push_back(step);
    for (const auto& [key, curve] : older.curves) {
        std::vector<Calibration::Point>& known = both.curves[key];
        const std::vector<Calibration::Point> seen = known;
        for (const Calibration::Point& point : curve) {
            const bool isNew = std::ranges::none_of(
                seen, [&](const Calibration::Point& other) { return isSame(other.rooflineMs, point.rooflineMs); });
            if (isNew)
                known.insert(std::ranges::upper_bound(known, point.rooflineMs, {}, &Calibration::Point::rooflineMs),
                             point);
        }
    }
    summarize(both);
    return both;
}

double calibratedMs(const Calibration& calibration, std::string_view op, DType dtype, double rooflineMs)
{
    if (rooflineMs <= 0)
        return 0;
    auto curve = calibration.curves.find({std::string(op), dtype});
    if (curve == calibration.curves.end()) // of a profiler's trace, which names no overloads
        curve = calibration.curves.find({std::string(op.substr(0, op.rfind('.'))), dtype});
    if (curve == calibration.curves.end() || curve->second.empty())
        return std::max(calibration.ratio * rooflineMs, calibration.shortestMs);
    const bool isFree = std::ranges::all_of(curve->second, [](const auto& point) { return point.measuredMs <= 0; });
    return isFree ? 0 : std::max(onCurve(curve->second, rooflineMs), calibration.shortestMs);
}

StepTracePtr calibrated(const StepTracePtr& step, const Calibration& calibration)
{
    if (!step->info.simulated)
        return step;
    struct Columns
    {
        std::vector<double> ms;
        StepTracePtr step; ///< whose memory the other columns are
    };
    auto columns = std::make_shared<Columns>();
    columns->step = step;
    columns->ms.reserve(step->ops.size());
    for (std::uint32_t row = 0; row < step->ops.size(); ++row) {
        const OpId op(row);
        columns->ms.push_back(calibratedMs(calibration, step->opName(op), step->ops.dtype[op], step->ops.ms[op]));
    }
    auto result = std::make_shared<StepTrace>(*step);
    result->ops.ms.rows = columns->ms;
    result->memory = std::move(columns);
    return result;
}

} // namespace headroom
