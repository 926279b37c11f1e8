// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/step_trace_builder.h"
#include "tests/cli/cli_test.h"

#include <filesystem>
#include <regex>
#include <string>
#include <vector>

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

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

TEST_F(ReportTest, PlansWithOffload)
{
    const std::string step = HEADROOM_TEST_DATA "/steps/lora_3L_h100.hrs";
    const auto plan = headroomProgram({"plan", step, "--budget", "8GiB", "--offload", "--json"}).json();
    ASSERT_GT(plan["offload"]["moved_bytes"].get<std::int64_t>(), 0);
    const std::string page = report({step, "--budget", "8GiB", "--offload"});
    for (const char* text : {"Offloaded modules", "Recomputation and waits for copies in", "Waits for copies</th>"})
        EXPECT_THAT(page, HasSubstr(text));
    EXPECT_THAT(report({step, "--budget", "8GiB"}), Not(HasSubstr("aits for copies")));
    expectBadInput(headroomProgram({"report", HEADROOM_TEST_DATA "/snapshots/full.pickle", "--offload", "-o",
                                    path("refused.html")}),
                   {"a memory snapshot does not tell", "no plan is possible"});
    EXPECT_FALSE(std::filesystem::exists(path("refused.html")));
}

TEST_F(ReportTest, ACardThatIsTooSmallForEveryPlan)
{
    const std::string page = report({stepPath(), "--card", "1MiB"});
    EXPECT_THAT(page, HasSubstr("No plan runs on a card with 1.00 MiB"));
    EXPECT_THAT(page, Not(HasSubstr("With the plan")));
}

/// How often a text is in a page.
std::size_t timesIn(std::string_view page, std::string_view text)
{
    std::size_t times = 0;
    for (std::size_t at = page.find(text); at != std::string_view::npos; at = page.find(text, at + text.size()))
        ++times;
    return times;
}

