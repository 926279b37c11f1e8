// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/predict.h"
#include "core/trace/step_trace_builder.h"
#include "tests/cli/cli_test.h"

#include <fstream>
#include <iterator>

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string snapshot(const std::string& name)
{
    return HEADROOM_TEST_DATA "/snapshots/" + name;
}

Bytes sumOf(const nlohmann::json& rows, const char* field)
{
    Bytes sum = 0;
    for (const auto& row : rows)
        sum += row[field].get<Bytes>();
    return sum;
}

class CompareTest : public CliTest
{
protected:
    void SetUp() override
    {
        CliTest::SetUp();
        const StepTracePtr larger = makeSyntheticStep({.blocks = 6});
        ASSERT_TRUE(writeStepTrace(*larger, other()).ok());
        difference = predict(*larger, {})->peak - predict(*trace, {})->peak;
        ASSERT_GT(difference, 0);
    }
    std::string other() const { return path("other.hrs"); }

    Bytes difference = 0;
};

TEST_F(CompareTest, RowsSumToTheDifferenceOfThePeaks)
{
    for (const std::string key : {"module", "line", "category"}) {
        const Finished finished = headroomProgram({"compare", stepPath(), other(), "--by", key, "--json"});
        ASSERT_EQ(finished.exitCode, 0) << finished.err;
        const auto json = finished.json();
        EXPECT_THAT(keysOf(json),
                    ElementsAre("a", "b", "difference_bytes", "cause", "notes", "by", "rows", "paired_ops", "ops"));
        EXPECT_EQ(json["difference_bytes"], difference);
        EXPECT_EQ(sumOf(json["rows"], "difference_bytes"), difference);
        EXPECT_EQ(sumOf(json["rows"], "a_bytes"), json["a"]["peak_bytes"]);
        EXPECT_EQ(sumOf(json["rows"], "b_bytes"), json["b"]["peak_bytes"]);
        EXPECT_EQ(json["by"], key == "line" ? "category" : key);
        EXPECT_EQ(json["notes"].size(), key == "line" ? 1U : 0U);
        EXPECT_EQ(json["ops"][0]["change"], "new");
        EXPECT_THAT(
            keysOf(json["a"]),
            ElementsAre("file", "source", "peak_bytes", "non_pytorch_bytes", "instant", "phase", "op", "module"));
    }
    const auto info = headroomProgram({"info", stepPath(), "--json"}).json();
    const auto json = headroomProgram({"compare", stepPath(), other(), "--json"}).json();
    EXPECT_EQ(json["a"]["peak_bytes"], info["peak_bytes"]);
    EXPECT_EQ(json["a"]["op"], info["peak"]["op"]);
}

TEST_F(CompareTest, TheTableHasTheSum)
{
    const Finished finished = headroomProgram({"compare", stepPath(), other()});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    EXPECT_THAT(finished.out, HasSubstr("other.hrs peaks " + exactBytes(difference) + " above step.hrs."));
    EXPECT_THAT(finished.out, HasSubstr("+" + groupedDigits(difference) + "\n"));
    EXPECT_THAT(finished.out, HasSubstr("Ops that allocate: "));
}

TEST_F(CompareTest, MoreThanAllowedIsAnExitCode)
{
    const auto code = [&](const std::string& allow, const std::string& a, const std::string& b) {
        return headroomProgram({"compare", a, b, "--allow", allow}).exitCode;
    };
    const std::string exact = std::to_string(difference);
    EXPECT_EQ(code(exact, stepPath(), other()), 0);
    EXPECT_EQ(code("+" + exact, stepPath(), other()), 0);
    EXPECT_EQ(code(std::to_string(difference - 1), stepPath(), other()), 3);
    EXPECT_EQ(code("0", other(), stepPath()), 0) << "a lower peak is always allowed";
    const Finished above = headroomProgram({"compare", stepPath(), other(), "--allow", "0", "--json"});
    EXPECT_EQ(above.exitCode, 3);
    EXPECT_TRUE(isErrorLine(above.err)) << above.err;
    EXPECT_THAT(above.err, HasSubstr("the peak of other.hrs is " + exactBytes(difference) + " above that of step.hrs"));
    EXPECT_EQ(above.json()["allowed_bytes"], 0);
    EXPECT_EQ(above.json()["is_allowed"], false);
    expectBadInput(headroomProgram({"compare", stepPath(), other(), "--allow", "5%"}), {"--allow: `5%`", "MiB"});
}

