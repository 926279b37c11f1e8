// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// The manual and README.md against the repository and the programs: links, commands, options, files.

#include "app/cli/command.h"
#include "app/cli/command_line.h"
#include "app/cli/python_program.h"
#include "app/record/record_options.h"
#include "tests/docs/pages.h"

#include <CLI/CLI.hpp>
#include <gmock/gmock.h>

#include <algorithm>
#include <iterator>

namespace headroom::docs {
namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const fs::path manual = "resources/manual";
constexpr std::uintmax_t largestPicture = 200 * 1024;
constexpr std::size_t mostPictures = 8;
constexpr std::ptrdiff_t longestReadme = 150;

/// The commands of torch-headroom-record, without libtorch.
struct RecorderLine
{
    RecorderLine()
    {
        addRecordCommand(app, record, {"demo:transformer"});
        addVerifyCommand(app, verify, {"demo:transformer"});
        app.require_subcommand(1);
    }

    CLI::App app;
    RecordOptions record;
    RecordOptions verify;
};

/// CLI11 wants them from the last to the first.
void parse(CLI::App& app, std::vector<std::string> arguments)
{
    std::ranges::reverse(arguments);
    app.parse(arguments);
}

std::vector<char*> pointers(std::vector<std::string>& words)
{
    std::vector<char*> found;
    for (std::string& word : words)
        found.push_back(word.data());
    found.push_back(nullptr);
    return found;
}

/// Why the programs would not take the command; empty: they do. What Python parses is checked by a test in Python.
std::string problemOf(const Command& command)
{
    std::vector<std::string> arguments(command.words.begin() + 1, command.words.end());
    std::vector<std::string> rest(arguments.begin() + (arguments.empty() ? 0 : 1), arguments.end());
    const std::string first = arguments.empty() ? "" : arguments.front();
    const std::vector<char*> argv = pointers(rest);
    char** tail = const_cast<char**>(argv.data());
    if (first == "record" && cli::namesScript(tail))
        return {};
    const bool runsModel = first == "record" || (first == "verify" && !cli::comparesSteps(tail));
    std::string problem;
    const auto tryIt = [&](CLI::App& app) {
        try {
            parse(app, arguments);
            if (app.get_subcommands().empty() && first.find('.') == std::string::npos && !first.empty())
                problem = first + " is neither a command nor a file";
        } catch (const CLI::ParseError& error) {
            if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::Success))
                problem = error.what();
        }
    };
    if (runsModel || (command.words.front() == "torch-headroom-record" && first != "doctor")) {
        RecorderLine recorder;
        tryIt(recorder.app);
    } else {
        withCommandLine(tryIt);
    }
    return problem.empty() ? problem : command.place + ": " + problem;
}

std::vector<std::string> problemsOf(const Page& page)
{
    std::vector<std::string> problems;
    for (const Command& command : commands(page, {"torch-headroom", "torch-headroom-record"})) {
        if (std::string problem = problemOf(command); !problem.empty())
            problems.push_back(std::move(problem));
    }
    return problems;
}

/// The options of a command; --help and --version are those of all.
Names optionsOf(const CLI::App& command)
{
    Names names;
    for (const CLI::Option* option : command.get_options([](const CLI::Option* one) { return one->nonpositional(); })) {
        for (const std::string& name : option->get_snames())
            names.insert('-' + name);
        for (const std::string& name : option->get_lnames())
            names.insert("--" + name);
    }
    for (const char* common : {"-h", "--help", "--version"})
        names.erase(common);
    return names;
}

/// What --help of each command lists, by the name of its section in the manual.
std::map<std::string, Names> optionsOfPrograms()
{
    std::map<std::string, Names> options;
    withCommandLine([&](CLI::App& program) {
        options["torch-headroom"] = optionsOf(program);
        for (const CLI::App* command : program.get_subcommands([](const CLI::App*) { return true; }))
            options[command->get_name()] = optionsOf(*command);
    });
    const RecorderLine recorder;
    for (const CLI::App* command : recorder.app.get_subcommands([](const CLI::App*) { return true; }))
        options[command->get_name()].merge(optionsOf(*command));
    return options;
}

Names without(Names names, const Names& others)
{
    for (const std::string& name : others)
        names.erase(name);
    return names;
}

/// Sentences about options that the page lacks, or has and the programs do not.
std::vector<std::string> differences(std::map<std::string, Names> written, const std::map<std::string, Names>& real)
{
    std::vector<std::string> problems;
    for (const auto& [command, options] : real) {
        for (const std::string& option : without(options, written[command]))
            problems.push_back(command + " " + option + " is not in the manual");
        for (const std::string& option : without(written[command], options))
            problems.push_back(command + " has no " + option);
    }
    return problems;
}

TEST(Manual, LinksLeadSomewhere)
{
    EXPECT_THAT(deadLinks(allPages()), IsEmpty());
}

