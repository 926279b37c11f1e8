// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/atomic_write.h"
#include "core/base/mapped_file.h"
#include "core/cost/calibration.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>

namespace headroom {
namespace {

using Json = nlohmann::ordered_json;
constexpr int fileVersion = 1;

std::optional<DType> dtypeNamed(std::string_view name)
{
    for (std::size_t i = 0; i < dtypeCount; ++i)
        if (dtypeName(static_cast<DType>(i)) == name)
            return static_cast<DType>(i);
    return std::nullopt;
}

/// What a document must hold; thrown and caught in this file.
struct Unexpected
{
    std::string what;
};

double timeIn(const Json& value)
{
    if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() < 0)
        throw Unexpected{"a time in `points` of 0 or more"};
    return value.get<double>();
}

std::vector<Calibration::Point> pointsIn(const Json& list)
{
    if (!list.is_array())
        throw Unexpected{"a list `points` for each op"};
    std::vector<Calibration::Point> points;
    for (const Json& entry : list) {
        if (!entry.is_array() || entry.size() != 3 || !entry[2].is_number_integer() || entry[2].get<std::int64_t>() < 1)
            throw Unexpected{"points of roofline ms, measured ms and a count"};
        const Calibration::Point point{timeIn(entry[0]), timeIn(entry[1]), entry[2].get<std::int64_t>()};
        if (point.rooflineMs <= 0 || (!points.empty() && points.back().rooflineMs >= point.rooflineMs))
            throw Unexpected{"points in the order of their roofline ms"};
        points.push_back(point);
    }
    return points;
}

Calibration fromDocument(const Json& document)
{
    if (!document.is_object() || !document.contains("headroom_calibration"))
        throw Unexpected{"a calibration, as torch-headroom calibrate writes it"};
    if (document["headroom_calibration"] != fileVersion)
        throw Unexpected{"version " + std::to_string(fileVersion) + "; a newer Headroom wrote this"};
    Calibration calibration;
    const auto text = [](const Json& value, const char* what) {
        if (!value.is_string())
            throw Unexpected{std::string("a text ") + what};
        return value.get<std::string>();
    };
    calibration.gpu = text(document.value("gpu", Json()), "`gpu`");
    for (const Json& step : document.value("steps", Json::array()))
        calibration.steps.push_back(text(step, "in `steps`"));
    calibration.shortestMs = timeIn(document.value("shortest_ms", Json()));
    calibration.ratio = timeIn(document.value("ratio", Json()));
    const Json ops = document.value("ops", Json());
    if (!ops.is_array())
        throw Unexpected{"a list `ops`"};
    for (const Json& op : ops) {
        if (!op.is_object())
            throw Unexpected{"objects in `ops`"};
        const auto dtype = dtypeNamed(text(op.value("dtype", Json()), "`dtype`"));
        if (!dtype)
            throw Unexpected{"an element type of PyTorch in `dtype`"};
        calibration.curves[{text(op.value("op", Json()), "`op`"), *dtype}] = pointsIn(op.value("points", Json()));
    }
    return calibration;
}

} // namespace

std::string calibrationToJson(const Calibration& calibration)
{
    Json document{{"headroom_calibration", fileVersion},   {"gpu", calibration.gpu},     {"steps", calibration.steps},
                  {"shortest_ms", calibration.shortestMs}, {"ratio", calibration.ratio}, {"ops", Json::array()}};
    for (const auto& [key, curve] : calibration.curves) {
        Json points = Json::array();
        for (const Calibration::Point& point : curve)
            points.push_back({point.rooflineMs, point.measuredMs, point.count});
        document["ops"].push_back({{"op", key.first}, {"dtype", dtypeName(key.second)}, {"points", points}});
    }
    return document.dump(1, ' ', false, Json::error_handler_t::replace) + '\n';
}

Result<Calibration> calibrationFromJson(std::string_view text, const std::string& file)
{
    try {
        return fromDocument(Json::parse(text));
    } catch (const Json::exception&) {
        return badInput(file + ": expected a JSON document, as torch-headroom calibrate writes it");
    } catch (const Unexpected& unexpected) {
        return badInput(file + ": expected " + unexpected.what);
    }
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
    // The name comes from a step file: it names no other folder.
    std::string name = gpu;
    std::ranges::replace_if(
        name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '.'; }, '-');
    const auto folder = calibrationFolder();
    return folder.empty() ? folder : folder / (name + ".json");
}

Result<std::optional<Calibration>> readCalibration(const std::filesystem::path& file)
{
    std::error_code ignored;
    if (file.empty() || !std::filesystem::exists(file, ignored))
        return std::optional<Calibration>();
    const auto mapped = MappedFile::open(file);
    if (!mapped)
        return mapped.error();
    const auto bytes = (*mapped)->bytes();
    auto calibration = calibrationFromJson({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file.string());
    if (!calibration)
        return calibration.error();
    return std::optional<Calibration>(std::move(*calibration));
}

Result<TimedStep> withTimes(StepTracePtr step, const std::string& choice)
{
    const bool named = choice != "auto" && choice != "none";
    if (!step->info.simulated) {
        if (named)
            return badInput("the step has times of its own, which " + choice
                            + " cannot replace: expected a simulated step");
        return TimedStep{std::move(step), {}};
    }
    const std::filesystem::path file = named ? std::filesystem::path(choice) : calibrationFile(step->info.gpu);
    const auto calibration = readCalibration(file);
    if (!calibration && choice != "none")
        return calibration.error();
    if (!calibration || !*calibration) {
        if (named)
            return badInput(choice + ": there is no such file; torch-headroom calibrate writes one");
        return TimedStep{std::move(step), {}};
    }
    if ((*calibration)->gpu != step->info.gpu)
        return badInput(file.string() + " is of " + (*calibration)->gpu + ", and the step is of " + step->info.gpu);
    const StepTimes times{step->info.gpu, file, choice != "none"};
    return TimedStep{times.calibrated ? calibrated(step, **calibration) : std::move(step), times};
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
