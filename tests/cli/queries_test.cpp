// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/predict.h"
#include "core/sac/step_statistics.h"
#include "core/trace/step_file.h"
#include "core/trace/step_trace_builder.h"
#include "tests/cli/cli_test.h"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(CliTest, InfoReservesAsTheProgramsAllocatorDid)
{
    const auto infoWith = [&](const char* settings) {
        StepTraceBuilder builder;
        builder.info.settings.emplace_back("PYTORCH_ALLOC_CONF", settings);
        StepTraceBuilder::Op op;
        op.name = builder.string("aten.empty.memory_format");
        op.module = builder.addModule("Net", "Net", {});
        builder.mark(Mark::stepBegin);
        const OpId made = builder.beginOp(op);
        builder.alloc(13 * MiB, Category::activation, made);
        builder.endOp(made, {});
        builder.mark(Mark::stepEnd);
        EXPECT_TRUE(writeStepTrace(**builder.finish(), path("set.hrs")).ok());
        return headroomProgram({"info", path("set.hrs"), "--json"}).json();
    };
    const auto set = infoWith("roundup_power2_divisions:2");
    EXPECT_EQ(set["allocator_settings"], "roundup_power2_divisions:2");
    EXPECT_EQ(set["reserved_peak_bytes"], 16 * MiB);
    const auto other = infoWith("backend:none");
    EXPECT_EQ(other["reserved_peak_bytes"], 14 * MiB);
    EXPECT_THAT(other["allocator_settings_left_out"].get<std::string>(), HasSubstr("backend"));
    EXPECT_THAT(headroomProgram({"info", path("set.hrs")}).out, HasSubstr("without the program's backend:none: "));
}

TEST_F(CliTest, ActiveBytesThatTheTimeModelDecidesAreMarked)
{
    const auto written = [&](bool isUsed) {
        StepTraceBuilder builder;
        builder.addModule("Net", "Net", {});
        builder.mark(Mark::stepBegin);
        const StorageId gathered = builder.alloc(30 * MiB, Category::activation, {});
        builder.setStream(gathered, 7);
        const OpId op = builder.beginOp({builder.string("aten.add.Tensor"), {}, {}, {}, {}, Phase::forward});
        const std::vector<std::int64_t> signature{0, 0, 0};
        builder.endOp(op, {.ms = 10, .signature = signature});
        if (isUsed)
            builder.use(gathered, 0);
        builder.free(gathered);
        builder.alloc(12 * MiB, Category::activation, {});
        builder.mark(Mark::stepEnd);
        EXPECT_TRUE(writeStepTrace(**builder.finish(), path("used.hrs")).ok());
        return path("used.hrs");
    };
    const auto alone = headroomProgram({"info", written(false), "--json"}).json();
    EXPECT_EQ(alone["active_peak_bytes"], 30 * MiB);
    EXPECT_FALSE(alone.contains("active_note"));
    for (const char* command : {"info", "allocator"}) {
        const auto used = headroomProgram({command, written(true), "--json"}).json();
        EXPECT_EQ(used["active_peak_bytes"], 42 * MiB) << "until the stream is done";
        EXPECT_THAT(used["active_note"].get<std::string>(), HasSubstr("by the time model"));
        EXPECT_THAT(headroomProgram({command, path("used.hrs")}).out, HasSubstr("(estimated: a freed block"));
    }
}

