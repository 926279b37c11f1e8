// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/atomic_write.h"
#include "core/base/json_reader.h"
#include "core/base/json_text.h"
#include "core/cost/calibration.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace headroom {
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
            json::wrong(list, "has a point that is out of order: expected points in the order of their modelled ms");
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
        json::expected(document, "a calibration, as torch-headroom calibrate writes it");
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
    // The name comes from a step file: it names no other folder.
    std::string name = gpu;
    std::ranges::replace_if(
        name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '.'; }, '-');
    const auto folder = calibrationFolder();
    if (folder.empty())
        return folder;
    // Programs before 0.2 were called headroom, and so was the folder: what was learned there stays where it is.
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