TEST_F(ReportTest, SaysOnceWhyNoPlanFits)
{
    const std::string ofBudget = report({stepPath(), "--budget", "1MiB"});
    EXPECT_EQ(timesIn(ofBudget, "No plan fits 1.00 MiB"), 1U);
    EXPECT_EQ(timesIn(ofBudget, "ith all recomputed that may be"), 1U);
    for (const char* card : {"1MiB", "180MiB"}) {
        const std::string ofCard = report({stepPath(), "--card", card});
        const auto plan = headroomProgram({"plan", stepPath(), "--card", card, "--json"}).json();
        const std::string reason = plan["card"]["reason"];
        ASSERT_FALSE(reason.empty());
        EXPECT_EQ(timesIn(ofCard, reason.substr(1)), 1U) << reason;
        EXPECT_EQ(timesIn(ofCard, "No plan that was tried"),
                  plan["reason"].get<std::string>().starts_with("No plan that was tried") ? 1U : 0U);
    }
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

TEST_F(ReportTest, NamesAreTextInTheTerminalAndInPictures)
{
    ASSERT_NO_FATAL_FAILURE(writeHostileStep(path("hostile.hrs")));
    const std::string step = path("hostile.hrs");
    const auto expectText = [](const std::string& text, const std::string& what) {
        for (const char* forbidden : {"\x1b", "\xE2\x80\xAE", "</script>\n\""})
            EXPECT_THAT(text, Not(HasSubstr(forbidden))) << what;
    };
    for (const std::vector<std::string>& arguments :
         std::vector<std::vector<std::string>>{{"info", step},
                                               {"info", step, "--at", "0"},
                                               {"modules", step},
                                               {"ops", step},
                                               {"compare", step, step},
                                               {"compare", step, step, "--by", "line"},
                                               {"plan", step, "--budget", "1MiB"},
                                               {"plan", step, "--card", "1MiB"},
                                               {"allocator", step}}) {
        const Finished finished = headroomProgram(arguments);
        expectText(finished.out + finished.err, arguments.front());
    }
    for (const char* picture : {"peak.svg", "peak.folded", "timeline.svg"}) {
        const std::string option = std::string(picture).starts_with("peak") ? "--peak" : "--timeline";
        const Finished finished = headroomProgram({"export", step, option, path(picture)});
        ASSERT_EQ(finished.exitCode, 0) << finished.err;
        const std::string text = readFile(path(picture));
        expectText(text, picture);
        if (std::string(picture).ends_with(".svg")) {
            EXPECT_THAT(text, Not(HasSubstr("<script"))) << picture;
        }
    }
}

TEST_F(ReportTest, AStepOfManyOpsFitsIntoTwoMegabytes)
{
    const StepTracePtr large = makeSyntheticStep(syntheticOptions(900'000));
    ASSERT_GE(large->ops.size(), 100'000U);
    ASSERT_TRUE(writeStepTrace(*large, path("large.hrs")).ok());
    const std::string page = report({path("large.hrs")});
    EXPECT_THAT(page, HasSubstr("What is alive at the peak"));
    EXPECT_LT(page.size(), 2'000'000U);
}

TEST_F(ReportTest, SaysInWhatPiecesTheMemoryWas)
{
    StepTraceBuilder builder;
    builder.info.source = "snapshot";
    const StorageId held = builder.alloc(6 * MiB, Category::other, {});
    builder.setReserved(20 * MiB);
    builder.mark(Mark::stepBegin);
    builder.endOp(builder.outOfMemory({}, 8 * MiB, MiB, {2, {{7 * MiB, held}, {7 * MiB, held}}}), {});
    ASSERT_TRUE(writeStepTrace(*builder.finish().value(), path("full.hrs")).ok());
    EXPECT_THAT(report({path("full.hrs")}), HasSubstr("pieces of at most 7.00 MiB (2 × 7.00 MiB)"));
    EXPECT_THAT(headroomProgram({"info", path("full.hrs")}).out,
                HasSubstr("in pieces of at most 7.00 MiB (2 × 7.00 MiB), the largest beside a block of 6.00 MiB"));
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

/// The page with a script that may run, in place of the policy that forbids scripts.
std::string withScript(std::string page, const std::string& script)
{
    const std::size_t policy = page.find("<meta http-equiv");
    page.erase(policy, page.find('\n', policy) - policy);
    return page + "<script>" + script + "</script>";
}

/// Logs the least contrast between a text and its background as WCAG 2 defines contrast, and the page's luminance.
constexpr const char* measureContrast = R"(
const linear = value => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
const numbers = color => color.match(/[\d.]+/g).map(Number);
const luminance = color => {
    const [red, green, blue] = numbers(color).map(value => linear(value / 255));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
const isClear = element => numbers(getComputedStyle(element).backgroundColor)[3] === 0;
const behind = element => {
    while (isClear(element) && element.parentElement) element = element.parentElement;
    return luminance(getComputedStyle(element).backgroundColor);
};
const isText = node => node.nodeType === 3 && node.textContent.trim();
const texts = [...document.body.querySelectorAll('*')].filter(
    element => element instanceof HTMLElement && element.tagName !== 'SCRIPT' && element.getClientRects().length
        && [...element.childNodes].some(isText));
const contrasts = texts.map(element => {
    const [low, high] = [luminance(getComputedStyle(element).color), behind(element)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
});
console.log(`texts ${texts.length} contrast ${Math.min(...contrasts)} page ${behind(document.body)};`);
)";

/// A window of a browser with a profile in the test's folder.
class ReportBrowserTest : public ReportTest
{
protected:
    void SetUp() override
    {
        if (!std::filesystem::exists(browser))
            GTEST_SKIP() << "needs a browser: Debian's package chromium";
        ReportTest::SetUp();
        ASSERT_NO_FATAL_FAILURE(writeHostileStep(path("hostile.hrs")));
        pages = {report({path("hostile.hrs")}), report({stepPath(), "--budget", std::to_string(budget())})};
    }

    /// The page as the browser has it once the page is loaded; the browser's console in `err`.
    Finished inBrowser(const std::string& page, std::vector<std::string> options)
    {
        writeFile(path("page.html"), page);
        options.insert(options.end(),
                       {"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                        "--enable-logging=stderr", "--user-data-dir=" + path("profile"),
                        "file://" + path("page.html")});
        return runProgram(browser, options);
    }

    std::vector<std::string> pages; ///< of a step with hostile names, and of a step with a plan

private:
    std::int64_t budget() const
    {
        return headroomProgram({"info", stepPath(), "--json"}).json()["peak_bytes"].get<std::int64_t>() * 9 / 10;
    }
};

TEST_F(ReportBrowserTest, RunsNoScriptOfAName)
{
    const Finished shown = inBrowser(pages.front(), {"--window-size=1280,900", "--dump-dom"});
    EXPECT_EQ(shown.exitCode, 0) << shown.err;
    EXPECT_THAT(shown.out, HasSubstr("<h1>"));
    EXPECT_THAT(shown.out, Not(HasSubstr("<title>ran</title>")));
    EXPECT_THAT(shown.err, Not(HasSubstr("CONSOLE"))) << "an error or a refused load";
}

TEST_F(ReportBrowserTest, AWindowShowsThePageInItsWidth)
{
    for (const std::string& page : pages) {
        const std::string measured = withScript(page,
                                                "console.log('overflow ' + (document.documentElement.scrollWidth - "
                                                "document.documentElement.clientWidth))");
        for (const int width : {390, 700, 1280})
            EXPECT_THAT(inBrowser(measured, {"--window-size=" + std::to_string(width) + ",900", "--dump-dom"}).err,
                        HasSubstr("\"overflow 0\""))
                << width;
    }
}

TEST_F(ReportBrowserTest, TextsAreReadableOnLightAndOnDark)
{
    for (const std::string& page : pages)
        for (const bool isDark : {false, true}) {
            const std::string scheme = isDark ? "0" : "1";
            const std::string log = inBrowser(withScript(page, measureContrast),
                                              {"--blink-settings=preferredColorScheme=" + scheme, "--dump-dom"})
                                        .err;
            std::smatch found;
            ASSERT_TRUE(std::regex_search(log, found, std::regex("texts (\\d+) contrast ([\\d.]+) page ([\\d.]+);")))
                << log;
            EXPECT_GT(std::stoi(found[1]), 20);
            EXPECT_GE(std::stod(found[2]), 4.5) << log;
            EXPECT_EQ(std::stod(found[3]) < 0.2, isDark) << log;
        }
}

TEST_F(ReportBrowserTest, APageIsPrinted)
{
    for (const std::string& page : pages) {
        const Finished printed = inBrowser(page, {"--print-to-pdf=" + path("page.pdf"), "--no-pdf-header-footer"});
        EXPECT_EQ(printed.exitCode, 0) << printed.err;
        EXPECT_THAT(readFile(path("page.pdf")), StartsWith("%PDF"));
        std::filesystem::remove(path("page.pdf"));
    }
}

} // namespace
} // namespace headroom
