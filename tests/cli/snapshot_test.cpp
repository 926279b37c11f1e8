// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/allocator/replay.h"
#include "core/predict/predict.h"
#include "core/snapshot/import.h"
#include "tests/cli/cli_test.h"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string snapshotFile(const std::string& name)
{
    return HEADROOM_TEST_DATA "/snapshots/" + name;
}

TEST_F(CliTest, ImportMakesAStepOfASnapshot)
{
    const Finished finished
        = headroomProgram({"import", snapshotFile("protocol4.pickle"), "-o", path("imported.hrs"), "--json"});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    const auto json = finished.json();
    EXPECT_THAT(keysOf(json),
                ElementsAre("step", "device", "events", "events_in_file", "step_ms", "peak_bytes",
                            "reserved_peak_bytes", "modules", "settings"));
    EXPECT_EQ(json["events"], 529);
    EXPECT_EQ(json["device"], "cuda:0");
    const Result<StepTracePtr> step = readStepTrace(path("imported.hrs"));
    ASSERT_TRUE(step.ok()) << step.error().message;
    EXPECT_EQ(json["peak_bytes"], predict(**step, {})->peak);
    EXPECT_EQ(json["reserved_peak_bytes"], std::ranges::max((*step)->reserved.bytes));

    const Finished info = headroomProgram({"info", path("imported.hrs"), "--json"});
    ASSERT_EQ(info.exitCode, 0) << info.err;
    EXPECT_EQ(info.json()["peak_bytes"], json["peak_bytes"]);
    const Finished direct = headroomProgram({"info", snapshotFile("protocol4.pickle"), "--json"});
    EXPECT_EQ(direct.out, info.out) << "a snapshot is read where a step is";
    expectBadInput(headroomProgram({"plan", path("imported.hrs"), "--budget", "1GiB"}),
                   {"imported.hrs: a memory snapshot does not tell what autograd saves", "torch-headroom record"});
}

TEST_F(CliTest, ImportTakesARangeOfTime)
{
    const Finished finished = headroomProgram(
        {"import", snapshotFile("late.pickle"), "-o", path("part.hrs"), "--from", "2", "--to", "5.5", "--json"});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    EXPECT_EQ(finished.json()["events_in_file"], 400);
    EXPECT_LT(finished.json()["events"], 300);
    EXPECT_LE(finished.json()["step_ms"], 3.5);
}

TEST_F(CliTest, InfoSaysWhereMemoryRanOut)
{
    const Finished finished = headroomProgram({"info", snapshotFile("full.pickle"), "--json"});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    const auto failures = finished.json()["out_of_memory"];
    ASSERT_EQ(failures.size(), 1U);
    EXPECT_THAT(keysOf(failures[0]),
                ElementsAre("instant", "module", "requested_bytes", "free_bytes", "reserved_bytes", "active_bytes",
                            "free_pieces", "largest_free_pieces", "reason"));
    ASSERT_FALSE(failures[0]["largest_free_pieces"].empty());
    EXPECT_GE(failures[0]["free_pieces"].get<std::size_t>(), failures[0]["largest_free_pieces"].size());
    EXPECT_THAT(keysOf(failures[0]["largest_free_pieces"][0]), ElementsAre("bytes", "beside_bytes", "beside_line"));
    EXPECT_EQ(failures[0]["module"], "Snapshot.model.model:150.model:90.linear:40") << "a module of frames";
    EXPECT_EQ(failures[0]["requested_bytes"], 1200 * MiB);
    EXPECT_EQ(failures[0]["free_bytes"].get<Bytes>() + failures[0]["reserved_bytes"].get<Bytes>(), 600 * MiB);
    // A step file of it says the same.
    ASSERT_EQ(headroomProgram({"import", snapshotFile("full.pickle"), "-o", path("full.hrs")}).exitCode, 0);
    EXPECT_EQ(headroomProgram({"info", path("full.hrs"), "--json"}).json()["out_of_memory"], failures);
    EXPECT_THAT(headroomProgram({"info", path("full.hrs")}).out, HasSubstr("Out of memory at "));
    EXPECT_FALSE(headroomProgram({"info", snapshotFile("late.pickle"), "--json"}).json().contains("out_of_memory"));
}