TEST_F(CliTest, InfoSaysThePeakAndTheBytesOfEachPhase)
{
    const Finished finished = headroomProgram({"info", stepPath(), "--json"});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    EXPECT_EQ(finished.err, "");
    const auto info = finished.json();
    EXPECT_THAT(keysOf(info),
                ElementsAre("model", "gpu", "device", "torch", "steps", "peak_bytes", "remarks", "causes", "peak",
                            "at_peak", "phases", "active_peak_bytes", "reserved_peak_bytes", "card", "ops", "step_ms",
                            "fallbacks", "invented_values", "time_model"));
    EXPECT_THAT(keysOf(info["peak"]), ElementsAre("phase", "op", "module", "instant"));
    const std::vector<std::string> categories{"parameter", "buffer",    "gradient", "activation",
                                              "temporary", "optimizer", "input",    "other"};
    EXPECT_EQ(keysOf(info["at_peak"]), categories);
    EXPECT_THAT(keysOf(info["phases"]),
                ElementsAre("start", "after_forward", "after_backward", "after_step", "after_zero_grad"));

    const Result<Timeline> timeline = predict(*trace, {});
    ASSERT_TRUE(timeline.ok());
    EXPECT_EQ(info["peak_bytes"], timeline->peak);
    std::int64_t atPeak = 0;
    for (const auto& [category, bytes] : info["at_peak"].items())
        atPeak += bytes.get<std::int64_t>();
    EXPECT_EQ(atPeak, timeline->peak);
    for (const Timeline::Snapshot& snapshot : timeline->snapshots) {
        const auto& phase = info["phases"][std::string(markName(snapshot.mark))];
        EXPECT_EQ(keysOf(phase), categories);
        for (std::size_t category = 0; category < categories.size(); ++category)
            EXPECT_EQ(phase[categories[category]], snapshot.bytes[category]) << categories[category];
    }
    EXPECT_EQ(info["ops"], trace->ops.size());
    EXPECT_EQ(info["model"], trace->info.model);
    // Blocks hold at least the bytes of the step, segments at least those of the blocks.
    EXPECT_GE(info["active_peak_bytes"].get<std::int64_t>(), timeline->peak);
    EXPECT_GE(info["reserved_peak_bytes"].get<std::int64_t>(), info["active_peak_bytes"].get<std::int64_t>());
    EXPECT_EQ(info["fallbacks"], nlohmann::ordered_json::array());
    // An A100; one thread multiplies matrices, without a bias.
    EXPECT_THAT(keysOf(info["card"]),
                ElementsAre("total_bytes", "context_bytes", "workspace_bytes", "communicators", "nccl_bytes",
                            "convolution_workspace_bytes", "kernel_scratch_bytes", "allocated_peak_bytes",
                            "reserved_peak_bytes", "needed_bytes", "used_bytes", "fits"));
    EXPECT_EQ(info["card"]["context_bytes"], 450 * MiB);
    EXPECT_EQ(info["card"]["workspace_bytes"], 8'519'680);
    EXPECT_EQ(info["card"]["needed_bytes"], info["active_peak_bytes"].get<Bytes>() + 450 * MiB + 8'519'680);
    EXPECT_EQ(info["card"]["used_bytes"], info["card"]["reserved_peak_bytes"].get<Bytes>() + 450 * MiB);
    EXPECT_EQ(info["card"]["convolution_workspace_bytes"], 0);
    EXPECT_EQ(info["card"]["allocated_peak_bytes"], info["active_peak_bytes"].get<Bytes>() + 8'519'680);
    EXPECT_GT(info["card"]["reserved_peak_bytes"], info["reserved_peak_bytes"]);
    EXPECT_EQ(info["card"]["fits"], true);
}

TEST_F(CliTest, InfoForPeople)
{
    const Finished finished = headroomProgram({"info", stepPath()});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    const Result<Timeline> timeline = predict(*trace, {});
    EXPECT_THAT(finished.out, HasSubstr(groupedDigits(timeline->peak) + " bytes"));
    EXPECT_THAT(finished.out, HasSubstr("after backward"));
    EXPECT_THAT(finished.out, HasSubstr("activation"));
}

TEST_F(CliTest, InfoSaysWhoHoldsWhatAtAnInstant)
{
    const auto peak = headroomProgram({"info", stepPath(), "--at", "peak", "--json"}).json();
    EXPECT_THAT(keysOf(peak["at"]), ElementsAre("instant", "bytes", "modules"));
    EXPECT_EQ(peak["at"]["bytes"], peak["at_peak"]);
    Bytes sum = 0;
    for (const auto& holding : peak["at"]["modules"]) {
        EXPECT_THAT(keysOf(holding), ElementsAre("module", "category", "bytes", "blocks"));
        sum += holding["bytes"].get<Bytes>();
    }
    EXPECT_EQ(sum, peak["peak_bytes"]);
    const auto start = headroomProgram({"info", stepPath(), "--at", "0", "--json"}).json();
    EXPECT_EQ(start["at"]["instant"], 0);
    const Finished people = headroomProgram({"info", stepPath(), "--at", "peak"});
    EXPECT_THAT(people.out, HasSubstr("Held at the peak: "));
    for (const char* wrong : {"soon", "1e9", "1ms"})
        expectBadInput(headroomProgram({"info", stepPath(), "--at", wrong}), {"--at"});
}

