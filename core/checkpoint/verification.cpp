// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/checkpoint/verification.h"

#include "core/base/try.h"
#include "core/checkpoint/module_checkpoints.h"
#include "core/predict/predict.h"
#include "core/trace/phase_times.h"

#include <algorithm>
#include <numeric>

namespace headroom {
namespace {

struct Recorded
{
    StepTracePtr trace;
    Timeline timeline;
};

Result<Recorded> record(ModelSource& model, const StepRunner::Options& options, const StepInfo& info,
                        const DeviceSpec& device, const TimeChoice& times, const ProgressReport& progress)
{
    ASSIGN_OR_RETURN(auto trace, StepRunner(model, options).record(info, device, progress));
    ASSIGN_OR_RETURN(auto timed, withTimes(std::move(trace), times));
    ASSIGN_OR_RETURN(auto timeline, predict(*timed.step, {}));
    return Recorded{std::move(timed.step), std::move(timeline)};
}

/// Runs two steps with the policy and measures the second. The first step creates the optimizer's state.
Result<MemoryLevels> execute(ModelSource& model, const StepRunner::Options& options)
{
    StepRunner runner(model, options);
    RETURN_IF_ERROR(runner.run());
    const ExecutedMemory memory;
    RETURN_IF_ERROR(runner.run());
    return memory.levels();
}

ProgressReport part(const ProgressReport& progress, const std::string& name, double begin, double share)
{
    if (!progress)
        return {};
    return
        [=](std::string_view stage, double done) { progress(name + ": " + std::string(stage), begin + share * done); };
}

} // namespace

Result<Verification> verifyMemory(ModelSource& model, const StepRunner::Options& options, const Policy& policy,
                                  const StepInfo& info, const DeviceSpec& device, const ProgressReport& progress,
                                  const TimeChoice& times)
{
    Verification result;
    result.budget = policy.budget;
    ASSIGN_OR_RETURN(const auto plain,
                     record(model, options, info, device, times, part(progress, "without the policy", 0, 0.3)));
    result.baselinePeak = plain.timeline.peak;
    result.stepMs = forwardBackwardMs(*plain.trace);
    result.stepFlops = std::accumulate(plain.trace->ops.flops.begin(), plain.trace->ops.flops.end(), 0.0);

    ASSIGN_OR_RETURN(const auto plan, checkpointPlan(*plain.trace, policy));
    ASSIGN_OR_RETURN(const auto predicted, predict(*plain.trace, plan));
    result.predictedPeak = predicted.peak;
    result.predictedRecomputeMs = predicted.recomputeMs;

    ASSIGN_OR_RETURN(const auto checkpoints,
                     ModuleCheckpoints::create(model.tree(), policy, ModuleCheckpoints::Match::exact));
    StepRunner::Options applied = options;
    applied.moduleCalls = checkpoints;
    if (progress)
        progress("with the policy", 0.3);
    ASSIGN_OR_RETURN(const auto executed, execute(model, applied));
    static_cast<LevelComparison&>(result) = compareLevels(*plain.trace, predicted, executed);

    ASSIGN_OR_RETURN(
        const auto recorded,
        record(model, applied, info, device, times, part(progress, "with the policy, recorded", 0.6, 0.3)));
    result.executedRecomputeMs = std::max(0.0, recomputedMs(*recorded.trace) - recomputedMs(*plain.trace));
    return result;
}

Result<GradientComparison> compareGradients(ModelSource& model, const StepRunner::Options& options,
                                            const Policy& policy)
{
    ASSIGN_OR_RETURN(const auto checkpoints,
                     ModuleCheckpoints::create(model.tree(), policy, ModuleCheckpoints::Match::byName));
    StepRunner::Options applied = options;
    applied.moduleCalls = checkpoints;
    return compareGradients(
        model.tree(), [&] { return StepRunner(model, options).forwardAndBackward(); },
        [&] { return StepRunner(model, applied).forwardAndBackward(); });
}

} // namespace headroom