TEST_F(CompareTest, AnyTwoFilesAreCompared)
{
    const std::string profile = HEADROOM_TEST_DATA "/profiles/mlp_gpu.json.gz";
    for (const auto& [a, b] :
         std::vector<std::pair<std::string, std::string>>{{snapshot("protocol4.pickle"), snapshot("expandable.pickle")},
                                                          {snapshot("two_devices.pickle"), stepPath()},
                                                          {HEADROOM_TEST_DATA "/profiles/mlp.hrs", profile},
                                                          {profile, snapshot("full.pickle")}}) {
        const Finished finished = headroomProgram({"compare", a, b, "--json"});
        ASSERT_EQ(finished.exitCode, 0) << finished.err;
        const auto json = finished.json();
        EXPECT_EQ(sumOf(json["rows"], "difference_bytes"), json["difference_bytes"]) << a << ' ' << b;
    }
    const auto device = headroomProgram({"compare", snapshot("two_devices.pickle"), snapshot("two_devices.pickle"),
                                         "--device", "1", "--json"})
                            .json();
    const auto imported = headroomProgram({"import", snapshot("two_devices.pickle"), "--device", "1", "-o",
                                           path("second.hrs"), "--json"})
                              .json();
    EXPECT_EQ(device["a"]["peak_bytes"], imported["peak_bytes"]);
}

TEST_F(CompareTest, NamesAreText)
{
    StepTraceBuilder builder;
    const ModuleId root = builder.addModule("Net", "Net", ModuleId());
    const ModuleId module = builder.addModule("Net.<script>\x1b[31m\nlayer", "Net", root);
    builder.mark(Mark::stepBegin);
    StepTraceBuilder::Op op;
    op.name = builder.string("evil\x1b[2J\nop");
    op.module = module;
    const OpId id = builder.beginOp(op);
    builder.alloc(4 * MiB, Category::activation, id);
    builder.endOp(id, {});
    ASSERT_TRUE(writeStepTrace(*builder.finish().value(), path("a\x1b[31m.hrs")).ok());
    const Finished finished = headroomProgram({"compare", stepPath(), path("a\x1b[31m.hrs"), "--allow", "0"});
    EXPECT_THAT(finished.out, Not(HasSubstr("\x1b")));
    EXPECT_THAT(finished.out, HasSubstr("<script>?[31m?layer"));
    EXPECT_THAT(finished.out, HasSubstr("evil?[2J?op"));
    const auto json = headroomProgram({"compare", stepPath(), path("a\x1b[31m.hrs"), "--json"}).json();
    EXPECT_TRUE(
        std::ranges::any_of(json["rows"], [](const auto& row) { return row["name"] == "<script>\x1b[31m\nlayer"; }));
}

TEST_F(CompareTest, RowsAreWrittenAsATable)
{
    const Finished finished
        = headroomProgram({"compare", stepPath(), other(), "-o", path("rows.csv"), "--by", "category", "--json"});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    std::ifstream file(path("rows.csv"), std::ios::binary);
    const std::string csv(std::istreambuf_iterator<char>(file), {});
    EXPECT_THAT(csv, StartsWith("name,kind,a_bytes,b_bytes,difference_bytes,a_blocks,b_blocks\r\n"));
    const auto row = finished.json()["rows"].front();
    EXPECT_THAT(csv,
                HasSubstr("\r\n" + row["name"].get<std::string>() + ",category," + row["a_bytes"].dump() + ","
                          + row["b_bytes"].dump() + "," + row["difference_bytes"].dump() + ","));
    expectBadInput(headroomProgram({"compare", stepPath(), other(), "-o", path("rows.txt")}), {"rows.txt", ".csv"});
}

TEST_F(CompareTest, WhatCannotBeReadIsASentence)
{
    expectBadInput(headroomProgram({"compare", stepPath()}), {"B"});
    expectBadInput(headroomProgram({"compare", stepPath(), path("none.hrs")}), {"none.hrs"});
    expectBadInput(headroomProgram({"compare", stepPath(), other(), "--device", "1"}),
                   {"--device", "expected a snapshot"});
    expectBadInput(headroomProgram({"compare", stepPath(), other(), "--profile-step", "1"}),
                   {"--profile-step", "expected such a trace"});
    expectBadInput(headroomProgram({"compare", stepPath(), other(), "--by", "op"}), {"--by", "module"});
    expectBadInput(
        headroomProgram({"compare", stepPath(), HEADROOM_TEST_DATA "/profiles/alexnet_a100_torch21.json.gz"}),
        {"alexnet_a100_torch21.json.gz has no memory", "profile_memory=True"});
}

} // namespace
} // namespace headroom
