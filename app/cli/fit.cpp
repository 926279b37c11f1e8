// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/fit/fit.h"

#include "app/cli/arguments.h"
#include "app/cli/command.h"
#include "app/cli/fit_arguments.h"
#include "app/cli/pictures.h"
#include "app/cli/table.h"
#include "app/recording/step_processes.h"
#include "core/base/try.h"
#include "core/fit/fit_report.h"
#include "core/trace/earlier_steps.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <optional>

namespace headroom::cli {

namespace {

constexpr int signalBase = 128; ///< a shell reports a signal as 128 + its number

std::vector<std::string> cellsOf(const FitRow& row, bool hasSequence, bool accumulates)
{
    std::vector<std::string> cells{std::to_string(row.size.batch)};
    if (accumulates)
        cells.push_back(std::to_string(row.size.accumulation));
    if (hasSequence)
        cells.push_back(row.size.sequence > 0 ? std::to_string(row.size.sequence) : "-");
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
    columns.insert(
        columns.end(),
        {{"Peak", right}, {"Reserved", right}, {"Runs"}, {"Recompute", right}, {"Step", right}, {"Samples/s", right}});
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
        if (!sentence.starts_with(request.sizeName)) // an argument's name stays as the program has it
            sentence.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(sentence.front())));
        std::cout << sentence << (sentence.ends_with('.') ? "\n" : ".\n");
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
            if (const std::string_view said = series.rows[*series.largest].step.step->info.setting(longestBatchSetting);
                !said.empty())
                return "at batch " + std::to_string(series.rows[*series.largest].size.batch) + ", " + std::string(said);
    return {};
}

/// The folder of --policies: a new one is removed again if no policy was written.
class PolicyFolder
{
public:
    explicit PolicyFolder(std::filesystem::path path)
        : path_(std::move(path))
    {
    }
    ~PolicyFolder()
    {
        std::error_code isNotEmpty;
        if (isNew_)
            std::filesystem::remove(path_, isNotEmpty);
    }
    PolicyFolder(const PolicyFolder&) = delete;
    PolicyFolder& operator=(const PolicyFolder&) = delete;

    Status create()
    {
        std::error_code problem;
        isNew_ = std::filesystem::create_directories(path_, problem);
        if (problem)
            return badInput("--policies " + path_.string() + " cannot be created: " + problem.message());
        return {};
    }

private:
    std::filesystem::path path_;
    bool isNew_ = false;
};

/// Writes the policies of the largest and the fastest size of each series into a folder.
Status writePolicies(const FitResult& result, const FitRequest& request, const std::filesystem::path& folder)
{
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

Result<int> run(const FitArguments& arguments)
{
    if (!arguments.output.empty())
        RETURN_IF_ERROR(checkPicturePath(arguments.output));
    ASSIGN_OR_RETURN(Asked asked, readArguments(arguments));
    PolicyFolder policies(arguments.policies);
    if (!arguments.policies.empty())
        RETURN_IF_ERROR(policies.create());
    ASSIGN_OR_RETURN(const int jobs,
                     arguments.jobs.empty() ? processesAtOnce() : parseInteger("--jobs", arguments.jobs, 1, 1024));
    Bytes limit = FitRecorder::defaultLimit;
    if (!arguments.cacheSize.empty()) {
        const Result<Bytes> given = parseBytes(arguments.cacheSize);
        if (!given)
            return withOption("--cache-size", given.error());
        limit = *given;
    }
    const StopBySignal stop;
    FitRecorder recorder(asked.program, jobs, limit);
    const auto stopped = [&]() -> std::optional<int> {
        if (stop.signal() == 0)
            return std::nullopt;
        std::cerr << "torch-headroom: cancelled; steps that are recorded stay in " << recorder.finish().cache.string()
                  << '\n';
        return signalBase + stop.signal();
    };
    if (arguments.changes) {
        Result<int> code = runChanges(arguments, asked, recorder, stop.token());
        if (const std::optional<int> signal = stopped())
            return *signal;
        return code;
    }
    std::string said;
    const auto tell = [&](const FitSeries& series, const std::string& next) {
        if (next.starts_with("recording") && next != said)
            std::cerr << series.gpu << ": " << next << '\n';
        said = next;
    };
    const RecordSteps record = [&](std::span<const StepSize> sizes, const std::string& gpu,
                                   const std::stop_token& token) { return recorder.record(sizes, gpu, token); };
    const Result<FitResult> found = fit(asked.request, record, tell, stop.token());
    if (const std::optional<int> code = stopped())
        return *code;
    if (!found)
        return found.error();
    const FitResult& result = *found;
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
    const bool some
        = std::ranges::any_of(result.series, [](const FitSeries& series) { return series.largest.has_value(); });
    return some ? 0 : static_cast<int>(ErrorKind::infeasible);
}

} // namespace

void addFit(CLI::App& program, Action& chosen)
{
    const auto arguments = std::make_shared<FitArguments>();
    CLI::App* command = addCommand(
        program, "fit", "Which batch and sequence length run on a card, with and without a plan, and what is fastest");
    const auto add = [&](const char* name, std::string& value, const char* type, const char* description) {
        return command->add_option(name, value, description)->type_name(type);
    };
    add("--gpu", arguments->gpus, "NAME,…", "The cards (default: that of a step file)");
    add("--batch", arguments->batch, "SIZES", "Of a model: batches to try, as 8, 1,2,4, 1..64 or 1.. (default: all)");
    add("--seq", arguments->sequence, "SIZES|FILE",
        "Of a model: sequence lengths to try, as 1024 or 512..65536:64, or a file of lengths: the longest counts "
        "(default: the model's own)");
    add("--vary", arguments->vary, "ARGUMENT=SIZES",
        "Of a script: the argument that sets the batch, and batches to try, as --batch-size=1..64, "
        "train.micro_batch=1.. or env:BATCH=1,2,4; for an argument without a name, batch=1,2,4 and {batch} in place of "
        "the argument");
    add("--vary-seq", arguments->varySequence, "ARGUMENT=SIZES",
        "Of a script: the argument that sets the sequence length, as --block-size=512,1024");
    add("--longest-batch", arguments->longestBatch, "N",
        "Of a script: record steps of the longest batch among the first N batches of the data loader, as `record "
        "--longest-batch`");
    CLI::Option* accumulation
        = add("--vary-accumulation", arguments->varyAccumulation, "ARGUMENT",
              "Of a script: the argument that sets the micro-batches of an optimizer step, for --global-batch or "
              "--changes");
    CLI::Option* globalBatch
        = command
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
    CLI::Option* policies = add("--policies", arguments->policies, "FOLDER",
                                "Write the policies of the largest and the fastest size of each card into this folder");
    CLI::Option* output
        = add("-o,--output", arguments->output, "FILE", "Write a picture or a table: .svg, .pdf, .png or .csv");
    add("--jobs", arguments->jobs, "N", "Recordings at once (default: a core and 4 GiB of memory for each)");
    add("--cache-size", arguments->cacheSize, "SIZE",
        "Bytes of recordings that are kept in the user's cache folder (default: 4GiB)");
    add("--python", arguments->python, "PROGRAM", "The Python that runs the script (default: the environment's)");
    addTimeArguments(*command, arguments->times, false);
    CLI::Option* changes
        = command
              ->add_flag("--changes", arguments->changes,
                         "For a single size: list changes that save memory on the first card, and the cost of each")
              ->excludes(policies, output);
    needsOneOf(accumulation, {globalBatch, changes});
    addJsonFlag(*command, arguments->json);
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
