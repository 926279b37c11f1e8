// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/fit_arguments.h"

#include "app/cli/arguments.h"
#include "app/cli/command.h"
#include "app/cli/python_program.h"
#include "core/base/try.h"
#include "core/trace/step_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

namespace headroom::cli {

namespace {

/// The options of `fit` that take a value; the words behind the program may have these, too.
constexpr auto valued = std::to_array<std::string_view>(
    {"--gpu", "--batch", "--seq", "--vary", "--vary-seq", "--vary-accumulation", "--global-batch", "--share",
     "--beside", "--settings", "--jobs", "--cache-size", "--python", "--policies", "--longest-batch", "--time-model",
     "--calibration", "-o", "--output"});

bool isStep(const std::vector<std::string>& words)
{
    return words.size() == 1 && words.front().ends_with(".hrs");
}

/// A file of lengths, numbers between anything else, and its longest.
struct Lengths
{
    std::int64_t longest = 0;
    std::int64_t line = 0; ///< of the longest, from 1
    std::int64_t count = 0;
};

Result<Lengths> readLengths(const std::string& file)
{
    std::ifstream in(file);
    if (!in)
        return badInput(file + " cannot be read");
    Lengths lengths;
    std::int64_t line = 0;
    for (std::string text; std::getline(in, text);) {
        ++line;
        std::ranges::replace_if(
            text, [](char c) { return c == ',' || c == '[' || c == ']'; }, ' ');
        std::istringstream words(text);
        for (std::string word; words >> word;) {
            const std::optional<double> number = parseNumber(word);
            if (!number || !(*number >= 0 && *number <= 1e12) || *number != std::floor(*number))
                return badInput(file + ", line " + std::to_string(line) + ": `" + word
                                + "` is no length: expected whole numbers, in lines or in a list");
            ++lengths.count;
            if (static_cast<std::int64_t>(*number) > lengths.longest) {
                lengths.longest = static_cast<std::int64_t>(*number);
                lengths.line = line;
            }
        }
    }
    if (lengths.longest == 0)
        return badInput(file + " has no length above 0: expected whole numbers, in lines or in a list");
    return lengths;
}

/// The sizes of --seq: sizes, or a file of lengths, of which the longest counts and is said.
Result<Sizes> sequenceSizes(const std::string& text, std::string& note)
{
    constexpr std::int64_t step = 64; // odd lengths take other kernels
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(text, ignored))
        return Sizes::parse(text, step);
    ASSIGN_OR_RETURN(const Lengths lengths, readLengths(text));
    note = "the longest of " + groupedDigits(lengths.count) + " lengths in " + text
        + " decides: " + groupedDigits(lengths.longest) + ", in line " + std::to_string(lengths.line);
    return Sizes::list({lengths.longest});
}

/// Sets a size and its argument from `--vary` or `--vary-seq`.
Status readVaried(const char* option, const std::string& text, std::int64_t step, SizeArgument& argument, Sizes& sizes)
{
    if (text.empty())
        return {};
    Result<VariedArgument> varied = parseVaried(text, step);
    if (!varied)
        return withOption(option, varied.error());
    argument = varied->argument;
    sizes = varied->sizes;
    return {};
}

/// The options that a script needs, and those that a script does not take.
Status checkScript(const FitArguments& arguments)
{
    const std::vector<std::string>& words = arguments.words;
    if (arguments.vary.empty() && arguments.varySequence.empty() && !arguments.changes) {
        const bool isBehind
            = std::ranges::any_of(words, [](const std::string& word) { return word.starts_with("--vary"); });
        return badInput(isBehind ? "--vary stands behind the script and is taken for an argument of the script: put "
                                   "--vary before the script"
                                 : "--vary is missing: name the script's argument or environment variable for the "
                                   "batch, as in --vary --batch-size=1..64 or --vary env:BATCH=1..64");
    }
    for (const auto& [name, value] : {std::pair{"--batch", &arguments.batch}, {"--seq", &arguments.sequence}})
        if (!value->empty())
            return badInput(std::string(name)
                            + " is an option for models: name a script's argument with --vary or "
                              "--vary-seq; arguments of the script stand behind `--`");
    if (arguments.globalBatch > 0 && arguments.varyAccumulation.empty() && !arguments.changes)
        return badInput("--global-batch needs the script's argument for the number of micro-batches: name the argument "
                        "with --vary-accumulation, as in --vary-accumulation --accum");
    return {};
}

Status readSizes(const FitArguments& arguments, Asked& asked)
{
    FitRequest& request = asked.request;
    if (asked.program.isScript)
        RETURN_IF_ERROR(checkScript(arguments));
    if (!arguments.batch.empty()) {
        const Result<Sizes> sizes = Sizes::parse(arguments.batch);
        if (!sizes)
            return withOption("--batch", sizes.error());
        request.batch = *sizes;
    }
    if (!arguments.sequence.empty()) {
        const Result<Sizes> sizes = sequenceSizes(arguments.sequence, asked.note);
        if (!sizes)
            return withOption("--seq", sizes.error());
        request.sequence = *sizes;
    }
    if (!asked.program.isScript && !(arguments.vary + arguments.varySequence + arguments.varyAccumulation).empty())
        return badInput("--vary names an argument of a script: a model takes --batch and --seq");
    if (!asked.program.isScript && !arguments.python.empty())
        return badInput("--python runs a script: a model needs no Python");
    if (!arguments.longestBatch.empty()) {
        if (!asked.program.isScript)
            return badInput(
                "--longest-batch needs the data loader of a script: for a model give the longest sample with --seq");
        ASSIGN_OR_RETURN(const int most, parseInteger("--longest-batch", arguments.longestBatch, 1, 1'000'000'000));
        asked.program.words.insert(asked.program.words.begin(), {"--longest-batch", std::to_string(most)});
    }
    RETURN_IF_ERROR(readVaried("--vary", arguments.vary, 1, asked.program.batch, request.batch));
    RETURN_IF_ERROR(readVaried("--vary-seq", arguments.varySequence, 64, asked.program.sequence, request.sequence));
    asked.program.accumulation.name = arguments.varyAccumulation;
    request.saysSizes = !asked.program.isScript;
    if (!asked.program.isScript && request.batch.isOwn() && !request.sequence.isRange() && !arguments.changes)
        request.batch = Sizes::range(1, 0, 1);
    if (asked.program.isScript)
        request.sizeName = request.sequence.isRange() ? asked.program.sequence.name : asked.program.batch.name;
    else
        request.sizeName = request.sequence.isRange() ? "--seq" : "--batch";
    return {};
}

Status readCard(const FitArguments& arguments, FitRequest& request)
{
    std::istringstream names(arguments.gpus);
    for (std::string name; std::getline(names, name, ',');)
        if (std::ranges::find(request.gpus, name) == request.gpus.end())
            request.gpus.push_back(name);
    if (!arguments.share.empty()) {
        const std::optional<double> share = parseNumber(arguments.share);
        if (!share || !(*share > 0 && *share <= 1))
            return badInput("--share `" + arguments.share
                            + "`: expected the share of the card's memory that training may take, above 0 and up to 1");
        request.share = *share;
    }
    if (!arguments.beside.empty()) {
        const Result<Bytes> beside = parseBytes(arguments.beside);
        if (!beside)
            return withOption("--beside", beside.error());
        request.beside = *beside;
    }
    request.settings = arguments.settings;
    request.times = arguments.times;
    request.globalBatch = arguments.globalBatch;
    return {};
}

/// Error (badInput): the script or model file is missing.
Status checkFile(const std::vector<std::string>& words)
{
    const auto isFile = [](const std::string& word) {
        return word.ends_with(".py") || word.ends_with(".pt2") || word.ends_with(".pt");
    };
    const auto file
        = std::ranges::find_if(words, [&](const std::string& word) { return word == "-m" || isFile(word); });
    std::error_code ignored;
    if (file != words.end() && isFile(*file) && !std::filesystem::exists(*file, ignored))
        return badInput(*file + ": there is no such file");
    return {};
}

/// The words that recorded a step file, and where its program runs.
Result<FitProgram> programOfStep(const std::string& file, const FitArguments& arguments)
{
    ASSIGN_OR_RETURN(const StepTracePtr step, readStepTrace(file));
    ASSIGN_OR_RETURN(FitProgram program, fitProgramOf(*step, file));
    if (program.isScript) {
        ASSIGN_OR_RETURN(program.python, pythonOfStep(*step, file, arguments.python));
    }
    return program;
}

} // namespace

Error withOption(const char* option, const Error& error)
{
    return {error.kind, std::string(option) + " " + error.message};
}

Result<Asked> readArguments(FitArguments arguments)
{
    if (arguments.words.empty())
        return badInput("what to fit is missing: expected a model, a step file or a training script, as in "
                        "torch-headroom fit demo:transformer --gpu rtx-4090-24gb");
    Asked asked;
    if (isStep(arguments.words)) {
        ASSIGN_OR_RETURN(asked.program, programOfStep(arguments.words.front(), arguments));
        if (arguments.gpus.empty()) {
            ASSIGN_OR_RETURN(const StepTracePtr step, readStepTrace(arguments.words.front()));
            arguments.gpus = step->info.gpu;
        }
    } else {
        RETURN_IF_ERROR(checkFile(arguments.words));
        ASSIGN_OR_RETURN(asked.program, fitProgram(arguments.words));
        if (asked.program.isScript) {
            asked.program.python = arguments.python;
            if (arguments.python.empty()) {
                ASSIGN_OR_RETURN(asked.program.python, pythonWithPackage());
            }
        }
    }
    RETURN_IF_ERROR(readCard(arguments, asked.request));
    RETURN_IF_ERROR(readSizes(arguments, asked));
    return asked;
}

std::vector<std::string> fitWords(const std::vector<std::string>& words)
{
    std::vector<std::string> options, program;
    bool isRead = true; // fit's own options are read from here
    bool hasOptions = false, hasProgram = false;
    for (std::size_t i = 0; i < words.size(); ++i) {
        const std::string& word = words[i];
        const std::string name = word.substr(0, word.find('='));
        if (isRead && word == "--") {
            isRead = false;
        } else if (isRead && std::ranges::find(valued, name) != valued.end()
                   && (name != word || i + 1 < words.size())) {
            // One word, since a value may begin with dashes.
            options.push_back(name != word ? word : (name == "-o" ? std::string("--output") : name) + "=" + words[++i]);
            hasOptions = true;
        } else if (isRead
                   && (word == "--json" || word == "--changes" || word == "--help" || word == "-h"
                       || word == "--version")) {
            options.push_back(word);
            hasOptions = true;
        } else {
            program.push_back(word);
            if (word == "-m" && i + 1 < words.size())
                program.push_back(words[++i]);
            const bool isScript = word == "-m" || word.ends_with(".py");
            // Behind a script, fit's options come first, and only where none came before the script.
            if (isScript && hasOptions)
                isRead = false;
            else if (isRead && hasProgram && isScriptCommand(program))
                isRead = false;
            hasProgram = hasProgram || isScript;
        }
    }
    options.insert(options.end(), program.begin(), program.end());
    return options;
}

} // namespace headroom::cli
