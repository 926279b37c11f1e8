// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/python/planning_api.h"

#include "core/base/bytes.h"
#include "core/base/json_text.h"
#include "core/base/try.h"
#include "core/cost/device_specs.h"
#include "core/cost/step_times.h"
#include "core/policy/card_planner.h"
#include "core/trace/step_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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

Result<StepTracePtr> stepToPlan(const char* file)
{
    ASSIGN_OR_RETURN(StepTracePtr step, readStepTrace(file));
    ASSIGN_OR_RETURN(TimedStep timed, withTimes(std::move(step), TimeChoice{}));
    RETURN_IF_ERROR(plannable(*timed.step));
    return std::move(timed.step);
}

Result<std::string> plan(const char* file, const char* gpu, Bytes budget, Bytes margin,
                         const std::optional<std::string>& settings, const char* policyFile, const PlanRequest& request)
{
    ASSIGN_OR_RETURN(const StepTracePtr step, stepToPlan(file));
    ASSIGN_OR_RETURN(const DeviceSpec spec, findDeviceSpec(gpuName(gpu)));
    ASSIGN_OR_RETURN(Card card, cardFor(spec, *step, settings.value_or(recordedAllocatorSettings(step->info))));
    card.margin = margin;
    // A share, not a smaller card: with expandable segments PyTorch runs out of the two in different ways.
    if (budget > 0)
        card.rules.memoryFraction = static_cast<double>(budget) / static_cast<double>(spec.memory);
    ASSIGN_OR_RETURN(const StepPlanner planner, StepPlanner::create(step));
    ASSIGN_OR_RETURN(const PlanAnswer answer,
                     planForCardAndSettings(planner, request, std::make_shared<const Card>(std::move(card))));
    if (answer.fits() && !answer.regions.empty()) {
        Policy policy = answer.policy(planner.model());
        noteCard(policy, *answer.card->card, answer.card->run, answer.card->leastMemory, settings);
        RETURN_IF_ERROR(writePolicy(policy, policyFile));
    }
    ASSIGN_OR_RETURN(const ModuleInfo info, modulesToPlan(planner.model()));
    return jsonText(toJson(answer, step.get(), info, true));
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

const char* headroom_plan(const char* step, const char* gpu, std::int64_t budget, std::int64_t margin,
                          const char* settings, const char* policy, std::int64_t hostMemory, int recompute)
{
    return python::guardedText([&] {
        const auto chosen = settings != nullptr ? std::optional<std::string>(settings) : std::nullopt;
        PlanRequest request;
        request.offload = hostMemory >= 0;
        request.hostMemory = std::max<Bytes>(hostMemory, 0);
        request.recompute = recompute != 0;
        return python::plan(step, gpu, budget, margin, chosen, policy, request);
    });
}

const char* headroom_format_bytes(std::int64_t bytes)
{
    static thread_local std::string text;
    text = formatBytes(bytes);
    return text.c_str();
}

const char* headroom_name_of_gpu(const char* title, std::int64_t memory, int computeCapability, int multiprocessors)
{
    static thread_local std::string name;
    GpuFacts facts;
    facts.name = title;
    facts.memory = memory;
    facts.computeCapability = computeCapability;
    facts.multiprocessors = multiprocessors;
    name = deviceSpecOf(facts).name;
    return findDeviceSpec(name) ? name.c_str() : "";
}