TEST(Manual, ADeadLinkIsFound)
{
    const std::vector<Page> pages{
        {manual / "a.md",
         "# A\n\n[no page](none.md), [no heading](b.md#gone), [out](../../README.md),\n"
         "![no picture](pictures/none.png), [here](#a), [there](b.md#two-words)\n"},
        {manual / "b.md", "# B\n\n## Two words\n\n```\n## Gone\n[no link](in-a-listing.md)\n```\n`[code](none.md)`\n"}};
    EXPECT_THAT(deadLinks(pages),
                ElementsAre("resources/manual/a.md:3: none.md is not there",
                            "resources/manual/a.md:3: b.md#gone has no such heading",
                            "resources/manual/a.md:3: ../../README.md leaves the manual",
                            "resources/manual/a.md:4: pictures/none.png is not there"));
}

TEST(Manual, PathsOfTheSourcesAreThere)
{
    const fs::path written = "tests/reference/gpu/CARD.json"; // by gpu-check.sh
    for (const Page& page : allPages()) {
        for (const auto& [line, path] : namedPaths(page.text))
            EXPECT_TRUE(path == written || fs::exists(root() / path))
                << page.file.generic_string() << ':' << line << ": " << path;
    }
}

TEST(Manual, CommandsParse)
{
    std::size_t count = 0;
    for (const Page& page : allPages()) {
        EXPECT_THAT(problemsOf(page), IsEmpty());
        count += commands(page, {"torch-headroom", "torch-headroom-record"}).size();
    }
    EXPECT_GT(count, 40U) << "the listings were not found";
}

TEST(Manual, ACommandThatDoesNotParseIsFound)
{
    const auto problem = [](const std::string& line) {
        const std::vector<std::string> found = problemsOf({"a.md", "```sh\n" + line + "\n```\n"});
        return found.empty() ? std::string() : found.front();
    };
    EXPECT_THAT(problem("torch-headroom plan step.hrs --budget 1GiB --fast"), HasSubstr("a.md:2: "));
    EXPECT_THAT(problem("$ torch-headroom plan step.hrs"), HasSubstr("--budget"));
    EXPECT_THAT(problem("torch-headroom plann"), HasSubstr("neither a command nor a file"));
    EXPECT_THAT(problem("torch-headroom record demo:mlp --batch 0"), HasSubstr("--batch"));
    EXPECT_THAT(problem("torch-headroom verify demo:mlp --steps 3"), HasSubstr("--steps"));
    EXPECT_THAT(problem("torch-headroom verify step.hrs --executed run.hrs --policy"), HasSubstr("--policy"));
    EXPECT_THAT(problem("torch-headroom-record verify demo:mlp --unlimited"), HasSubstr("--unlimited"));
    EXPECT_EQ(problem("torch-headroom plan step.hrs \\\n    --budget '1 GiB'   # a comment"), "");
}

TEST(Manual, HasEveryOptionOfEveryCommandAndNoOther)
{
    std::map<std::string, Names> real = optionsOfPrograms();
    EXPECT_GE(real.size(), 16U);
    std::map<std::string, Names> written = optionTables(readPage(manual / "commands.md").text);
    EXPECT_THAT(differences(written, real), IsEmpty());
    for (const auto& [section, options] : written)
        EXPECT_TRUE(options.empty() || real.contains(section) || section == "record a script"
                    || section == "run a script")
            << section << " is no command";
}

TEST(Manual, AMissingAndAnUnknownOptionAreFound)
{
    const std::map<std::string, Names> written = optionTables("## plan\n\n| option | means |\n| --- | --- |\n"
                                                              "| `-o`, `--output FILE` | `--no` option |\n"
                                                              "| `--budgets`, `--json` | |\n");
    EXPECT_THAT(
        differences(written, {{"plan", {"-o", "--output", "--budget", "--json"}}, {"info", {"--json"}}}),
        ElementsAre("info --json is not in the manual", "plan --budget is not in the manual", "plan has no --budgets"));
}

TEST(Manual, EveryPageAndPictureIsInTheContentsAndInTheProgram)
{
    Names files;
    Names linked;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root() / manual)) {
        if (entry.is_regular_file())
            files.insert("manual/" + fs::relative(entry.path(), root() / manual).generic_string());
    }
    for (const Page& page : manualPages()) {
        for (const auto& [line, link] : links(page.text)) {
            const bool isPicture = link.ends_with(".png");
            if (isPicture || page.file == manual / "README.md")
                linked.insert("manual/" + link.substr(0, link.find('#')));
        }
    }
    linked.insert("manual/README.md");
    EXPECT_EQ(files, linked);
    const std::string resources = readPage("resources/manual.qrc").text;
    for (const std::string& file : files)
        EXPECT_THAT(resources, HasSubstr("<file>" + file + "</file>"));
}

TEST(Manual, PicturesAreFewAndSmall)
{
    std::size_t count = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator(root() / manual / "pictures")) {
        EXPECT_LT(entry.file_size(), largestPicture) << entry.path();
        ++count;
    }
    EXPECT_LE(count, mostPictures);
}

TEST(Readme, IsReadInThreeMinutes)
{
    const std::string text = readPage("README.md").text;
    EXPECT_LE(std::ranges::count(text, '\n'), longestReadme);
}

} // namespace
} // namespace headroom::docs
