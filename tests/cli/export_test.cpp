// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/cli/cli_test.h"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(CliTest, EveryPictureInEveryFormat)
{
    for (const char* kind : {"--timeline", "--tradeoff", "--frontier"}) {
        for (const auto& [name, begin] : std::vector<std::pair<std::string, std::string>>{
                 {"out.svg", "<?xml"}, {"out.png", "\x89PNG"}, {"out.pdf", "%PDF"}, {"out.csv", ""}}) {
            const Finished finished = headroomProgram({"export", stepPath(), kind, path(name)});
            EXPECT_EQ(finished.exitCode, 0) << kind << ' ' << name << ": " << finished.err;
            EXPECT_EQ(finished.out, "");
            const std::string content = readFile(path(name));
            EXPECT_GT(content.size(), 100U) << kind << ' ' << name;
            EXPECT_THAT(content, StartsWith(begin)) << kind << ' ' << name;
        }
    }
}

TEST_F(CliTest, TimelineUnderAPolicyDiffers)
{
    const std::int64_t peak = headroomProgram({"info", stepPath(), "--json"}).json()["peak_bytes"].get<std::int64_t>();
    ASSERT_EQ(
        headroomProgram({"plan", stepPath(), "--budget", std::to_string(peak * 9 / 10), "-o", path("policy.json")})
            .exitCode,
        0);
    ASSERT_EQ(headroomProgram({"export", stepPath(), "--timeline", path("plain.csv")}).exitCode, 0);
    const Finished planned
        = headroomProgram({"export", stepPath(), "--timeline", path("planned.csv"), "--policy", path("policy.json")});
    ASSERT_EQ(planned.exitCode, 0) << planned.err;
    EXPECT_NE(readFile(path("plain.csv")), readFile(path("planned.csv")));
}

TEST_F(CliTest, ExportRefusesWhatItCannotDraw)
{
    expectBadInput(headroomProgram({"export", stepPath(), path("out.svg")}),
                   {"--timeline", "--tradeoff", "--frontier"});
    expectBadInput(headroomProgram({"export", stepPath(), "--timeline", "--frontier", path("out.svg")}),
                   {"expected either --timeline, --tradeoff, --frontier or --peak"});
    expectBadInput(headroomProgram({"export", stepPath(), "--timeline", path("out.bmp")}), {"out.bmp", ".svg"});
    expectBadInput(headroomProgram({"export", stepPath(), "--timeline", "/proc/out.svg"}), {"/proc/out.svg"});
    expectBadInput(headroomProgram({"export", stepPath(), "--timeline", path("step.hrs/out.png")}), {"out.png"});
    expectBadInput(
        headroomProgram({"export", stepPath(), "--timeline", path("out.svg"), "--policy", path("none.json")}),
        {"none.json"});
    writeFile(path("newer.json"), R"({"headroom_policy": 2, "modules": []})");
    expectBadInput(
        headroomProgram({"export", stepPath(), "--timeline", path("out.svg"), "--policy", path("newer.json")}),
        {"newer.json", "version"});
    EXPECT_THAT(filesIn(folder.path()), ElementsAre("newer.json", "step.hrs")) << "nothing half-written";
}

} // namespace
} // namespace headroom
