// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/step_trace_builder.h"
#include "tests/cli/cli_test.h"

#include <filesystem>
#include <string>
#include <vector>

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr const char* hostile = "a<script>document.title='ran'</script>\n\"'\x1b[31m\xE2\x80\xAE";

/// A step whose model, module and op have names that would be markup.
void writeHostileStep(const std::string& path)
{
    StepTraceBuilder builder;
    builder.info.model = hostile;
    const ModuleId root = builder.addModule("Net", "Net", ModuleId());
    const ModuleId module = builder.addModule(std::string("Net.") + hostile, "Net", root);
    builder.mark(Mark::stepBegin);
    StepTraceBuilder::Op op;
    op.name = builder.string(hostile);
    op.module = module;
    const OpId id = builder.beginOp(op);
    builder.alloc(4 * MiB, Category::activation, id);
    builder.endOp(id, {});
    ASSERT_TRUE(writeStepTrace(*builder.finish().value(), path).ok());
}

class ReportTest : public CliTest
{
protected:
    std::string report(std::vector<std::string> arguments)
    {
        arguments.insert(arguments.begin(), "report");
        arguments.insert(arguments.end(), {"-o", path("report.html")});
        const Finished finished = headroomProgram(arguments);
        EXPECT_EQ(finished.exitCode, 0) << finished.err;
        return readFile(path("report.html"));
    }
};

TEST_F(ReportTest, HasThePeakThatInfoPrintsAndLoadsNothing)
{
    const auto info = headroomProgram({"info", stepPath(), "--json"}).json();
    const std::string page = report({stepPath()});
    EXPECT_THAT(page, HasSubstr("Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-"));
    for (const char* forbidden :
         {"<script", "http:", "https:", "src=", "href=", "@import", "url(", " style=", "onload"})
        EXPECT_THAT(page, Not(HasSubstr(forbidden)));
    std::string digits = page;
    std::erase(digits, ',');
    EXPECT_THAT(digits, HasSubstr(std::to_string(info["peak_bytes"].get<std::int64_t>()) + " bytes allocated"));
    for (const char* title :
         {"Memory over the step", "What is alive at the peak", "No plan was asked for", "How the step was recorded"})
        EXPECT_THAT(page, HasSubstr(title));
}

TEST_F(ReportTest, ShowsThePlanOfABudgetAndOfItsPolicyAlike)
{
    const std::int64_t peak = headroomProgram({"info", stepPath(), "--json"}).json()["peak_bytes"].get<std::int64_t>();
    const std::string budget = std::to_string(peak * 9 / 10);
    const auto plan = headroomProgram({"plan", stepPath(), "--budget", budget, "-o", path("policy.json"), "--json"});
    ASSERT_EQ(plan.exitCode, 0) << plan.err;
    const std::string ofBudget = report({stepPath(), "--budget", budget});
    const std::string ofPolicy = report({stepPath(), "--policy", path("policy.json")});
    for (const std::string& page : {ofBudget, ofPolicy}) {
        std::string digits = page;
        std::erase(digits, ',');
        EXPECT_THAT(digits,
                    HasSubstr(std::to_string(plan.json()["peak_bytes"].get<std::int64_t>()) + " bytes allocated"));
        EXPECT_THAT(page, HasSubstr("Checkpointed modules"));
        EXPECT_THAT(page, HasSubstr("Without the plan"));
    }
    EXPECT_THAT(ofPolicy, HasSubstr("policy.json"));
}

TEST_F(ReportTest, SaysWhatAPolicyMovesToTheHost)
{
    const std::string step = HEADROOM_TEST_DATA "/steps/llama_6L_h100.hrs";
    const auto plan = headroomProgram(
        {"plan", step, "--budget", "1000GiB", "--pin", "Net.layers.0=offload", "-o", path("policy.json"), "--json"});
    ASSERT_EQ(plan.exitCode, 0) << plan.err;
    EXPECT_GT(plan.json()["offload"]["modules"]["Net.layers.0"]["moved_bytes"].get<std::int64_t>(), 0);
    const std::string page = report({step, "--policy", path("policy.json")});
    EXPECT_THAT(page, HasSubstr("Offloaded modules"));
    EXPECT_THAT(page, HasSubstr("to the host and back in"));
    EXPECT_THAT(page, Not(HasSubstr("Checkpointed modules")));
}

