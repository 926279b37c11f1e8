// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/python/calibration_api.h"

#include "core/base/json_text.h"
#include "core/base/try.h"
#include "core/cost/step_times.h"
#include "core/trace/step_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace headroom::python {
namespace {

constexpr std::size_t mostOps = 40;

struct OpTotal
{
    std::int64_t count = 0;
    double ms = 0;
};

Status learn(const char* measuredStep, const char* file)
{
    ASSIGN_OR_RETURN(const auto step, readStepTrace(measuredStep));
    ASSIGN_OR_RETURN(const auto learned, calibrate(*step, measuredStep));
    return addToCalibration(learned, file);
}

nlohmann::json timesOf(const StepTrace& step)
{
    double sum = 0;
    double recomputed = 0;
    std::map<std::string_view, double> phases;
    std::map<std::string_view, OpTotal> totals;
    for (std::uint32_t row = 0; row < step.ops.size(); ++row) {
        const OpId op(row);
        const double ms = step.ops.ms[op];
        sum += ms;
        if ((step.ops.flags[op] & opRecomputed) != 0)
            recomputed += ms;
        phases[phaseName(step.ops.phase[op])] += ms;
        OpTotal& total = totals[step.opName(op)];
        total.ms += ms;
        ++total.count;
    }
    std::vector<std::pair<std::string_view, OpTotal>> longest(totals.begin(), totals.end());
    std::ranges::stable_sort(longest, std::ranges::greater(), [](const auto& op) { return op.second.ms; });
    longest.resize(std::min(longest.size(), mostOps));
    nlohmann::json document{{"step_ms", sum}, {"recompute_ms", recomputed}, {"phases", phases}};
    document["ops"] = nlohmann::json::array();
    for (const auto& [name, total] : longest)
        document["ops"].push_back({name, total.count, total.ms});
    return document;
}

Result<std::string> times(const char* file, const char* calibrationFile)
{
    ASSIGN_OR_RETURN(auto step, readStepTrace(file));
    const std::string calibration = *calibrationFile != 0 ? calibrationFile : "none";
    const auto timed = withTimes(std::move(step), TimeChoice{TimeModel::kernel, {}, calibration});
    if (!timed)
        return timed.error();
    return jsonText(timesOf(*timed->step));
}

} // namespace
} // namespace headroom::python

using namespace headroom;

int headroom_calibrate(const char* measured_step, const char* calibration_file)
{
    return python::guarded([&] { return python::learn(measured_step, calibration_file); });
}

const char* headroom_step_times(const char* step, const char* calibration_file)
{
    return python::guardedText([&] { return python::times(step, calibration_file); });
}