TEST_F(CliTest, InfoSaysWhatHappensInARange)
{
    const Result<Timeline> timeline = predict(*trace, {});
    ASSERT_TRUE(timeline.ok());
    const auto whole = headroomProgram({"info", stepPath(), "--from", "0", "--json"}).json();
    EXPECT_THAT(keysOf(whole["range"]),
                ElementsAre("from", "to", "ms", "bytes_at_begin", "bytes_at_end", "peak_bytes", "made_bytes",
                            "freed_bytes", "kept_bytes", "ops", "collectives", "collective_bytes", "modules"));
    EXPECT_EQ(whole["range"]["to"], timeline->durationMs);
    EXPECT_EQ(whole["range"]["ops"], trace->ops.size());
    EXPECT_EQ(whole["range"]["peak_bytes"], whole["peak_bytes"]);
    Bytes made = 0;
    for (const auto& share : whole["range"]["modules"]) {
        EXPECT_THAT(keysOf(share), ElementsAre("bytes", "blocks", "module"));
        made += share["bytes"].get<Bytes>();
    }
    EXPECT_EQ(made, whole["range"]["made_bytes"]);
    // The bytes at the ends are those that --at prints.
    const std::string from = std::to_string(timeline->durationMs / 3), to = std::to_string(timeline->durationMs / 2);
    const auto range = headroomProgram({"info", stepPath(), "--from", from, "--to", to, "--json"}).json()["range"];
    const auto heldAt = [&](const std::string& ms) {
        const auto held = headroomProgram({"info", stepPath(), "--at", ms, "--json"}).json();
        Bytes sum = 0;
        for (const auto& [category, bytes] : held["at"]["bytes"].items())
            sum += bytes.get<Bytes>();
        return sum;
    };
    EXPECT_EQ(range["bytes_at_begin"], heldAt(from));
    EXPECT_EQ(range["bytes_at_end"], heldAt(to));
    EXPECT_EQ(range["bytes_at_end"].get<Bytes>(),
              range["bytes_at_begin"].get<Bytes>() + range["made_bytes"].get<Bytes>()
                  - range["freed_bytes"].get<Bytes>());
    const Finished people = headroomProgram({"info", stepPath(), "--from", from, "--to", to});
    EXPECT_THAT(people.out, HasSubstr("\nMade      " + exactBytes(range["made_bytes"].get<Bytes>())));
    EXPECT_THAT(people.out, HasSubstr("Bytes made"));
    const auto sharded
        = headroomProgram({"info", HEADROOM_TEST_DATA "/steps/fsdp_llama.hrs", "--from", "0", "--json"}).json();
    EXPECT_GT(sharded["range"]["collectives"], 0);
    EXPECT_GT(sharded["range"]["collective_bytes"], 0);
    EXPECT_THAT(headroomProgram({"info", HEADROOM_TEST_DATA "/steps/fsdp_llama.hrs", "--from", "0"}).out,
                HasSubstr(" collectives of "));
}

TEST_F(CliTest, ARangeThatIsNoneIsRefused)
{
    for (const char* command : {"info", "ops"}) {
        const auto refused = [&](const char* from, const char* to, const char* word) {
            expectBadInput(headroomProgram({command, stepPath(), "--from", from, "--to", to}), {word});
        };
        refused("soon", "1", "--from soon: expected milliseconds from 0 to ");
        refused("0", "1e9", "--to 1e9");
        refused("nan", "1", "--from nan");
        refused("0.5", "0.5", "is empty");
        refused("0.5", "0.2", "is empty");
    }
    // The end as the sentence prints it may be rounded up, and is the end.
    const std::string sentence = headroomProgram({"info", stepPath(), "--to", "1e9"}).err;
    const std::size_t begin = sentence.find("from 0 to ") + 10;
    const std::string end = sentence.substr(begin, sentence.find(',', begin) - begin);
    EXPECT_EQ(headroomProgram({"info", stepPath(), "--to", end}).exitCode, 0) << end;
}

TEST_F(CliTest, OpsOfARange)
{
    const Result<Timeline> timeline = predict(*trace, {});
    const OpRun& third = timeline->runs[3];
    const OpRun& sixth = timeline->runs[6];
    const auto ops = headroomProgram({"ops", stepPath(), "--from", std::to_string(third.beginMs + 1e-6), "--to",
                                      std::to_string(sixth.beginMs + 1e-6), "--json"})
                         .json()["ops"];
    ASSERT_GE(ops.size(), 3U);
    EXPECT_LE(ops.size(), 5U);
    EXPECT_EQ(ops.back()["name"], trace->opName(sixth.op));
    EXPECT_EQ(headroomProgram({"ops", stepPath(), "--from", "0", "--json"}).json()["ops"].size(), trace->ops.size());
}

