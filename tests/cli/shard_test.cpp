// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/cli/cli_test.h"

namespace headroom {
namespace {

using testing::HasSubstr;

class ShardTest : public CliTest
{
protected:
    void SetUp() override
    {
        CliTest::SetUp();
        auto step = std::make_shared<StepTrace>(*trace);
        step->info.gpu = "a100-80gb";
        ASSERT_TRUE(writeStepTrace(*step, stepPath()).ok());
        // A Python that keeps what it is asked, and copies the step; tensor parallelism is not for it.
        std::filesystem::create_directory(path("bin"));
        writeFile(path("bin/python3"),
                  "#!/bin/sh\n[ \"$1\" = -c ] && exit 0\n"
                  "echo \"$@\" \"tp=$SHARD_TP\" >> "
                      + path("asked")
                      + "\nif [ \"$SHARD_TP\" = 2 ]; then echo 'heads do not divide' >&2; exit 1; fi\n"
                        "while [ \"$1\" != -o ]; do shift; done\ncp "
                      + stepPath() + " \"$2\"\n");
        std::filesystem::permissions(path("bin/python3"), std::filesystem::perms::owner_all);
    }

    Finished run(std::vector<std::string> arguments) const
    {
        arguments.insert(arguments.begin(), "shard");
        return runProgram(HEADROOM_BIN_DIR "/torch-headroom", arguments, {{"VIRTUAL_ENV", folder.path().string()}});
    }
};

TEST_F(ShardTest, AScriptIsRecordedWithEachOption)
{
    const Finished finished = run({"--gpus", "16", "--tp", "1,2", "--batch", "4", "--jobs", "1", "--gpu", "a100-80gb",
                                   "--vary", "--shard {shard} --bs={batch}", "--json", "train.py", "--epochs", "3"});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    const auto rows = finished.json()["rows"];
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_EQ(rows[0]["shard"], 16);
    EXPECT_EQ(rows[0]["fits"], true);
    EXPECT_EQ(rows[1]["failure"], "heads do not divide");
    const std::string asked = readFile(path("asked"));
    EXPECT_THAT(asked, HasSubstr("-m torch_headroom.record --nproc-per-node 8 --nnodes 2 --unlimited -o "));
    EXPECT_THAT(asked, HasSubstr("--gpu a100-80gb train.py --epochs 3 --shard 16 --bs=4 tp=1"));
    EXPECT_THAT(asked, HasSubstr("--shard 8 --bs=4 tp=2"));
}

TEST_F(ShardTest, TheFastestIsATorchtitanConfiguration)
{
    const Finished finished
        = run({"--gpus", "8", "--vary", "torchtitan", "--torchtitan", "--gpu", "a100-80gb", "train.py"});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    EXPECT_THAT(finished.out, HasSubstr("[parallelism]\ndata_parallel_replicate_degree = 1\n"));
    EXPECT_THAT(readFile(path("asked")), HasSubstr("--parallelism.fsdp_reshard_after_forward always"));
    EXPECT_THAT(readFile(path("asked")), testing::Not(HasSubstr("local_batch_size"))) << "no batch was named";
}

TEST_F(ShardTest, AStepOfOneCardIsCalculatedAndSaysWhatIsLeftOut)
{
    const Finished finished = run({"--gpus", "8", stepPath()});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    EXPECT_THAT(finished.out, HasSubstr("without gathered parameters, buffers of collectives and time of collectives"));
}

TEST_F(ShardTest, ARecordedJobIsOfAMeshThatIsNotKnown)
{
    const std::string file = HEADROOM_TEST_DATA "/steps/fsdp_llama.hrs";
    const auto row = run({"--json", file}).json()["rows"][0];
    for (const char* key : {"replicate", "shard", "tp", "reshard_after_forward", "batch"})
        EXPECT_TRUE(row[key].is_null()) << key;
    EXPECT_EQ(row["world_size"], 8);
    EXPECT_EQ(row["samples_per_second"], 0);
    EXPECT_GT(row["step_ms"], 0);
    expectBadInput(run({"--torchtitan", file}), {"--torchtitan", "does not record the device mesh of the job"});
    EXPECT_THAT(run({file}).out, HasSubstr("8          -      -   -  -            -"));
}

TEST_F(ShardTest, AnotherCardThanTheRecordings)
{
    const std::string file = HEADROOM_TEST_DATA "/steps/fsdp_llama.hrs";
    const auto own = run({"--json", file}).json()["rows"][0];
    EXPECT_EQ(own["fits"], true);
    const std::string small = std::to_string(own["reserved_peak_bytes"].get<Bytes>() / 4);
    const auto row = run({"--json", "--card", small, file}).json()["rows"][0];
    EXPECT_EQ(row["usable_bytes"].get<Bytes>(), std::stoll(small));
    EXPECT_EQ(row["fits"], false);
    expectBadInput(run({"--settings", "expandable_segments:True", file}), {"--settings requires --card"});
}

TEST_F(ShardTest, WhatCannotBeIsOneSentence)
{
    expectBadInput(run({}), {"expected step files, or a training script"});
    expectBadInput(run({"--gpsu", "8", "train.py"}), {"--gpsu is no option of torch-headroom shard"});
    expectBadInput(run({"train.py"}), {"--gpus: expected how many cards"});
    expectBadInput(run({"--gpus", "8", "--tp", "3", "train.py"}), {"--tp 3 does not divide 8 cards"});
    expectBadInput(run({"--gpus", "8", "--reshard", "maybe", "train.py"}),
                   {"--reshard maybe: expected always or never"});
    expectBadInput(run({"train.py", "--gpus", "8"}), {"--gpus stands behind the script"});
    expectBadInput(run({stepPath(), "--gpus", "8"}), {"`--gpus` stands behind step files"});
    expectBadInput(run({"--gpus", "8", stepPath(), "train.py"}), {"`train.py` stands behind step files"});
    expectBadInput(run({"--gpus", "8", "none.hrs"}), {"none.hrs"});
    for (const char* option : {"--gpus", "--gpus-per-node", "--batch"})
        for (const char* number : {"0", "-4"})
            expectBadInput(run({std::string(option) + '=' + number, "--gpus=8", "train.py"}),
                           {option, number, "not in range 1 to"});
    expectBadInput(run({"--gpus", "12", "train.py"}), {"12 cards do not fill nodes of 8"});
    expectBadInput(run({"--gpus", "8", "--tp", "2", "--reshard", "always", stepPath()}), {"--tp", "step.hrs"});
    expectBadInput(run({"--gpus", "8", "--keep", path("kept"), stepPath()}), {"--keep", "step.hrs"});
    expectBadInput(run({"--gpus", "16", HEADROOM_TEST_DATA "/steps/fsdp_llama.hrs"}), {"--gpus", "a job of 8 ranks"});
    EXPECT_FALSE(std::filesystem::exists(path("kept")));
    expectBadInput(runProgram(HEADROOM_BIN_DIR "/torch-headroom", {"shard", "--gpus", "8", "train.py"},
                              {{"VIRTUAL_ENV", folder.path().string()}, {"TMPDIR", path("none")}}),
                   {"temporary files", "set TMPDIR"});
}

TEST_F(ShardTest, APlanOfARankKeepsTheWorldThatItWasRecordedWith)
{
    auto rank = std::make_shared<StepTrace>(*trace);
    rank->info.distributed = RankInfo{8, 8, 0};
    ASSERT_TRUE(writeStepTrace(*rank, stepPath()).ok());
    EXPECT_THAT(runProgram(HEADROOM_BIN_DIR "/torch-headroom", {"info", stepPath()}).out, HasSubstr(", rank 0 of 8\n"));
    const auto plan = [&](const char* world) {
        return runProgram(HEADROOM_BIN_DIR "/torch-headroom",
                          {"plan", stepPath(), "--budget", "1GiB", "--world-size", world, "--json"});
    };
    EXPECT_EQ(plan("8").json()["world_size"], 8);
    EXPECT_EQ(plan("8").json()["predicted_peak_bytes"], plan("1").json()["predicted_peak_bytes"]);
    expectBadInput(plan("16"), {"was recorded in a job of 8 ranks, and --world-size cannot change that"});
}

} // namespace
} // namespace headroom
