// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/calibration.h"

#include "core/cost/roofline.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace headroom {
namespace {

/// Relative difference below which two modelled times are of the same op on the same shapes.
constexpr double sameTime = 1e-6;

bool isSame(double a, double b)
{
    return std::abs(a - b) <= sameTime * std::max(a, b);
}

/// Adds one op to a curve, which stays sorted.
void add(std::vector<Calibration::Point>& curve, double modelMs, double measuredMs)
{
    auto place = std::ranges::lower_bound(curve, modelMs * (1 - sameTime), {}, &Calibration::Point::modelMs);
    if (place == curve.end() || !isSame(place->modelMs, modelMs))
        place = curve.insert(place, {modelMs, 0, 0});
    place->measuredMs
        = (place->measuredMs * static_cast<double>(place->count) + measuredMs) / static_cast<double>(place->count + 1);
    ++place->count;
}

double onCurve(const std::vector<Calibration::Point>& curve, double modelMs)
{
    const auto above = std::ranges::lower_bound(curve, modelMs, {}, &Calibration::Point::modelMs);
    if (above == curve.begin())
        return above->measuredMs * modelMs / above->modelMs;
    const auto& below = *std::prev(above);
    if (above == curve.end())
        return below.measuredMs * modelMs / below.modelMs;
    const double share = (modelMs - below.modelMs) / (above->modelMs - below.modelMs);
    return below.measuredMs + share * (above->measuredMs - below.measuredMs);
}

/// Sets the overall ratio and the shortest time above 0.
void summarize(Calibration& calibration)
{
    double measured = 0;
    double modelled = 0;
    double shortest = std::numeric_limits<double>::infinity();
    for (const auto& [key, curve] : calibration.curves) {
        for (const Calibration::Point& point : curve) {
            const auto count = static_cast<double>(point.count);
            measured += point.measuredMs * count;
            modelled += point.modelMs * count;
            if (point.measuredMs > 0)
                shortest = std::min(shortest, point.measuredMs);
        }
    }
    calibration.ratio = modelled > 0 ? measured / modelled : 1;
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
    const bool isTrace = measured.info.source == "profile";
    calibration.base = isTrace || ops.signature.size() > 0 ? TimeModel::kernel : TimeModel::roofline;
    calibration.cpuFactor = measured.info.measured->cpuFactor;
    const std::vector<double> modelled = opTimes(measured, *spec, calibration.base);
    for (std::uint32_t row = 0; row < ops.size(); ++row) {
        const OpId op(row);
        const bool isKnown = calibration.base == TimeModel::roofline || !measured.signatureOf(op).empty();
        if ((ops.flags[op] & opMeasured) == 0 || modelled[row] <= 0 || !isKnown)
            continue;
        add(calibration.curves[{std::string(measured.opName(op)), ops.dtype[op]}], modelled[row], ops.ms[op]);
        if (calibration.base == TimeModel::kernel) {
            Calibration::Sum& sum = calibration.classes[std::string(workClassName(workOf(measured, op).kind))];
            sum.modelMs += modelled[row];
            sum.measuredMs += ops.ms[op];
        }
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
    if (both.cpuFactor <= 0)
        both.cpuFactor = older.cpuFactor;
    if (older.base != newer.base)
        return both;
    for (const auto& [name, sum] : older.classes) {
        both.classes[name].modelMs += sum.modelMs;
        both.classes[name].measuredMs += sum.measuredMs;
    }
    for (const auto& [key, curve] : older.curves) {
        std::vector<Calibration::Point>& known = both.curves[key];
        const std::vector<Calibration::Point> seen = known;
        for (const Calibration::Point& point : curve) {
            const bool isNew = std::ranges::none_of(
                seen, [&](const Calibration::Point& other) { return isSame(other.modelMs, point.modelMs); });
            if (isNew)
                known.insert(std::ranges::upper_bound(known, point.modelMs, {}, &Calibration::Point::modelMs), point);
        }
    }
    summarize(both);
    return both;
}

double calibratedMs(const Calibration& calibration, std::string_view op, DType dtype, std::string_view workClass,
                    double modelMs)
{
    if (modelMs <= 0)
        return 0;
    auto curve = calibration.curves.find({std::string(op), dtype});
    if (curve == calibration.curves.end()) // a profiler's trace names no overloads
        curve = calibration.curves.find({std::string(op.substr(0, op.rfind('.'))), dtype});
    if (curve == calibration.curves.end() || curve->second.empty()) {
        const auto sum = calibration.classes.find(workClass);
        const bool isKnown = sum != calibration.classes.end() && sum->second.modelMs > 0;
        const double ratio = isKnown ? sum->second.measuredMs / sum->second.modelMs : calibration.ratio;
        return std::max(ratio * modelMs, calibration.shortestMs);
    }
    const bool isFree = std::ranges::all_of(curve->second, [](const auto& point) { return point.measuredMs <= 0; });
    return isFree ? 0 : std::max(onCurve(curve->second, modelMs), calibration.shortestMs);
}

namespace {

StepTracePtr withKernels(const StepTracePtr& step, const DeviceSpec& gpu, const Calibration& calibration)
{
    const bool byKernel = calibration.base == TimeModel::kernel;
    std::vector<double> ms = opTimes(*step, gpu, calibration.base);
    for (std::uint32_t row = 0; row < step->ops.size(); ++row) {
        const OpId op(row);
        const std::string_view workClass = byKernel ? workClassName(workOf(*step, op).kind) : std::string_view();
        ms[row] = calibratedMs(calibration, step->opName(op), step->ops.dtype[op], workClass, ms[row]);
    }
    return withOpTimes(step, std::move(ms), step->info.gpu, "calibration");
}

} // namespace

StepTracePtr calibrated(const StepTracePtr& step, const Calibration& calibration)
{
    const auto spec = findDeviceSpec(calibration.gpu);
    const bool byKernel = calibration.base == TimeModel::kernel;
    if (!step->info.simulated || !spec || (byKernel && step->ops.signature.size() == 0))
        return step;
    const StepTracePtr timed = calibration.curves.empty() ? step : withKernels(step, *spec, calibration);
    auto result = std::make_shared<StepTrace>(*timed);
    result->info.cpuFactor = calibration.cpuFactor;
    result->memory = timed;
    return result;
}

} // namespace headroom
