// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/calibration.h"

#include "core/base/atomic_write.h"
#include "core/base/json_reader.h"
#include "core/base/json_text.h"
#include "core/cost/roofline.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace headroom {
namespace {

/// Relative difference below which two modelled times are of the same op on the same shapes.
constexpr double sameTime = 1e-6;

bool isSame(double a, double b)
{
    return std::abs(a - b) <= sameTime * std::max(a, b);
}

/// Adds an op to a sorted curve.
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
                        + ", and Headroom simulates no such GPU: there is nothing to calibrate");
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

namespace {

constexpr int fileVersion = 1;

std::optional<DType> dtypeNamed(std::string_view name)
{
    for (std::size_t i = 0; i < dtypeCount; ++i)
        if (dtypeName(static_cast<DType>(i)) == name)
            return static_cast<DType>(i);
    return std::nullopt;
}

std::vector<Calibration::Point> pointsIn(const json::Json& list)
{
    std::vector<Calibration::Point> points;
    for (const json::Json& entry : json::list(list)) {
        if (!entry.is_array() || entry.size() != 3)
            json::expected(entry, "a point: [modelled ms, measured ms, count]");
        const Calibration::Point point{
            json::notNegative(entry[0]), json::notNegative(entry[1]),
            json::integerFrom(entry[2], 1, json::largest, "how many ops were measured, 1 or more")};
        if (point.modelMs <= 0 || (!points.empty() && points.back().modelMs >= point.modelMs))
            json::wrong(list, "has a point that is out of order: expected points in ascending order of modelled ms");
        points.push_back(point);
    }
    return points;
}

TimeModel timeModelIn(const json::Json& value)
{
    const std::string name = json::string(value);
    if (name != timeModelName(TimeModel::roofline) && name != timeModelName(TimeModel::kernel))
        json::expected(value, "roofline or kernel");
    return name == timeModelName(TimeModel::kernel) ? TimeModel::kernel : TimeModel::roofline;
}

Calibration::Sum sumIn(const json::Json& value)
{
    const auto [modelled, measured]
        = json::pairOf(json::notNegative, json::notNegative, "modelled ms, measured ms")(value);
    return {modelled, measured};
}

Calibration fromDocument(const json::Json& document)
{
    if (!document.is_object() || !document.contains("headroom_calibration"))
        json::expected(document, "a calibration of torch-headroom calibrate");
    if (document["headroom_calibration"] != fileVersion)
        json::expected(document["headroom_calibration"],
                       "version " + std::to_string(fileVersion) + "; a newer Headroom wrote this");
    Calibration calibration;
    calibration.gpu = json::at(document, "gpu", json::string);
    calibration.steps = json::atOr(document, "steps", json::listOf(json::string), std::vector<std::string>());
    calibration.shortestMs = json::at(document, "shortest_ms", json::notNegative);
    calibration.ratio = json::at(document, "ratio", json::notNegative);
    calibration.cpuFactor = json::atOr(document, "cpu_factor", json::notNegative, 0.0);
    calibration.base = json::atOr(document, "time_model", timeModelIn, TimeModel::roofline);
    for (const auto& [name, sum] :
         json::atOr(document, "classes", json::mapOf(sumIn), std::map<std::string, Calibration::Sum>()))
        calibration.classes[name] = sum;
    for (const json::Json& op : json::at(document, "ops", json::list)) {
        const auto dtype = dtypeNamed(json::at(op, "dtype", json::string));
        if (!dtype)
            json::expected(op["dtype"], "an element type of PyTorch");
        calibration.curves[{json::at(op, "op", json::string), *dtype}] = json::at(op, "points", pointsIn);
    }
    return calibration;
}

} // namespace

std::string calibrationToJson(const Calibration& calibration)
{
    nlohmann::ordered_json document{{"headroom_calibration", fileVersion}, {"gpu", calibration.gpu},
                                    {"steps", calibration.steps},          {"shortest_ms", calibration.shortestMs},
                                    {"ratio", calibration.ratio},          {"ops", nlohmann::json::array()}};
    document["time_model"] = timeModelName(calibration.base);
    if (calibration.cpuFactor > 0)
        document["cpu_factor"] = calibration.cpuFactor;
    if (!calibration.classes.empty())
        document["classes"] = nlohmann::ordered_json::object();
    for (const auto& [name, sum] : calibration.classes)
        document["classes"][name] = {sum.modelMs, sum.measuredMs};
    for (const auto& [key, curve] : calibration.curves) {
        auto points = nlohmann::ordered_json::array();
        for (const Calibration::Point& point : curve)
            points.push_back({point.modelMs, point.measuredMs, point.count});
        document["ops"].push_back({{"op", key.first}, {"dtype", dtypeName(key.second)}, {"points", points}});
    }
    return jsonText(document, 1) + '\n';
}

Result<Calibration> calibrationFromJson(std::string_view text, const std::string& file)
{
    return json::read(text, file, fromDocument);
}

std::filesystem::path calibrationFolder()
{
    const auto variable = [](const char* name) {
        const char* const value = std::getenv(name); // NOLINT(concurrency-mt-unsafe): nothing sets it
        return std::filesystem::path(value ? value : "");
    };
    if (const auto folder = variable("HEADROOM_CALIBRATION_DIR"); !folder.empty())
        return folder;
    if (const auto folder = variable("XDG_CONFIG_HOME"); folder.is_absolute())
        return folder / "torch-headroom" / "calibration";
    const auto home = variable("HOME");
    return home.empty() ? home : home / ".config" / "torch-headroom" / "calibration";
}

std::filesystem::path calibrationFile(const std::string& gpu)
{
    // The name comes from a step file and must name no other folder.
    std::string name = gpu;
    std::ranges::replace_if(
        name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '.'; }, '-');
    const auto folder = calibrationFolder();
    if (folder.empty())
        return folder;
    // Programs before 0.2 were called headroom, and so was the folder: that folder is still read and written.
    std::error_code ignored;
    const auto file = folder / (name + ".json");
    const auto old = folder.parent_path().parent_path() / "headroom" / "calibration" / file.filename();
    const bool isNamed = folder.parent_path().filename() != "torch-headroom"; // HEADROOM_CALIBRATION_DIR
    return isNamed || std::filesystem::exists(file, ignored) || !std::filesystem::exists(old, ignored) ? file : old;
}

Result<std::optional<Calibration>> readCalibration(const std::filesystem::path& file)
{
    std::error_code ignored;
    if (file.empty() || !std::filesystem::exists(file, ignored))
        return std::optional<Calibration>();
    auto calibration = json::readFile(file, fromDocument);
    if (!calibration)
        return calibration.error();
    return std::optional<Calibration>(std::move(*calibration));
}

Status addToCalibration(const Calibration& learned, const std::filesystem::path& file)
{
    const auto known = readCalibration(file);
    if (!known)
        return known.error();
    std::error_code failed;
    if (file.has_parent_path() && !std::filesystem::exists(file.parent_path(), failed)
        && !std::filesystem::create_directories(file.parent_path(), failed))
        return badInput(file.parent_path().string() + " cannot be created: " + failed.message());
    const bool sameGpu = *known && (*known)->gpu == learned.gpu;
    if (*known && !sameGpu)
        return badInput(file.string() + " is the calibration of " + (*known)->gpu + ", not of " + learned.gpu
                        + ": name another file");
    return writeAtomically(file, calibrationToJson(sameGpu ? merged(**known, learned) : learned));
}

} // namespace headroom
