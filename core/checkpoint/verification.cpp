// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/checkpoint/verification.h"

#include "core/checkpoint/module_checkpoints.h"
#include "core/predict/predict.h"

#include <ATen/Context.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/max.h>
#include <ATen/ops/sub.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <unordered_map>

namespace headroom {
namespace {

struct Recorded
{
    StepTracePtr trace;
    Timeline timeline;
};

Result<Recorded> record(ModelSource& model, const StepRunner::Options& options, const StepInfo& info,
                        const DeviceSpec& device, const ProgressReport& progress)
{
    auto trace = StepRunner(model, options).record(info, device, progress);
    if (!trace)
        return trace.error();
    auto timeline = predict(**trace, {});
    if (!timeline)
        return timeline.error();
    return Recorded{std::move(*trace), std::move(*timeline)};
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
                                  const StepInfo& info, const DeviceSpec& device, const ProgressReport& progress)
{
    Verification result;
    result.budget = policy.budget;
    const auto plain = record(model, options, info, device, part(progress, "without the policy", 0, 0.3));
    if (!plain)
        return plain.error();
    result.baselinePeak = plain->timeline.peak;
    result.stepMs = modelMs(*plain->trace);
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

    const auto recorded = record(model, applied, info, device, part(progress, "with the policy, recorded", 0.6, 0.3));
    if (!recorded)
        return recorded.error();
    result.executedRecomputeMs = recomputedMs(*recorded->trace);
    return result;
}

namespace {

struct NamedGradients
{
    std::vector<std::string> names;
    std::vector<at::Tensor> gradients;
};

NamedGradients takeGradients(const ModelTree& tree)
{
    std::unordered_map<const c10::TensorImpl*, std::string> names;
    for (const ModelTree::Registered& registered : tree.registered)
        names.try_emplace(registered.tensor.unsafeGetTensorImpl(),
                          tree.modules[registered.module.value].fqn + "." + registered.name);
    NamedGradients taken;
    for (at::Tensor& parameter : trainableParameters(tree)) {
        if (parameter.grad().defined()) {
            taken.names.push_back(names[parameter.unsafeGetTensorImpl()]);
            taken.gradients.push_back(parameter.grad().contiguous());
        }
        parameter.mutable_grad() = at::Tensor();
    }
    return taken;
}

bool equalToTheBit(const at::Tensor& a, const at::Tensor& b)
{
    return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type()
        && std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

double largestDifference(const at::Tensor& a, const at::Tensor& b)
{
    if (a.sizes() != b.sizes())
        return std::numeric_limits<double>::infinity();
    const double difference = at::max(at::abs(at::sub(a.to(at::kDouble), b.to(at::kDouble)))).item().toDouble();
    return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
}

Result<NamedGradients> gradientsOf(ModelSource& model, const StepRunner::Options& options)
{
    constexpr std::uint64_t seed = 20;
    at::manual_seed(seed);
    if (const Status run = StepRunner(model, options).forwardAndBackward(); !run)
        return run.error();
    return takeGradients(model.tree());
}

} // namespace

Result<GradientComparison> compareGradients(ModelSource& model, const StepRunner::Options& options,
                                            const Policy& policy)
{
    const auto checkpoints = ModuleCheckpoints::create(model.tree(), policy, ModuleCheckpoints::Match::byName);
    if (!checkpoints)
        return checkpoints.error();
    const auto plain = gradientsOf(model, options);
    if (!plain)
        return plain.error();
    StepRunner::Options applied = options;
    applied.moduleCalls = *checkpoints;
    const auto checkpointed = gradientsOf(model, applied);
    if (!checkpointed)
        return checkpointed.error();
    GradientComparison result;
    result.parameters = plain->gradients.size();
    if (plain->names != checkpointed->names) {
        result.parameter = "the list of parameters with a gradient";
        result.largestDifference = std::numeric_limits<double>::infinity();
        return result;
    }
    for (std::size_t i = 0; i < plain->gradients.size(); ++i) {
        if (equalToTheBit(plain->gradients[i], checkpointed->gradients[i]))
            continue;
        const double difference = largestDifference(plain->gradients[i], checkpointed->gradients[i]);
        if (result.parameter.empty() || difference > result.largestDifference) {
            result.parameter = plain->names[i];
            result.largestDifference = difference;
        }
    }
    return result;
}

} // namespace headroom
