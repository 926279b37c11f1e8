// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/checkpoint/ops_verification.h"

#include "core/base/try.h"

#include <ATen/ops/equal.h>

#include <utility>

namespace headroom {
namespace {

std::shared_ptr<OpsExecution> executionOf(const OpsPlanner& planner, const OpsPlan& plan)
{
    const auto owner = std::make_shared<const OpsPlanner>(planner);
    return std::make_shared<OpsExecution>(std::shared_ptr<const JointGraph>(owner, &owner->graph()), plan);
}

/// Runs `step` by the plan.
Status follow(const std::shared_ptr<OpsExecution>& execution, const std::function<Status()>& step)
{
    {
        const OpsExecutionScope scope(execution);
        RETURN_IF_ERROR(step());
    }
    return execution->complete();
}

struct Buffer
{
    std::string name;
    at::Tensor tensor;
    at::Tensor value;
};

std::vector<Buffer> buffersOf(const ModelTree& tree)
{
    const Unseen unseen;
    std::vector<Buffer> buffers;
    for (const ModelTree::Registered& registered : tree.registered)
        if (registered.category == Category::buffer && registered.tensor.defined())
            buffers.push_back({tree.modules[registered.module.value].fqn + "." + registered.name, registered.tensor,
                               registered.tensor.clone()});
    return buffers;
}

void restore(const std::vector<Buffer>& buffers)
{
    const Unseen unseen;
    for (const Buffer& buffer : buffers)
        buffer.tensor.copy_(buffer.value);
}

} // namespace

Result<OpsVerification> verifyOps(ModelSource& model, const StepRunner::Options& options, const OpsPlanner& planner,
                                  const OpsPlan& plan, RealDevice* real)
{
    StepRunner runner(model, options);
    RETURN_IF_ERROR(runner.run());
    OpsVerification result;
    if (real) {
        real->resetPeaks();
        RETURN_IF_ERROR(runner.run());
        result.plainPeaks = real->peaks();
        real->resetPeaks();
    }
    const auto execution = executionOf(planner, plan);
    const Timeline predicted = planner.timeline(plan);
    {
        const ExecutedMemory memory;
        RETURN_IF_ERROR(follow(execution, [&] { return runner.run(); }));
        static_cast<LevelComparison&>(result) = compareLevels(*planner.graph().trace, predicted, memory.levels());
    }
    result.predictedPeak = predicted.peak;
    result.planned = {plan.savedBytes, plan.recomputeFlops, plan.recomputed.size()};
    result.executed = execution->executed();
    if (real)
        result.plannedPeaks = real->peaks();
    return result;
}

Result<OpsValues> compareValues(ModelSource& model, const StepRunner::Options& options, const OpsPlanner& planner,
                                const OpsPlan& plan)
{
    const std::vector<Buffer> before = buffersOf(model.tree());
    std::vector<Buffer> plain;
    std::vector<Buffer> planned;
    const auto plainly = [&]() -> Status {
        const Status ran = StepRunner(model, options).forwardAndBackward();
        plain = buffersOf(model.tree());
        restore(before);
        return ran;
    };
    const auto byPlan = [&] {
        const Status ran
            = follow(executionOf(planner, plan), [&] { return StepRunner(model, options).forwardAndBackward(); });
        planned = buffersOf(model.tree());
        restore(before);
        return ran;
    };
    ASSIGN_OR_RETURN(const auto compared, compareGradients(model.tree(), plainly, byPlan));
    OpsValues result;
    static_cast<GradientComparison&>(result) = compared;
    for (std::size_t i = 0; i < plain.size() && result.buffer.empty(); ++i)
        if (!equalToTheBit(plain[i].value, planned[i].value))
            result.buffer = plain[i].name;
    return result;
}

} // namespace headroom
