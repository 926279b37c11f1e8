// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/fit/fit.h"

#include "app/cli/arguments.h"
#include "app/cli/command.h"
#include "app/cli/pictures.h"
#include "app/cli/python_program.h"
#include "app/cli/table.h"
#include "app/recording/fit_recorder.h"
#include "app/recording/step_processes.h"
#include "core/base/try.h"
#include "core/fit/changes.h"
#include "core/fit/fit_report.h"
#include "core/trace/step_file.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

namespace headroom::cli {

namespace {

struct FitArguments
{
    std::string gpus, batch, sequence, vary, varySequence, varyAccumulation, share, beside, jobs, cacheSize, python,
        longestBatch;
    std::int64_t globalBatch = 0;
    std::optional<std::string> settings;
    std::vector<std::string> words; ///< a step file, or a model or script and its arguments
    std::string output, policies;
    TimeChoice times;
    bool changes = false; ///< what would help is asked for, at a single size
    bool json = false;
};

/// The options of `fit` that take a value; the words behind the program may have these, too.
constexpr auto valued = std::to_array<std::string_view>(
    {"--gpu", "--batch", "--seq", "--vary", "--vary-seq", "--vary-accumulation", "--global-batch", "--share",
     "--beside", "--settings", "--jobs", "--cache-size", "--python", "--policies", "--longest-batch", "--time-model", "--calibration",
     "-o", "--output"});

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
        std::istringstream words(text);
        for (std::string word; words >> word;) {
            std::erase_if(word, [](char c) { return c == ',' || c == '[' || c == ']'; });
            const std::optional<double> number = word.empty() ? 0.0 : parseNumber(word);
            if (!number || *number < 0 || *number > 1e12)
                return badInput(file + ", line " + std::to_string(line) + ": `" + word
                                + "` is no length: expected whole numbers, one a line or in a list");
            if (word.empty())
                continue;
            ++lengths.count;
            if (static_cast<std::int64_t>(*number) > lengths.longest) {
                lengths.longest = static_cast<std::int64_t>(*number);
                lengths.line = line;
            }
        }
    }
    if (lengths.longest == 0)
        return badInput(file + " has no length above 0: expected whole numbers, one a line or in a list");
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
    note = "the longest of " + groupedDigits(lengths.count) + " lengths in " + text + " decides: "
        + groupedDigits(lengths.longest) + ", in line " + std::to_string(lengths.line);
    return Sizes::list({lengths.longest});
}