TEST_F(CliTest, InfoSaysWhichUnitHasWhatUnsharded)
{
    const std::string step = HEADROOM_TEST_DATA "/steps/fsdp_llama.hrs";
    const auto info = headroomProgram({"info", step, "--json"}).json();
    Bytes parameters = 0;
    Bytes all = 0;
    for (const auto& unit : info["unsharded_at_peak"]) {
        EXPECT_THAT(keysOf(unit), ElementsAre("unit", "unsharded_parameter", "unsharded_gradient", "communication"));
        EXPECT_THAT(unit["unit"].get<std::string>(), testing::StartsWith("Llama"));
        parameters += unit["unsharded_parameter"].get<Bytes>();
        for (const char* category : {"unsharded_parameter", "unsharded_gradient", "communication"})
            all += unit[category].get<Bytes>();
    }
    const auto& peak = info["at_peak"];
    EXPECT_GT(parameters, 0);
    EXPECT_EQ(parameters, peak["unsharded_parameter"]);
    EXPECT_EQ(all, parameters + peak["unsharded_gradient"].get<Bytes>() + peak["communication"].get<Bytes>());
    EXPECT_THAT(headroomProgram({"info", step}).out, HasSubstr("Unsharded at the peak"));
    EXPECT_THAT(headroomProgram({"info", step, "--at", "0"}).out, HasSubstr("FSDP has nothing unsharded at 0.00 ms."));
    EXPECT_FALSE(headroomProgram({"info", stepPath(), "--json"}).json().contains("unsharded_at_peak"));
}

TEST_F(CliTest, ModulesIsTheModuleInfoDocument)
{
    const Finished finished = headroomProgram({"modules", stepPath(), "--json"});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    const auto info = finished.json();
    EXPECT_THAT(keysOf(info), ElementsAre("mod_order", "mod_stats"));
    const auto pytorchs = nlohmann::ordered_json::parse(readFile(data("transformer_modinfo.json")));
    auto ours = keysOf(info["mod_stats"][0]);
    auto theirs = keysOf(pytorchs["mod_stats"][0]);
    EXPECT_THAT(ours, testing::UnorderedElementsAreArray(theirs));
    EXPECT_THAT(keysOf(info["mod_order"]), testing::UnorderedElementsAreArray(keysOf(pytorchs["mod_order"])));
    const Result<ModuleInfo> expected = moduleInfo(*trace);
    ASSERT_TRUE(expected.ok());
    EXPECT_EQ(info["mod_stats"].size(), expected->stats.size());

    // What it prints is what `plan --module-info` reads, and the plan is that of the step itself.
    writeFile(path("info.json"), finished.out);
    const auto ofInfo
        = headroomProgram({"plan", "--module-info", path("info.json"), "--budget", "100MiB", "--json"}).json();
    const auto ofStep = headroomProgram({"plan", stepPath(), "--budget", "100MiB", "--json"}).json();
    EXPECT_EQ(ofInfo["peak_bytes"], ofStep["peak_bytes"]);
    EXPECT_EQ(ofInfo["recompute_ms"], ofStep["recompute_ms"]);
    EXPECT_EQ(ofInfo["decisions"], ofStep["decisions"]);

    EXPECT_THAT(headroomProgram({"modules", stepPath()}).out, HasSubstr("Transformer.layers.3.feed_forward"));
}

TEST_F(CliTest, OpsInOrderWithTheirFacts)
{
    const Finished finished = headroomProgram({"ops", stepPath(), "--json"});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    const auto ops = finished.json()["ops"];
    ASSERT_EQ(ops.size(), trace->ops.size());
    EXPECT_THAT(keysOf(ops[0]),
                ElementsAre("name", "phase", "module", "dtype", "bytes", "flops", "ms", "class", "executed_flops",
                            "read_bytes", "written_bytes", "kernels", "view", "in_place", "random", "in_subclass",
                            "saved_for_backward"));
    bool anySaved = false;
    for (std::uint32_t row = 0; row < trace->ops.size(); ++row) {
        EXPECT_EQ(ops[row]["name"], trace->opName(OpId(row)));
        EXPECT_EQ(ops[row]["view"], (trace->ops.flags[OpId(row)] & opView) != 0);
        EXPECT_EQ(ops[row]["bytes"], trace->ops.bytes[OpId(row)]);
        anySaved |= ops[row]["saved_for_backward"].get<bool>();
    }
    EXPECT_TRUE(anySaved);
}

TEST_F(CliTest, OpsOfOneModule)
{
    const Finished finished
        = headroomProgram({"ops", stepPath(), "--module", "Transformer.layers.1.attention", "--json"});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    const auto ops = finished.json()["ops"];
    EXPECT_GT(ops.size(), 0U);
    EXPECT_LT(ops.size(), trace->ops.size());
    for (const auto& op : ops)
        EXPECT_THAT(op["module"].get<std::string>(), testing::StartsWith("Transformer.layers.1.attention"));
    expectBadInput(headroomProgram({"ops", stepPath(), "--module", "Transformer.layers.1.atention"}),
                   {"Transformer.layers.1.atention", "nearest name is `Transformer.layers.1.attention`"});
}

} // namespace
} // namespace headroom
