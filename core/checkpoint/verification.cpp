// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/checkpoint/verification.h"

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
    auto trace = StepRunner(model, options).record(info, device, progress);
    if (!trace)
        return trace.error();
    auto timed = withTimes(*std::move(trace), times);
    if (!timed)
        return timed.error();
    auto timeline = predict(*timed->step, {});
    if (!timeline)
        return timeline.error();
    return Recorded{std::move(timed->step), std::move(*timeline)};
}

/// A second step with the policy, watched. The first one creates the optimizer's state.
Result<MemoryLevels> execute(ModelSource& model, const StepRunner::Options& options)
{
    StepRunner runner(model, options);
    if (const Status first = runner.run(); !first)
        return first.error();
    const ExecutedMemory memory;
    if (const Status second = runner.run(); !second)
        return second.error();
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
    const auto plain = record(model, options, info, device, times, part(progress, "without the policy", 0, 0.3));
    if (!plain)
        return plain.error();
    result.baselinePeak = plain->timeline.peak;
    result.stepMs = forwardBackwardMs(*plain->trace);
    result.stepFlops = std::accumulate(plain->trace->ops.flops.begin(), plain->trace->ops.flops.end(), 0.0);

    const auto plan = checkpointPlan(*plain->trace, policy);
    if (!plan)
        return plan.error();
    const auto predicted = predict(*plain->trace, *plan);
    if (!predicted)
        return predicted.error();
    result.predictedPeak = predicted->peak;
    result.predictedRecomputeMs = predicted->recomputeMs;

    const auto checkpoints = ModuleCheckpoints::create(model.tree(), policy, ModuleCheckpoints::Match::exact);
    if (!checkpoints)
        return checkpoints.error();
    StepRunner::Options applied = options;
    applied.moduleCalls = *checkpoints;
    if (progress)
        progress("with the policy", 0.3);
    const auto executed = execute(model, applied);
    if (!executed)
        return executed.error();
    static_cast<LevelComparison&>(result) = compareLevels(*plain->trace, *predicted, *executed);

    const auto recorded
        = record(model, applied, info, device, times, part(progress, "with the policy, recorded", 0.6, 0.3));
    if (!recorded)
        return recorded.error();
    result.executedRecomputeMs = std::max(0.0, recomputedMs(*recorded->trace) - recomputedMs(*plain->trace));
    return result;
}

Result<GradientComparison> compareGradients(ModelSource& model, const StepRunner::Options& options,
                                            const Policy& policy)
{
    const auto checkpoints = ModuleCheckpoints::create(model.tree(), policy, ModuleCheckpoints::Match::byName);
    if (!checkpoints)
        return checkpoints.error();
    StepRunner::Options applied = options;
    applied.moduleCalls = *checkpoints;
    return compareGradients(
        model.tree(), [&] { return StepRunner(model, options).forwardAndBackward(); },
        [&] { return StepRunner(model, applied).forwardAndBackward(); });
}

} // namespace headroom
