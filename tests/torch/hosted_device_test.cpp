// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Plans that are made and executed on one real device, as `verify --device cuda` does on a GPU: here the CPU, which
// every machine has.
#include "core/checkpoint/ops_verification.h"
#include "core/checkpoint/reproducible.h"
#include "core/checkpoint/verification.h"
#include "core/device/hosted_memory.h"
#include "core/device/real_device.h"
#include "core/model/source.h"
#include "core/policy/step_planner.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

namespace headroom {
namespace {

class HostedDevice : public testing::TestWithParam<const char*>
{
protected:
    HostedDevice()
        : device_(openCpu())
        , hosted_(device_)
    {
        at::set_num_threads(1);
        ModelRequest request;
        request.name = GetParam();
        if (!request.name.starts_with("demo:"))
            request.name = HEADROOM_TEST_DATA "/" + request.name;
        else if (request.name == "demo:transformer")
            request.settings = {{"n_layers", "3"},     {"dim", "64"},         {"n_heads", "4"},
                                {"vocab_size", "200"}, {"max_seq_len", "32"}, {"dropout_p", "0.1"}};
        else
            request.settings = {{"dim", "64"}, {"n_layers", "4"}};
        request.batch = request.name.starts_with("demo:") ? 4 : 0;
        request.device = device_->device();
        auto model = openModel(request);
        if (!model)
            throw std::runtime_error(model.error().message);
        model_ = *std::move(model);
    }

    std::shared_ptr<RealDevice> device_;
    sim::HostedMemory hosted_;
    std::unique_ptr<ModelSource> model_;
    StepRunner::Options options_;
};

TEST_P(HostedDevice, ExecutesAPlanForItsOwnOps)
{
    const auto trace = StepRunner(*model_, options_).record({}, device_->spec(), {});
    ASSERT_TRUE(trace) << trace.error().message;
    ASSERT_GT((*trace)->packs.size(), 0U) << "what autograd holds is known";
    const auto planner = OpsPlanner::create(*trace);
    ASSERT_TRUE(planner) << planner.error().message;
    const auto plan = planner->planMonotone({.fraction = 0.5, .measuredMs = {}});
    ASSERT_TRUE(plan) << plan.error().message;
    const auto verified = verifyOps(*model_, options_, *planner, *plan, device_.get());
    ASSERT_TRUE(verified) << verified.error().message;
    EXPECT_EQ(verified->firstDifference, "");
    EXPECT_GT(verified->allocations, 0U);
    EXPECT_EQ(verified->executed.savedBytes, plan->savedBytes);
    EXPECT_EQ(verified->executed.repeatedOps, plan->recomputed.size());
    EXPECT_EQ(verified->executedPeak, plan->peak);
    // Its own allocator saw the same: in its bytes, which are not blocks of 512.
    EXPECT_GT(verified->plannedPeaks.allocated, 0);
    EXPECT_LE(verified->plannedPeaks.allocated, verified->plainPeaks.allocated);
    if (plan->peak < planner->recordedPeak()) {
        EXPECT_LT(verified->plannedPeaks.allocated, verified->plainPeaks.allocated);
    }
    const Reproducible reproducible;
    const auto values = compareValues(*model_, options_, *planner, *plan);
    ASSERT_TRUE(values) << values.error().message;
    EXPECT_TRUE(values->equal()) << values->parameter << values->buffer;
    EXPECT_EQ(values->unrepeatable, "");
    EXPECT_GT(values->parameters, 0U);
}

TEST_P(HostedDevice, ExecutesAPolicyOfItsModules)
{
    StepInfo info;
    info.model = GetParam();
    const auto trace = StepRunner(*model_, options_).record(info, device_->spec(), {});
    ASSERT_TRUE(trace) << trace.error().message;
    const auto planner = StepPlanner::create(*trace);
    ASSERT_TRUE(planner) << planner.error().message;
    PlanRequest request;
    request.budget = planner->recorded()->peak - 1;
    const auto planned = planner->solve(request);
    ASSERT_TRUE(planned) << planned.error().message;
    if (planned->plan.status == PlanStatus::infeasible)
        GTEST_SKIP() << "no module of this model frees anything at the peak";
    const Policy policy = planned->policy(planner->model());
    const auto verified = verifyMemory(*model_, options_, policy, info, device_->spec(), {});
    ASSERT_TRUE(verified) << verified.error().message;
    EXPECT_EQ(verified->firstDifference, "");
    EXPECT_EQ(verified->executedPeak, planned->plan.peak);
    EXPECT_LT(verified->executedPeak, verified->baselinePeak);
    const auto compared = compareGradients(*model_, options_, policy);
    ASSERT_TRUE(compared) << compared.error().message;
    EXPECT_TRUE(compared->equal()) << compared->parameter;
}

INSTANTIATE_TEST_SUITE_P(Models, HostedDevice,
                         testing::Values("demo:transformer", "demo:mlp", "exported/gpt2_tiny_nodrop.pt2",
                                         "exported/random.pt2"),
                         [](const auto& test) {
                             std::string name = test.param;
                             std::ranges::replace_if(
                                 name, [](char c) { return !std::isalnum(c); }, '_');
                             return name;
                         });

TEST(ReproducibleSteps, PutBackWhatTheyChanged)
{
    const bool before = at::globalContext().deterministicAlgorithms();
    {
        const Reproducible reproducible;
        EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
        EXPECT_TRUE(at::globalContext().deterministicAlgorithmsWarnOnly());
    }
    EXPECT_EQ(at::globalContext().deterministicAlgorithms(), before);
}

/// As attention's backward on the CPU takes it: a block for each thread, alive beside the others' or not.
TEST(HostedMemory, ScratchOfAKernelsThreadsDoesNotCount)
{
    const int threads = at::get_num_threads();
    at::set_num_threads(2);
    const std::shared_ptr<RealDevice> device = openCpu();
    const sim::HostedMemory hosted(device);
    sim::resetPeak();
    const sim::MemoryStats before = sim::memoryStats();
    const at::Tensor counted = at::empty({1000});
    at::parallel_for(0, 8, 1, [](std::int64_t, std::int64_t) { at::empty({1000}); });
    const sim::MemoryStats after = sim::memoryStats();
    at::set_num_threads(threads);
    EXPECT_EQ(after.allocations, before.allocations + 1);
    EXPECT_EQ(after.peak, before.live + 4096);
}

} // namespace
} // namespace headroom
