// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/trainer_plan.h"

#include "tests/core/synthetic_step.h"

#include <gmock/gmock.h>

using namespace headroom;
using ::testing::HasSubstr;

namespace {

StepTracePtr step()
{
    SyntheticOptions options;
    options.blocks = 6;
    static const StepTracePtr trace = makeSyntheticStep(options);
    return trace;
}

PlanAnswer planned(Trainer trainer, Bytes budget)
{
    PlanRequest request;
    request.budget = budget;
    auto result = planForTrainer(step(), trainer, request);
    EXPECT_TRUE(result) << result.error().message;
    return result ? *result : PlanAnswer{};
}

std::string config(Trainer trainer, const PlanAnswer& plan)
{
    const auto result = trainerConfig(*step(), plan.policy(step()), trainer);
    EXPECT_TRUE(result) << result.error().message;
    return result ? *result : std::string();
}

/// The step with the layers first, first + n, ... checkpointed as a whole.
Timeline everyNth(int first, int n)
{
    CheckpointPlan plan;
    for (std::uint32_t i = 0; i < step()->modules.size(); ++i)
        for (int layer = first; layer < 6; layer += n)
            if (step()->moduleFqn(ModuleId(i)) == "Transformer.layers." + std::to_string(layer))
                plan.push_back({ModuleId(i), {}});
    return *predict(*step(), plan);
}

} // namespace

TEST(TrainerPlan, HuggingFaceTakesTheLargestNThatFits)
{
    const Bytes recorded = predict(*step(), {})->peak;
    EXPECT_EQ(config(Trainer::huggingFace, planned(Trainer::huggingFace, recorded)),
              "TrainingArguments(gradient_checkpointing=False)\n");
    for (const int n : {1, 2, 3, 6}) {
        const Timeline expected = everyNth(0, n);
        const PlanAnswer plan = planned(Trainer::huggingFace, expected.peak);
        EXPECT_EQ(plan.plan.status, PlanStatus::optimal);
        EXPECT_EQ(plan.plan.peak, expected.peak) << n;
        EXPECT_EQ(plan.plan.recomputeMs, expected.recomputeMs) << n;
        EXPECT_EQ(plan.policy(step()).budget, expected.peak);
        const std::string text = config(Trainer::huggingFace, plan);
        if (n == 1)
            EXPECT_THAT(text, HasSubstr("gradient_checkpointing=True"));
        else
            EXPECT_THAT(text, HasSubstr("\"every_n_layers\": " + std::to_string(n) + "}"));
    }
    const PlanAnswer none = planned(Trainer::huggingFace, everyNth(0, 1).peak - 1);
    EXPECT_EQ(none.plan.status, PlanStatus::infeasible);
    EXPECT_EQ(none.plan.leastBudget, everyNth(0, 1).peak);
    EXPECT_THAT(none.plan.reason, HasSubstr("no option of Hugging Face's Trainer fits "));
}

TEST(TrainerPlan, TorchtitanListsOpsWhereThatIsLessThanWholeBlocks)
{
    const Bytes recorded = predict(*step(), {})->peak;
    EXPECT_THAT(config(Trainer::torchtitan, planned(Trainer::torchtitan, recorded)), HasSubstr("mode = \"none\""));
    bool listed = false;
    for (const int n : {1, 2, 3, 6}) {
        const Timeline whole = everyNth(n - 1, n);
        const PlanAnswer plan = planned(Trainer::torchtitan, whole.peak);
        EXPECT_EQ(plan.plan.status, PlanStatus::optimal);
        EXPECT_LE(plan.plan.peak, whole.peak) << n;
        EXPECT_LE(plan.plan.recomputeMs, whole.recomputeMs) << n;
        // The policy is what the configuration says, and the plan is what the policy does.
        const auto regions = checkpointPlan(*step(), plan.policy(step()));
        ASSERT_TRUE(regions) << regions.error().message;
        EXPECT_EQ(predict(*step(), *regions)->peak, plan.plan.peak);
        const std::string text = config(Trainer::torchtitan, plan);
        EXPECT_EQ(text.find("early_stop = true") != std::string::npos, !plan.regions.empty()) << text;
        listed = listed || text.find("_op_sac_save_list") != std::string::npos;
    }
    EXPECT_TRUE(listed);
    EXPECT_EQ(planned(Trainer::torchtitan, everyNth(0, 1).peak - 1).plan.status, PlanStatus::infeasible);
}