TEST_F(ReportTest, ACardThatIsTooSmallForEveryPlan)
{
    const std::string page = report({stepPath(), "--card", "1MiB"});
    EXPECT_THAT(page, HasSubstr("No plan runs on a card with 1.00 MiB"));
    EXPECT_THAT(page, Not(HasSubstr("With the plan")));
}

TEST_F(ReportTest, ASnapshotHasNoPlan)
{
    const std::string page = report({HEADROOM_TEST_DATA "/snapshots/full.pickle"});
    EXPECT_THAT(page, HasSubstr("memory snapshot"));
    EXPECT_THAT(page, Not(HasSubstr("No plan was asked for")));
}

TEST_F(ReportTest, NamesAreText)
{
    ASSERT_NO_FATAL_FAILURE(writeHostileStep(path("hostile.hrs")));
    const std::string page = report({path("hostile.hrs")});
    EXPECT_THAT(page, HasSubstr("a&lt;script&gt;"));
    for (const char* forbidden : {"<script", "\x1b", "\xE2\x80\xAE"})
        EXPECT_THAT(page, Not(HasSubstr(forbidden)));
}

TEST_F(ReportTest, BadInputLeavesNothingHalfWritten)
{
    const std::string out = path("report.html");
    expectBadInput(headroomProgram({"report", path("none.hrs"), "-o", out}), {"none.hrs"});
    expectBadInput(headroomProgram({"report", stepPath(), "-o", path("no/folder.html")}), {"folder.html"});
    expectBadInput(headroomProgram({"report", stepPath(), "--budget", "many", "-o", out}), {"--budget", "many"});
    expectBadInput(headroomProgram({"report", stepPath(), "--policy", path("none.json"), "-o", out}), {"none.json"});
    expectBadInput(
        headroomProgram({"report", HEADROOM_TEST_DATA "/snapshots/full.pickle", "--budget", "1GiB", "-o", out}),
        {"full.pickle"});
    EXPECT_THAT(filesIn(folder.path()), ElementsAre("step.hrs"));
}

constexpr const char* browser = "/usr/bin/chromium";

/// The page as the browser has it once the page is loaded, in a window of this size; the browser's console in `err`.
Finished inBrowser(const std::string& file, const std::string& profile, int width)
{
    return runProgram(browser,
                      {"--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
                       "--user-data-dir=" + profile, "--window-size=" + std::to_string(width) + ",900", "--dump-dom",
                       "file://" + file});
}

TEST_F(ReportTest, ABrowserRunsNoScriptOfAName)
{
    if (!std::filesystem::exists(browser))
        GTEST_SKIP() << "needs a browser: Debian's package chromium";
    ASSERT_NO_FATAL_FAILURE(writeHostileStep(path("hostile.hrs")));
    report({path("hostile.hrs")});
    const Finished shown = inBrowser(path("report.html"), path("profile"), 1280);
    EXPECT_EQ(shown.exitCode, 0) << shown.err;
    EXPECT_THAT(shown.out, HasSubstr("<h1>"));
    EXPECT_THAT(shown.out, Not(HasSubstr("<title>ran</title>")));
    EXPECT_THAT(shown.err, Not(HasSubstr("CONSOLE"))) << "an error or a refused load";
}

TEST_F(ReportTest, AWindowShowsThePageInItsWidth)
{
    if (!std::filesystem::exists(browser))
        GTEST_SKIP() << "needs a browser: Debian's package chromium";
    ASSERT_NO_FATAL_FAILURE(writeHostileStep(path("hostile.hrs")));
    const std::string peak = headroomProgram({"info", stepPath(), "--json"}).json()["peak_bytes"].dump();
    const std::int64_t budget = std::stoll(peak) * 9 / 10;
    for (std::string page : {report({path("hostile.hrs")}), report({stepPath(), "--budget", std::to_string(budget)})}) {
        // A copy that may run a script measures the page.
        const std::size_t policy = page.find("<meta http-equiv");
        page.erase(policy, page.find('\n', policy) - policy);
        writeFile(path("measured.html"),
                  page
                      + "<script>console.log('overflow ' + (document.documentElement.scrollWidth - "
                        "document.documentElement.clientWidth))</script>");
        for (const int width : {390, 700, 1280})
            EXPECT_THAT(inBrowser(path("measured.html"), path("profile"), width).err, HasSubstr("\"overflow 0\""))
                << width;
    }
}

} // namespace
} // namespace headroom
