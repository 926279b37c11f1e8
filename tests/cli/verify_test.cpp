// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
// Two recorded steps compared. Steps that really ran under a policy: tests/python/applied_plan_test.py.
#include "core/policy/policy.h"
#include "core/predict/predict.h"
#include "tests/cli/cli_test.h"

namespace headroom {
namespace {

using testing::HasSubstr;

class VerifySteps : public CliTest
{
protected:
    /// A policy that changes nothing: the same step is what it predicts.
    void writeEmptyPolicy(Bytes budget)
    {
        Policy policy;
        policy.model = trace->info.model;
        policy.budget = budget;
        ASSERT_TRUE(writePolicy(policy, path("policy.json")).ok());
    }

    Finished verify(const std::string& executed, std::vector<std::string> more = {})
    {
        std::vector<std::string> arguments{"verify", stepPath(), "--executed",
                                           executed, "--policy", path("policy.json")};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return headroomProgram(arguments);
    }
};

TEST_F(VerifySteps, AStepThatIsAsPredictedAgrees)
{
    const Bytes peak = predict(*trace, {})->peak;
    writeEmptyPolicy(peak);
    const Finished finished = verify(stepPath(), {"--json"});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    const auto json = finished.json();
    EXPECT_EQ(json["agrees"], true);
    EXPECT_EQ(json["reason"], "");
    EXPECT_EQ(json["executed_peak_bytes"], peak);
    EXPECT_EQ(json["predicted_peak_bytes"], peak);
    EXPECT_EQ(json["baseline_peak_bytes"], peak);
    EXPECT_EQ(json["unequal_allocations"], 0);
    EXPECT_EQ(json["gradients"]["compared"], false);
    EXPECT_THAT(verify(stepPath()).out, HasSubstr("equal to the byte after each of "));
}

TEST_F(VerifySteps, AStepAboveTheBudgetDoesNotFit)
{
    writeEmptyPolicy(predict(*trace, {})->peak - 1);
    const Finished finished = verify(stepPath());
    EXPECT_EQ(finished.exitCode, 3);
    EXPECT_TRUE(isErrorLine(finished.err)) << finished.err;
    EXPECT_THAT(finished.err, HasSubstr("more than the policy's budget of "));
}

TEST_F(VerifySteps, AnotherStepPartsWhereItDoes)
{
    SyntheticOptions longer;
    longer.blocks += 1;
    ASSERT_TRUE(writeStepTrace(*makeSyntheticStep(longer), path("executed.hrs")).ok());
    writeEmptyPolicy(Bytes(1) << 50);
    const Finished finished = verify(path("executed.hrs"), {"--json"});
    EXPECT_EQ(finished.exitCode, 1);
    EXPECT_TRUE(isErrorLine(finished.err)) << finished.err;
    EXPECT_THAT(finished.err, HasSubstr("executed memory differs from the predicted memory: "));
    EXPECT_EQ(finished.json()["agrees"], false);
    EXPECT_GT(finished.json()["largest_difference_bytes"], 0);
}

TEST_F(VerifySteps, AStepThatEndedEarlyIsNotCompared)
{
    writeEmptyPolicy(Bytes(1) << 50);
    StepTrace early = *trace;
    early.info.settings.emplace_back("ended early", "PolicyError: other ops");
    ASSERT_TRUE(writeStepTrace(early, path("early.hrs")).ok());
    expectBadInput(
        verify(path("early.hrs"), {"--json"}),
        {"early.hrs: this step ended early (PolicyError: other ops)", "so that the step cannot be compared"});
}

TEST_F(VerifySteps, WhatIsMissingIsNamed)
{
    expectBadInput(headroomProgram({"verify", "--executed", stepPath(), "--policy", path("policy.json")}),
                   {"the step without the policy is missing"});
    expectBadInput(headroomProgram({"verify", stepPath(), "--executed", stepPath()}), {"--policy is missing"});
    expectBadInput(headroomProgram({"verify", stepPath(), "--executed=" + path("nowhere.hrs"), "--policy", "p.json"}),
                   {"nowhere.hrs"});
    expectBadInput(headroomProgram({"verify", stepPath(), "--executed", stepPath(), "--batch", "3"}), {"--batch"});
}

/// Steps that cannot run again; tests/python/verify_script_test.py runs those that can.
TEST_F(VerifySteps, AStepThatCannotRunAgainSaysWhy)
{
    writeEmptyPolicy(Bytes(1) << 50);
    const auto refused = [&](const StepTrace& step, std::initializer_list<const char*> words) {
        ASSERT_TRUE(writeStepTrace(step, path("script.hrs")).ok());
        expectBadInput(headroomProgram({"verify", path("script.hrs"), "--policy", path("policy.json")}), words);
    };
    StepTrace step = *trace;
    step.info.arguments.clear();
    refused(step, {"script.hrs does not say how the step was recorded"});
    step.info.settings = {{"program", "train.py"}, {"interpreter", "/foreign/bin/python3"}, {"folder", path("")}};
    refused(step, {"was recorded inside a program", "--executed"});
    step.info.arguments = {"--gpu", "a100-80gb", path("train.py")};
    refused(step, {"/foreign/bin/python3", "is no Python of an environment at hand", "--python"});
    step.info.simulated = false;
    refused(step, {"was measured on a GPU"});
    step.info.simulated = true;
    step.info.policy = "p.json";
    refused(step, {"already ran under the policy p.json"});
    step.info.policy.clear();
    step.info.settings.back().second = path("gone");
    refused(step, {"there is no such folder"});
}

} // namespace
} // namespace headroom
