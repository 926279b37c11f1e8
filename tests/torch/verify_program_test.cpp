// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/step_times.h"
#include "core/policy/step_planner.h"
#include "core/trace/step_file.h"
#include "tests/torch/record_program.h"

#include <nlohmann/json.hpp>

namespace headroom {
namespace {

const std::string step
    = "demo:transformer --batch 2 --set n_layers=3 --set dim=64 --set n_heads=4 --set vocab_size=96 --set "
      "max_seq_len=64 ";

class VerifyProgram : public RecordProgram
{
protected:
    StepTracePtr trace() const { return *readStepTrace(folder_ / "step.hrs"); }

    /// Records the step and writes the policy for a budget between the least and what the step takes: 0 to 1.
    Policy makePolicy(double share) const
    {
        EXPECT_EQ(run("record " + step + "-o step.hrs").exitCode, 0);
        const auto planner = StepPlanner::create(withTimes(trace(), {})->step); // as `plan` does
        PlanRequest request;
        request.budget = 1;
        const Bytes least = planner->solve(request)->plan.leastBudget;
        request.budget = least + static_cast<Bytes>(static_cast<double>(planner->recorded()->peak - least) * share);
        const auto planned = planner->solve(request);
        Policy policy = planned->policy(planner->model());
        EXPECT_TRUE(writePolicy(policy, folder_ / "policy.json"));
        return policy;
    }
};

TEST_F(VerifyProgram, SaysThatThePlanKeepsItsWord)
{
    const Policy policy = makePolicy(0.4);
    const Outcome result = run("verify " + step + "--policy policy.json --json --progress");
    ASSERT_EQ(result.exitCode, 0) << result.errors;
    const nlohmann::json document = nlohmann::json::parse(result.output);
    EXPECT_EQ(document["agrees"], true);
    EXPECT_EQ(document["reason"], "");
    EXPECT_EQ(document["budget_bytes"], policy.budget);
    EXPECT_EQ(document["executed_peak_bytes"], document["predicted_peak_bytes"]);
    EXPECT_EQ(document["executed_peak_bytes"], policy.predicted.peak);
    EXPECT_LE(document["executed_peak_bytes"], policy.budget);
    EXPECT_GT(document["baseline_peak_bytes"], policy.budget);
    EXPECT_GT(document["allocations"], 100);
    EXPECT_EQ(document["unequal_allocations"], 0);
    EXPECT_NEAR(document["executed_recompute_ms"].get<double>(), policy.predicted.recomputeMs, 1e-9);
    EXPECT_EQ(document["gradients"]["compared"], true);
    EXPECT_EQ(document["gradients"]["largest_difference"], 0);
    EXPECT_GT(document["gradients"]["parameters"], 30);
    std::istringstream lines(result.errors);
    double done = 0;
    for (std::string line; std::getline(lines, line);) {
        const nlohmann::json progress = nlohmann::json::parse(line);
        EXPECT_GE(progress["done"].get<double>(), done) << line;
        done = progress["done"];
    }
    EXPECT_EQ(done, 1);

    const Outcome text = run("verify " + step + "--policy policy.json --device cpu");
    EXPECT_EQ(text.exitCode, 0) << text.errors;
    EXPECT_NE(text.output.find("Timeline      equal to the byte after each of"), std::string::npos) << text.output;
    EXPECT_NE(text.output.find("equal to the bit on the CPU"), std::string::npos) << text.output;
    EXPECT_EQ(text.errors, ""); // the step is small: no word of minutes
}

TEST_F(VerifyProgram, SaysWhyALargeStepIsNotComputedOnTheCpu)
{
    const Outcome result = run("verify demo:transformer --memory-budget 0.5 --json");
    ASSERT_EQ(result.exitCode, 0) << result.errors;
    const nlohmann::json gradients = nlohmann::json::parse(result.output)["gradients"];
    EXPECT_EQ(gradients["compared"], false);
    EXPECT_EQ(gradients["reason"],
              "the step takes 2.25 GiB and 2062 GFLOP, much for the CPU; --device cpu compares gradients all the same");
}

TEST_F(VerifyProgram, PlansOpsForAFractionAndFollowsThePlan)
{
    const Outcome result = run("verify " + step + "--set dropout_p=0.1 --memory-budget 0.5 --json --progress");
    ASSERT_EQ(result.exitCode, 0) << result.errors;
    const nlohmann::json document = nlohmann::json::parse(result.output);
    EXPECT_EQ(document["agrees"], true);
    EXPECT_EQ(document["memory_budget"], 0.5);
    EXPECT_EQ(document["executed_saved_bytes"], document["planned_saved_bytes"]);
    EXPECT_GT(document["executed_saved_bytes"], 0);
    EXPECT_EQ(document["executed_peak_bytes"], document["predicted_peak_bytes"]);
    EXPECT_LT(document["executed_peak_bytes"], document["baseline_peak_bytes"]);
    EXPECT_EQ(document["unequal_allocations"], 0);
    EXPECT_GT(document["repeated_ops"], 10);
    EXPECT_EQ(document["executed_recompute_flops"], document["predicted_recompute_flops"]);
    EXPECT_EQ(document["gradients"]["compared"], true);
    EXPECT_EQ(document["gradients"]["largest_difference"], 0);
    EXPECT_EQ(document["gradients"]["buffer"], "");
    EXPECT_NE(result.errors.find("by the plan"), std::string::npos) << result.errors;

    const Outcome text = run("verify " + step + "--memory-budget 0 --solver greedy");
    EXPECT_EQ(text.exitCode, 0) << text.errors;
    EXPECT_NE(text.output.find("Timeline      equal to the byte after each of"), std::string::npos) << text.output;
    EXPECT_NE(text.output.find("all buffers equal to the bit on the CPU"), std::string::npos) << text.output;

    const auto refused = [&](const std::string& arguments, const std::string& sentence) {
        const Outcome outcome = run("verify " + step + arguments);
        EXPECT_EQ(outcome.exitCode, 2);
        EXPECT_NE(outcome.errors.find(sentence), std::string::npos) << outcome.errors;
    };
    for (const std::string fraction : {"1.5", "-1", "nan", "half"})
        refused("--memory-budget=" + fraction, "expected a share from 0");
    refused("--memory-budget 0.5 --solver cbc", "expected dp, greedy or ilp");
    refused("--memory-budget 0.5 --policy policy.json", "expected a single plan");
    refused("--ops-plan plan.json", "cannot open plan.json: No such file");
    refused("--memory-budget 0.5 --runtime profile", "expected flops, or measured");
    refused("--memory-budget 0.5 --op-times times.json", "expected --runtime measured as well");
    refused("--memory-budget 0.5 --runtime measured --op-times times.json", "cannot open times.json: No such file");
    refused("--policy policy.json --monotone", "expected --memory-budget FRACTION as well");
}

TEST_F(VerifyProgram, FollowsPlansOnTheCpuToo)
{
    const Outcome result
        = run("verify '" HEADROOM_TEST_DATA "/exported/gpt2_tiny_nodrop.pt2' --memory-budget 0.4 --device cpu --json");
    ASSERT_EQ(result.exitCode, 0) << result.errors;
    const nlohmann::json document = nlohmann::json::parse(result.output);
    EXPECT_EQ(document["agrees"], true);
    EXPECT_EQ(document["simulated"], true);
    EXPECT_EQ(document["executed_saved_bytes"], document["planned_saved_bytes"]);
    const nlohmann::json& cpu = document["cpu"];
    EXPECT_GT(cpu["executed_saved_bytes"], 0);
    EXPECT_EQ(cpu["executed_saved_bytes"], cpu["planned_saved_bytes"]);
    EXPECT_EQ(cpu["executed_peak_bytes"], cpu["predicted_peak_bytes"]);
    EXPECT_EQ(cpu["unequal_allocations"], 0);
    EXPECT_EQ(document["gradients"]["compared"], true);
    EXPECT_EQ(document["gradients"]["unrepeatable"], "");
}

TEST_F(VerifyProgram, AMonotonePlanNeverTakesMoreForASmallerFraction)
{
    Bytes larger = 0;
    bool other = false;
    for (const char* fraction : {"1", "0.6", "0.3", "0"}) {
        const auto peakOf = [&](const std::string& how) {
            const Outcome result
                = run("verify " + step + "--runtime measured --json --memory-budget " + fraction + how);
            EXPECT_EQ(result.exitCode, 0) << result.errors;
            return nlohmann::json::parse(result.output)["executed_peak_bytes"].get<Bytes>();
        };
        const Bytes peak = peakOf(" --monotone");
        if (larger != 0) {
            EXPECT_LE(peak, larger) << fraction;
        }
        other = other || peak < peakOf("");
        larger = peak;
    }
    EXPECT_TRUE(other) << "at 0 everything runs again, and stays until it is used";
}

TEST_F(VerifyProgram, WithoutAGpuTheDeviceIsNotThere)
{
    if (fs::exists("/dev/nvidiactl"))
        GTEST_SKIP() << "this machine has NVIDIA's driver";
    Policy nothing;
    ASSERT_TRUE(writePolicy(nothing, folder_ / "policy.json"));
    for (const char* plan : {"--memory-budget 0.5", "--policy policy.json"}) {
        const Outcome result = run("verify demo:mlp --device cuda " + std::string(plan));
        EXPECT_EQ(result.exitCode, 4) << result.errors;
        EXPECT_TRUE(result.errors.starts_with("torch-headroom-record: no GPU can be used: ")) << result.errors;
        EXPECT_EQ(std::ranges::count(result.errors, '\n'), 1) << result.errors;
        EXPECT_EQ(result.output, "");
    }
}

TEST_F(VerifyProgram, RecordWithAPolicyShowsTheRecomputation)
{
    const Policy policy = makePolicy(0.2);
    ASSERT_EQ(run("record " + step + "--policy policy.json -o planned.hrs").exitCode, 0);
    const StepTracePtr planned = *readStepTrace(folder_ / "planned.hrs");
    EXPECT_EQ(planned->info.policy, (folder_ / "policy.json").string());
    EXPECT_EQ(predict(*planned, {})->peak, policy.predicted.peak);
    const StepTracePtr plain = trace();
    const auto recomputed = [](const StepTrace& of) {
        return std::ranges::count_if(of.ops.flags, [](std::uint16_t flags) { return (flags & opRecomputed) != 0; });
    };
    EXPECT_EQ(recomputed(*plain), 0);
    EXPECT_EQ(static_cast<std::size_t>(recomputed(*planned)), planned->ops.size() - plain->ops.size());
    // They are calls of their modules in backward.
    for (std::uint32_t op = 0; op < planned->ops.size(); ++op) {
        if ((planned->ops.flags[OpId(op)] & opRecomputed) == 0)
            continue;
        EXPECT_EQ(planned->ops.phase[OpId(op)], Phase::backward);
        EXPECT_TRUE(planned->ops.call[OpId(op)].valid()) << planned->opName(OpId(op));
    }
}

TEST_F(VerifyProgram, AStepThatTakesMoreThanTheBudgetIsExit3)
{
    makePolicy(0.4);
    std::string larger = step;
    larger.replace(larger.find("--batch 2"), 9, "--batch 9");
    const Outcome result = run("verify " + larger + "--policy policy.json");
    EXPECT_EQ(result.exitCode, 3) << result.errors;
    EXPECT_NE(result.errors.find("more than the policy's budget of"), std::string::npos) << result.errors;
    EXPECT_NE(result.errors.find("with torch-headroom plan\n"), std::string::npos) << "without options that are none";
    EXPECT_NE(result.output.find("equal to the byte"), std::string::npos) << result.output;
}

TEST_F(VerifyProgram, RefusesAPolicyThatDoesNotFitTheModel)
{
    Policy policy = makePolicy(0.1);
    ASSERT_FALSE(policy.modules.empty());
    const std::string fqn = policy.modules.front().fqn;
    const auto refused = [&](const Policy& changed, const std::string& message) {
        ASSERT_TRUE(writePolicy(changed, folder_ / "policy.json"));
        for (const char* command : {"verify ", "record -o other.hrs "}) {
            const Outcome result = run(command + step + "--policy policy.json");
            EXPECT_EQ(result.exitCode, 2);
            EXPECT_EQ(result.errors, "torch-headroom-record: " + message + "\n") << command;
            EXPECT_EQ(result.output, "");
            EXPECT_FALSE(fs::exists(folder_ / "other.hrs"));
        }
    };
    Policy renamed = policy;
    renamed.modules.front().fqn = "Transformer.blocks.0";
    ASSERT_TRUE(writePolicy(renamed, folder_ / "policy.json"));
    EXPECT_EQ(run("record -o other.hrs " + step + "--policy policy.json").errors,
              "torch-headroom-record: the policy names module `Transformer.blocks.0`: the model has no such module\n");
    Policy fewer = policy;
    auto& ops = fewer.modules.front().ops;
    const std::string op = ops.back().op;
    const int calls = ops.back().index + 1;
    ops.pop_back();
    refused(fewer,
            "policy of module `" + fqn + "`: op `" + op + "`: the policy has " + std::to_string(calls - 1)
                + (calls == 2 ? " call" : " calls") + ", the step " + std::to_string(calls)
                + "; plan again for this model with these shapes");
    EXPECT_EQ(
        run("verify " + step).errors,
        "torch-headroom-record: --policy is missing: name the policy to verify, for example --policy policy.json\n");
}

} // namespace
} // namespace headroom
