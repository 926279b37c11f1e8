// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/clock.h"

#include "app/cli/table.h"
#include "core/cost/time_model.h"

#include <cmath>

namespace headroom::cli {

std::string timesTitle(const StepInfo& info)
{
    const std::string times = timesOf(info);
    if (times == "measured")
        return "measured on the card";
    if (times == "calibration")
        return "the time model's, corrected by what was measured on " + info.gpu;
    return "of the time model `" + times + "` on " + info.gpu;
}

Status addClock(Json& json, const StepTrace& trace, const CheckpointPlan& plan)
{
    json["time_model"] = timesOf(trace.info);
    if (!hasClock(trace))
        return {};
    const Result<StepClock> clock = clockOf(trace, plan);
    if (!clock)
        return clock.error();
    json["clock"] = {{"step_ms", clock->stepMs},
                     {"gpu_ms", clock->gpuMs},
                     {"cpu_ms", clock->cpuMs},
                     {"kernels", std::llround(clock->kernels)},
                     {"recomputed_kernels", std::llround(clock->recomputedKernels)},
                     {"bound_by", clock->boundByCpu() ? "cpu" : "gpu"}};
    return {};
}

Result<std::string> clockText(const StepTrace& trace, const CheckpointPlan& plan)
{
    const Result<StepClock> clock = clockOf(trace, plan);
    if (!clock)
        return clock.error();
    std::string text = formatMs(clock->stepMs) + ": the GPU works " + formatMs(clock->gpuMs) + ", the CPU issues "
        + groupedDigits(std::llround(clock->kernels)) + " kernels in " + formatMs(clock->cpuMs);
    if (clock->recomputedKernels >= 1)
        text += " (" + groupedDigits(std::llround(clock->recomputedKernels)) + " of them again)";
    return text + "; the " + (clock->boundByCpu() ? "CPU" : "GPU") + " binds";
}

} // namespace headroom::cli