TEST_F(CliTest, OfSeveralDevicesOneIsImported)
{
    for (const std::string device : {"0", "1"}) {
        const Finished finished = headroomProgram(
            {"import", snapshotFile("two_devices.pickle"), "-o", path("part.hrs"), "--device", device, "--json"});
        ASSERT_EQ(finished.exitCode, 0) << finished.err;
        EXPECT_EQ(finished.json()["device"], "cuda:" + device);
        EXPECT_LT(finished.json()["events"], finished.json()["events_in_file"]);
    }
}

TEST_F(CliTest, ImportSaysWhatIsWrong)
{
    const std::string file = snapshotFile("protocol4.pickle");
    writeFile(path("calls.pickle"),
              "\x80\x02"
              "cos\nsystem\n.");
    writeFile(path("cut.pickle"), readFile(file).substr(0, 20'000));
    const std::string out = path("out.hrs");
    expectBadInput(headroomProgram({"import", path("calls.pickle"), "-o", out}),
                   {"calls.pickle asks to load or call a Python object", "byte 3"});
    expectBadInput(headroomProgram({"import", path("cut.pickle"), "-o", out}), {"ends too early", "byte"});
    expectBadInput(headroomProgram({"import", stepPath(), "-o", out}), {"does not begin as a pickle"});
    expectBadInput(headroomProgram({"import", path("none.pickle"), "-o", out}), {"none.pickle"});
    expectBadInput(headroomProgram({"import", file, "-o", out, "--device", "1"}), {"device 1"});
    expectBadInput(headroomProgram({"import", file, "-o", out, "--from", "soon"}), {"--from `soon`", "milliseconds"});
    expectBadInput(headroomProgram({"import", file, "-o", out, "--from", "9", "--to", "3"}),
                   {"range of time is empty"});
    expectBadInput(headroomProgram({"import", file, "-o", out, "--from", "999999"}), {"in this range of time"});
    expectBadInput(headroomProgram({"import", file}), {"--output"});
    EXPECT_FALSE(std::filesystem::exists(out));
}

TEST_F(CliTest, AFileThatBeginsAsNoneOfTheKindsIsNoDamagedStep)
{
    writeFile(path("zeros.pickle"), std::string(4096, '\0'));
    const char* neither = "is neither a step file nor a memory snapshot nor a trace of torch.profiler";
    for (const char* command : {"info", "ops"})
        expectBadInput(headroomProgram({command, path("zeros.pickle")}), {"zeros.pickle", neither});
    expectBadInput(headroomProgram({"compare", stepPath(), path("zeros.pickle")}), {"zeros.pickle", neither});
    expectBadInput(headroomProgram({"allocator", path("zeros.pickle")}),
                   {"zeros.pickle is neither a step file nor a memory snapshot: "});
}

TEST_F(CliTest, AllocatorSaysWhatASnapshotReserved)
{
    const Finished finished = headroomProgram({"allocator", snapshotFile("protocol4.pickle"), "--json"});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    const auto json = finished.json();
    EXPECT_THAT(keysOf(json),
                ElementsAre("settings", "capacity_bytes", "requested_peak_bytes", "allocated_peak_bytes",
                            "active_peak_bytes", "reserved_peak_bytes", "at_reserved_peak", "segments", "retries",
                            "out_of_memory", "recorded"));
    EXPECT_EQ(json["recorded"]["events"], 529);
    EXPECT_EQ(json["recorded"]["same_reserved"], 529);
    EXPECT_EQ(json["recorded"]["same_address"], json["recorded"]["allocations"]);
    EXPECT_TRUE(json["out_of_memory"].is_null());
}

TEST_F(CliTest, AllocatorAnswersWhatIf)
{
    const Result<Timeline> timeline = predict(*trace, {});
    ASSERT_TRUE(timeline.ok());
    for (const std::string settings : {"", "expandable_segments:True", "roundup_power2_divisions:[256:4,>:2]"}) {
        const Finished finished
            = headroomProgram({"allocator", stepPath(), "--settings", settings, "--json", "-o", path("samples.csv")});
        ASSERT_EQ(finished.exitCode, 0) << finished.err;
        const AllocatorRun run = simulateAllocator(*trace, *timeline, *withAllocatorSettings({}, settings));
        EXPECT_EQ(finished.json()["reserved_peak_bytes"], run.stats.reservedPeak) << settings;
        EXPECT_EQ(finished.json()["recorded"], nullptr);
        const std::string csv = readFile(path("samples.csv"));
        EXPECT_THAT(csv,
                    StartsWith("ms,requested_bytes,allocated_bytes,active_bytes,reserved_bytes,"
                               "inactive_split_bytes\r\n"));
        EXPECT_EQ(std::ranges::count(csv, '\n'), static_cast<std::ptrdiff_t>(timeline->changes.size() + 2));
    }
}

TEST_F(CliTest, AllocatorPredictsWhereACardIsFull)
{
    const Result<Timeline> timeline = predict(*trace, {});
    ASSERT_TRUE(timeline.ok());
    const std::string capacity = std::to_string(timeline->peak - 1);
    const Finished finished = headroomProgram({"allocator", stepPath(), "--capacity", capacity, "--json"});
    ASSERT_EQ(finished.exitCode, 3) << finished.err;
    const auto failure = finished.json()["out_of_memory"];
    EXPECT_THAT(keysOf(failure),
                ElementsAre("instant", "op", "module", "requested_bytes", "block_bytes", "wanted_bytes", "free_bytes",
                            "reserved_bytes", "active_bytes", "largest_free_block_bytes", "free_blocks_bytes",
                            "fragmentation", "reason"));
    EXPECT_THAT(failure["reason"].get<std::string>(), HasSubstr("finds no room"));
    const Finished fits = headroomProgram({"allocator", stepPath(), "--gpu", "a100-80gb"});
    EXPECT_EQ(fits.exitCode, 0) << fits.err;
    EXPECT_THAT(fits.out, HasSubstr("Reserved"));
    const Finished small = headroomProgram({"allocator", stepPath(), "--gpu", "rtx-4060-8gb", "--json"});
    EXPECT_EQ(small.json()["capacity_bytes"],
              static_cast<Bytes>(7.62 * static_cast<double>(GiB)) - 152 * MiB - 8'519'680);
    EXPECT_EQ(small.json()["workspace_bytes"], 8'519'680);
    EXPECT_EQ(small.json()["convolution_workspace_bytes"], 0);
    EXPECT_EQ(small.json()["allocated_peak_bytes"],
              headroomProgram({"allocator", stepPath(), "--json"}).json()["allocated_peak_bytes"].get<Bytes>()
                  + 8'519'680);
    const Finished less = headroomProgram(
        {"allocator", stepPath(), "--gpu", "rtx-4060-8gb", "--capacity", std::to_string(timeline->peak), "--json"});
    EXPECT_EQ(less.exitCode, 3) << "the card's workspaces take their part of what is said to be there";
    EXPECT_EQ(less.json()["workspace_bytes"], 8'519'680);
}

TEST_F(CliTest, AllocatorRefusesWhatItDoesNotKnow)
{
    expectBadInput(headroomProgram({"allocator", stepPath(), "--settings", "max_split:3"}),
                   {"'max_split' at character 1", "expected an option"});
    expectBadInput(headroomProgram({"allocator", stepPath(), "--gpu", "abacus"}), {"abacus"});
    expectBadInput(headroomProgram({"allocator", stepPath(), "--capacity", "0"}), {"--capacity 0"});
    expectBadInput(headroomProgram({"allocator", stepPath(), "--gpu", "a100-80gb", "--capacity", "1MiB"}),
                   {"--capacity 1MiB leaves nothing for tensors", "expected more"});
    expectBadInput(headroomProgram({"allocator", stepPath(), "--from", "1"}), {"memory snapshot"});
    expectBadInput(headroomProgram({"allocator", path("nothing.hrs")}), {"nothing.hrs"});
    // A snapshot has its own times, and no card.
    expectBadInput(headroomProgram({"allocator", snapshotFile("full.pickle"), "--calibration", path("c.json")}),
                   {"full.pickle: the step has measured times"});
    expectBadInput(headroomProgram({"info", snapshotFile("full.pickle"), "--gpu", "t4-16gb"}),
                   {"full.pickle: the step was measured on cuda:0 and says nothing of t4-16gb"});
}

} // namespace
} // namespace headroom