Error withOption(const char* option, const Error& error)
{
    return {error.kind, std::string(option) + " " + error.message};
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

/// The program and its sizes, and the GPU of a step file for --gpu.
struct Asked
{
    FitRequest request;
    FitProgram program;
    std::string note; ///< which length decides; empty: none is looked for
};

Status readSizes(const FitArguments& arguments, Asked& asked)
{
    FitRequest& request = asked.request;
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
    if (asked.program.isScript && arguments.vary.empty() && arguments.varySequence.empty() && !arguments.changes) {
        const bool isBehind = std::ranges::any_of(
            arguments.words, [](const std::string& word) { return word.starts_with("--vary"); });
        return badInput(isBehind ? "--vary stands behind the script's own arguments, and is the script's there: put it "
                                   "before the script"
                                 : "a script takes its batch by an argument or an environment variable of its own: "
                                   "name the argument with --vary, as in --vary --batch-size=1..64 or --vary "
                                   "env:BATCH=1..64");
    }
    if (!asked.program.isScript && !(arguments.vary + arguments.varySequence + arguments.varyAccumulation).empty())
        return badInput("--vary names an argument of a script: a model takes --batch and --seq");
    if (!arguments.longestBatch.empty()) {
        if (!asked.program.isScript)
            return badInput("--longest-batch is found in the data loader of a script: for a model give its longest "
                            "sample with --seq");
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

std::vector<std::string> cellsOf(const FitRow& row, bool hasSequence, bool accumulates)
{
    std::vector<std::string> cells{std::to_string(row.size.batch)};
    if (accumulates)
        cells.push_back(std::to_string(row.size.accumulation));
    if (hasSequence)
        cells.push_back(std::to_string(row.size.sequence));
    if (!row.failure.empty()) {
        cells.insert(cells.end(), {"-", "-", "failed", "-", "-", "-"});
        if (hasSequence)
            cells.emplace_back("-");
    } else {
        const FitRun& run = row.best();
        const bool isTimed = run.stepMs > 0 && row.runs();
        cells.insert(cells.end(),
                     {formatBytes(run.peak), run.runs() ? formatBytes(run.card.reservedPeak) : "-",
                      std::string(verdictOf(row)), row.plan ? formatMs(run.recomputeMs) : "-",
                      isTimed ? formatMs(run.stepMs) : "-",
                      isTimed && run.samplesPerSecond > 0 ? formatNumber(run.samplesPerSecond, 2) : "-"});
        if (hasSequence)
            cells.push_back(isTimed && run.tokensPerSecond > 0 ? formatNumber(run.tokensPerSecond, 0) : "-");
    }
    cells.emplace_back(sourceOf(row));
    return cells;
}

void printSeries(const FitSeries& series, const FitRequest& request, std::vector<std::string>& assumed)
{
    using enum Table::Align;
    const bool hasSequence = std::ranges::any_of(series.rows, [](const FitRow& row) { return row.size.sequence > 0; });
    const bool accumulates = request.globalBatch > 0;
    const Result<DeviceSpec> gpu = findDeviceSpec(series.gpu);
    std::cout << (gpu ? gpu->title : series.gpu) << '\n';
    std::vector<Table::Heading> columns{{"Batch", right}};
    if (accumulates)
        columns.push_back({"Accumulation", right});
    if (hasSequence)
        columns.push_back({"Sequence", right});
    columns.insert(columns.end(),
                   {{"Peak", right}, {"Reserved", right}, {"Runs"}, {"Recompute", right}, {"Step", right},
                    {"Samples/s", right}});
    if (hasSequence)
        columns.push_back({"Tokens/s", right});
    columns.push_back({"Source"});
    Table table(columns);
    for (const FitRow& row : series.rows)
        table.addRow(cellsOf(row, hasSequence, accumulates));
    if (series.largest)
        std::ranges::copy(series.rows[*series.largest].best().card.assumptions, std::back_inserter(assumed));
    table.print(std::cout);
    std::cout << '\n';
    for (std::string sentence : findings(series, request)) {
        sentence.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(sentence.front())));
        std::cout << sentence << ".\n";
    }
    for (const std::string& remark : series.remarks)
        std::cout << "Remark: " << remark << ".\n";
    for (const std::string& sentence : failures(series, request))
        std::cout << sentence << '\n';
    std::cout << '\n';
}

void print(const FitResult& result, const Asked& asked, const FitRecorder::Count& count)
{
    std::vector<std::string> assumed;
    for (const FitSeries& series : result.series)
        printSeries(series, asked.request, assumed);
    printAssumptions(assumed, std::cout);
    if (!asked.note.empty())
        std::cout << "Sequence      " << asked.note << '\n';
    const auto some = [&](const auto& is) {
        return std::ranges::any_of(result.series,
                                   [&](const FitSeries& series) { return std::ranges::any_of(series.rows, is); });
    };
    if (some([](const FitRow& row) { return row.failure.empty() && !row.runs(); }))
        std::cout << "The peak of a size that does not run is the least that a plan reaches.\n";
    if (some([](const FitRow& row) { return row.failure.empty() && !row.isRecorded; }))
        std::cout << "The blocks and shapes of a calculated row follow from recordings of other sizes.\n";
    std::cout << "Recorded      " << count.recorded << (count.recorded == 1 ? " step" : " steps") << "; " << count.kept
              << " more from " << count.cache.string() << ", which has " << formatBytes(count.cacheBytes) << " of "
              << formatBytes(count.cacheLimit) << '\n';
}

/// Which batch of the script's data loader decides at the largest size that runs; empty: --longest-batch was not given.
std::string longestBatch(const FitResult& result)
{
    for (const FitSeries& series : result.series)
        if (series.largest && series.rows[*series.largest].step.step)
            if (const std::string_view said = series.rows[*series.largest].step.step->info.setting("longest batch");
                !said.empty())
                return "at batch " + std::to_string(series.rows[*series.largest].size.batch) + ", " + std::string(said);
    return {};
}

/// Writes the policies of the largest and the fastest size of each series into a folder.
Status writePolicies(const FitResult& result, const FitRequest& request, const std::filesystem::path& folder)
{
    std::error_code problem;
    std::filesystem::create_directories(folder, problem);
    if (problem)
        return badInput("--policies " + folder.string() + " cannot be created: " + problem.message());
    for (const FitSeries& series : result.series)
        for (const auto& [name, index] : {std::pair{"largest", series.largest}, {"fastest", series.fastest}}) {
            if (!index || !series.rows[*index].plan)
                continue;
            const FitRow& row = series.rows[*index];
            ASSIGN_OR_RETURN(const Card card, cardOf(request, series.gpu, *row.step.step));
            Policy policy = row.plan->policy(row.step.step);
            noteCard(policy, card, row.best().card, 0, request.settings);
            std::string file = series.gpu + "-";
            if (series.other > 0)
                file += std::to_string(series.other) + "-";
            file += std::string(name) + "-" + std::to_string(row.size.batch) + ".json";
            RETURN_IF_ERROR(writePolicy(policy, folder / file));
            std::cerr << "policy " << (folder / file).string() << '\n';
        }
    return {};
}

std::string addedText(const Change& change)
{
    if (change.stepMs <= 0)
        return "-";
    const double ms = change.addedMs;
    if (std::abs(ms) < 0.005)
        return "0";
    return (ms > 0 ? "+" : "\u2212") + formatMs(std::abs(ms));
}

void print(const Changes& changes, const Card& card)
{
    using enum Table::Align;
    const Unchanged& before = changes.before;
    std::cout << card.title << ": the step " << (before.run.runs ? "runs" : "does not run") << ", "
              << exactBytes(before.peak) << " allocated at its peak, " << formatMs(before.stepMs) << '\n';
    if (!before.run.runs)
        std::cout << before.run.reason << '\n';
    std::cout << '\n';
    if (changes.list.empty()) {
        std::cout << "No change that was tried frees memory.\n";
        return;
    }
    Table table({{"Costs"}, {"Change"}, {"Frees", right}, {"Reserved", right}, {"Runs"}, {"Step", right}, {"Source"}});
    for (const Change& change : changes.list)
        table.addRow({std::string(changeCostName(change.cost)), change.what, formatBytes(change.freed),
                      change.runs() ? formatBytes(change.run.reservedPeak) : "-", change.runs() ? "yes" : "no",
                      addedText(change), change.isRecorded ? "recorded" : change.plan ? "planned" : "calculated"});
    table.print(std::cout);
    std::cout << '\n';
    for (const Change& change : changes.list)
        std::cout << change.what << ": " << change.how << (change.rests.empty() ? "" : "; calculated: " + change.rests)
                  << '\n';
}

/// Answers --changes: the step of one size on the first card.
Result<int> runChanges(const FitArguments& arguments, const Asked& asked, FitRecorder& recorder)
{
    const FitRequest& request = asked.request;
    if (request.batch.count() != 1 || request.sequence.count() != 1)
        return badInput("--changes is about a step of one size: expected one batch, such as "
                        + std::string(asked.program.isScript ? "--vary --batch-size=8" : "--batch 8"));
    const StepSize size{request.batch.at(0), request.sequence.at(0), 1};
    const std::string& gpu = request.gpus.front();
    std::vector<Result<RecordedStep>> recorded = recorder.record(std::span(&size, 1), gpu, {});
    if (!recorded.front())
        return recorded.front().error();
    const auto timed = [&](StepTracePtr step) -> Result<StepTracePtr> {
        TimeChoice times = request.times;
        times.gpu = gpu;
        ASSIGN_OR_RETURN(TimedStep at, withTimes(std::move(step), times));
        return at.step;
    };
    ASSIGN_OR_RETURN(const StepTracePtr step, timed(recorded.front()->step));
    ASSIGN_OR_RETURN(const Card card, cardOf(request, gpu, *step));
    RecordVariant variant;
    if (!asked.program.isScript)
        variant = [&](const std::vector<std::string>& options) -> Result<StepTracePtr> {
            ASSIGN_OR_RETURN(const RecordedStep other, recorder.recordVariant(size, options, gpu, {}));
            return timed(other.step);
        };
    ASSIGN_OR_RETURN(const Changes changes, changesThatHelp(step, card, variant));
    recorder.finish();
    if (arguments.json)
        printJson(toJson(changes));
    else
        print(changes, card);
    return 0;
}

Result<int> run(const FitArguments& arguments)
{
    ASSIGN_OR_RETURN(Asked asked, readArguments(arguments));
    ASSIGN_OR_RETURN(const int jobs, arguments.jobs.empty() ? processesAtOnce()
                                                            : parseInteger("--jobs", arguments.jobs, 1, 1024));
    Bytes limit = FitRecorder::defaultLimit;
    if (!arguments.cacheSize.empty()) {
        const Result<Bytes> given = parseBytes(arguments.cacheSize);
        if (!given)
            return withOption("--cache-size", given.error());
        limit = *given;
    }
    FitRecorder recorder(asked.program, jobs, limit);
    if (arguments.changes)
        return runChanges(arguments, asked, recorder);
    std::string said;
    const auto tell = [&](const FitSeries& series, const std::string& next) {
        if (next.starts_with("recording") && next != said)
            std::cerr << series.gpu << ": " << next << '\n';
        said = next;
    };
    const RecordSteps record = [&](std::span<const StepSize> sizes, const std::string& gpu, const std::stop_token& stop) {
        return recorder.record(sizes, gpu, stop);
    };
    ASSIGN_OR_RETURN(const FitResult result, fit(asked.request, record, tell));
    const FitRecorder::Count count = recorder.finish();
    if (asked.note.empty())
        asked.note = longestBatch(result);
    if (!arguments.policies.empty())
        RETURN_IF_ERROR(writePolicies(result, asked.request, arguments.policies));
    if (!arguments.output.empty())
        RETURN_IF_ERROR(drawFit({arguments.words.front(), result, asked.request.sequence.isRange()}, arguments.output));
    if (arguments.json) {
        Json document = toJson(result);
        document["cache"] = {{"folder", count.cache.string()},
                             {"bytes", count.cacheBytes},
                             {"limit_bytes", count.cacheLimit},
                             {"recorded", count.recorded},
                             {"kept", count.kept}};
        document["note"] = asked.note;
        printJson(document);
    } else {
        print(result, asked, count);
    }
    const bool some = std::ranges::any_of(result.series, [](const FitSeries& series) { return series.largest.has_value(); });
    return some ? 0 : static_cast<int>(ErrorKind::infeasible);
}

} // namespace

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
        } else if (isRead && std::ranges::find(valued, name) != valued.end() && (name != word || i + 1 < words.size())) {
            // One word, since a value may begin with dashes.
            options.push_back(name != word ? word : (name == "-o" ? std::string("--output") : name) + "=" + words[++i]);
            hasOptions = true;
        } else if (isRead && (word == "--json" || word == "--changes" || word == "--help" || word == "-h" || word == "--version")) {
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

void addFit(CLI::App& program, Action& chosen)
{
    const auto arguments = std::make_shared<FitArguments>();
    CLI::App* command = addCommand(
        program, "fit", "Which batch and sequence length run on a card, with and without a plan, and what is fastest");
    const auto add = [&](const char* name, std::string& value, const char* type, const char* description) {
        command->add_option(name, value, description)->type_name(type);
    };
    add("--gpu", arguments->gpus, "NAME,…", "The cards (default: that of a step file)");
    add("--batch", arguments->batch, "SIZES", "Of a model: batches to try, as 8, 1,2,4, 1..64 or 1.. (default: all)");
    add("--seq", arguments->sequence, "SIZES|FILE",
        "Of a model: sequence lengths to try, as 1024 or 512..65536:64, or a file of lengths, of which the longest "
        "counts (default: the model's own)");
    add("--vary", arguments->vary, "ARGUMENT=SIZES",
        "Of a script: the argument that sets the batch, and batches to try, as --batch-size=1..64, "
        "train.micro_batch=1.. or env:BATCH=1,2,4; for an argument without a name, batch=1,2,4 and {batch} in its place");
    add("--vary-seq", arguments->varySequence, "ARGUMENT=SIZES",
        "Of a script: the argument that sets the sequence length, as --block-size=512,1024");
    add("--longest-batch", arguments->longestBatch, "N",
        "Of a script: record steps of the longest batch among the first N batches of its data loader, as "
        "`record --longest-batch`");
    add("--vary-accumulation", arguments->varyAccumulation, "ARGUMENT",
        "Of a script: the argument that sets the micro-batches of an optimizer step, with --global-batch");
    command
        ->add_option("--global-batch", arguments->globalBatch,
                     "Samples of an optimizer step: each batch is a divisor, and gradients accumulate")
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
        ->type_name("N");
    add("--share", arguments->share, "X", "Share of the card's memory that training may take; the rest is another's");
    add("--beside", arguments->beside, "SIZE", "Memory of the card that another program takes, such as a server");
    command
        ->add_option("--settings", arguments->settings,
                     "As in PYTORCH_CUDA_ALLOC_CONF (default: the recorded program's)")
        ->type_name("KEY:VALUE,…");
    add("--policies", arguments->policies, "FOLDER",
        "Write the policies of the largest and the fastest size of each card into this folder");
    add("-o,--output", arguments->output, "FILE", "Write a picture or a table: .svg, .pdf, .png or .csv");
    add("--jobs", arguments->jobs, "N", "Recordings at once (default: a core and 4 GiB of memory for each)");
    add("--cache-size", arguments->cacheSize, "SIZE",
        "Bytes of recordings that are kept in the user's cache folder (default: 4GiB)");
    add("--python", arguments->python, "PROGRAM", "The Python that runs the script (default: the environment's)");
    addTimeArguments(*command, arguments->times, false);
    command->add_flag("--changes", arguments->changes,
                      "List what would make the step of one size take less memory on the first card, and at what cost");
    command->add_flag("--json", arguments->json, "Print one JSON document");
    // The words behind the program are the program's own.
    command->prefix_command();
    command->footer("Behind or before the options: a model and options of `record`; a step file; or a training script. "
                    "The script's own\narguments stand behind the script and these options, or behind `--`.");
    command->callback([=, &chosen] {
        arguments->words = command->remaining();
        chosen = [=] { return run(*arguments); };
    });
}

} // namespace headroom::cli
