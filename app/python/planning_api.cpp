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
#include <memory>
#include <optional>
#include <string>

namespace headroom::python {
namespace {

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
