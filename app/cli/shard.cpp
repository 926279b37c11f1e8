// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/arguments.h"
#include "app/cli/command.h"
#include "app/cli/python_program.h"
#include "app/cli/table.h"
#include "app/recording/step_processes.h"
#include "core/base/try.h"
#include "core/policy/shard_options.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <optional>
#include <sstream>

namespace headroom::cli {

namespace {

struct ShardArguments
{
    ShardChoices choices;
    std::vector<std::string> reshard;
    std::vector<std::string> words; ///< step files, or a script with arguments
    bool module = false;
    std::string vary;
    std::string folder;
    std::string jobs;
    TimeChoice times;
    CardArguments onCard;
    bool torchtitan = false;
    bool json = false;
};

/// The arguments that `--vary torchtitan` stands for.
constexpr const char* torchtitanWords
    = "--parallelism.data_parallel_replicate_degree {replicate} --parallelism.data_parallel_shard_degree {shard} "
      "--parallelism.tensor_parallel_degree {tp} --parallelism.fsdp_reshard_after_forward {reshard} "
      "--training.local_batch_size {batch}";

bool isStep(const std::string& word)
{
    return word.ends_with(".hrs");
}

std::vector<std::string> split(const std::string& text)
{
    std::istringstream in(text);
    std::vector<std::string> words;
    for (std::string word; in >> word;)
        words.push_back(word);
    return words;
}

/// Returns the arguments of --vary for an option. Words that set the batch are left out if the option has none.
std::vector<std::string> variedWords(const std::string& vary, const ShardOption& option)
{
    std::vector<std::string> words;
    for (const std::string& word : split(vary == "torchtitan" ? torchtitanWords : vary)) {
        if (option.batch == 0 && word.find("{batch}") != std::string::npos) {
            if (word == "{batch}" && !words.empty() && words.back().starts_with('-'))
                words.pop_back();
            continue;
        }
        words.push_back(filledIn(word, option));
    }
    return words;
}

std::string nameOf(const ShardOption& option)
{
    std::string name = "replicate" + std::to_string(option.replicate) + "-shard" + std::to_string(option.shard) + "-tp"
        + std::to_string(option.tensor) + (option.reshard ? "" : "-kept");
    return option.batch > 0 ? name + "-batch" + std::to_string(option.batch) : name;
}

/// A run of `python3 -m torch_headroom.record`.
struct Recording
{
    StepProcess process;
    std::filesystem::path output; ///< the step file; messages go into a file beside the step file
};

Recording recordingOf(const ShardArguments& arguments, const std::string& python, const ShardOption& option,
                      const std::filesystem::path& folder)
{
    const int perNode = std::min(arguments.choices.perNode, arguments.choices.cards);
    Recording recording;
    recording.output = folder / (nameOf(option) + ".hrs");
    StepProcess& process = recording.process;
    process.program = python;
    process.output = process.messages = recording.output.string() + ".log";
    std::vector<std::string>& words = process.arguments;
    words = {"-m",
             "torch_headroom.record",
             "--nproc-per-node",
             std::to_string(perNode),
             "--nnodes",
             std::to_string(arguments.choices.cards / perNode),
             "--unlimited",
             "-o",
             recording.output.string()};
    if (!arguments.times.gpu.empty())
        words.insert(words.end(), {"--gpu", arguments.times.gpu});
    else if (findDeviceSpec(arguments.onCard.card))
        words.insert(words.end(), {"--gpu", arguments.onCard.card});
    if (arguments.module)
        words.emplace_back("-m");
    words.insert(words.end(), arguments.words.begin(), arguments.words.end());
    std::ranges::move(variedWords(arguments.vary, option), std::back_inserter(words));
    process.environment = {{"SHARD_REPLICATE", std::to_string(option.replicate)},
                           {"SHARD_SHARD", std::to_string(option.shard)},
                           {"SHARD_TP", std::to_string(option.tensor)},
                           {"SHARD_RESHARD", option.reshard ? "always" : "never"}};
    if (option.batch > 0)
        process.environment.emplace_back("SHARD_BATCH", std::to_string(option.batch));
    return recording;
}

/// Returns the row of a step file. An error of the file becomes the row's failure.
ShardRow rowOf(const std::string& file, const ShardOption& option, const ShardArguments& arguments, int worldSize)
{
    const auto read = [&]() -> Result<ShardRow> {
        ASSIGN_OR_RETURN(const StepTracePtr step, readStep(file, arguments.times));
        ASSIGN_OR_RETURN(std::optional<Card> card, cardOf(arguments.onCard, *step));
        return shardRow(step, option, worldSize, std::move(card));
    }();
    ShardRow row = read ? *read : ShardRow();
    row.option = option;
    row.step = file;
    row.failure = read ? std::string() : read.error().message;
    return row;
}

/// Returns a row for each step file. A step of a single card is calculated for all cards; a step of a job is a row
/// itself. Error (badInput): all steps are of jobs, and --gpus names another number of cards.
Result<std::vector<ShardRow>> rowsOfSteps(const CLI::App& command, const ShardArguments& arguments)
{
    std::vector<ShardRow> rows;
    bool areJobs = true;
    int cards = arguments.choices.cards;
    for (const std::string& file : arguments.words) {
        ASSIGN_OR_RETURN(const StepTracePtr step, readStep(file, arguments.times));
        const auto& job = step->info.distributed;
        ShardOption option;
        option.shard = job ? static_cast<int>(job->worldSize) : arguments.choices.cards;
        areJobs = areJobs && job;
        cards = job ? option.shard : cards;
        rows.push_back(rowOf(file, option, arguments, job ? 1 : arguments.choices.cards));
        if (!job)
            continue;
        rows.back().unknownMesh = option.shard;
        rows.back().samplesPerSecond = 0; // the number of ranks with their own data is not known either
    }
    if (areJobs && cards != arguments.choices.cards)
        RETURN_IF_ERROR(refuse(command, {"--gpus"},
                               "cannot change that " + arguments.words.back() + " was recorded in a job of "
                                   + std::to_string(cards) + " ranks: expected a step of a single card"));
    return rows;
}

/// Returns the folder of the recordings: `kept`, the user's, or else a temporary one.
Result<std::filesystem::path> recordingFolder(const std::string& kept, std::optional<TemporaryFolder>& temporary)
{
    if (kept.empty())
        return temporary.emplace("torch-headroom-shard").path();
    std::error_code problem;
    std::filesystem::create_directories(kept, problem);
    if (problem)
        return badInput(kept + " cannot be created: " + problem.message());
    return std::filesystem::path(kept);
}

Result<std::vector<ShardRow>> rowsOfScript(const ShardArguments& arguments, const std::filesystem::path& folder)
{
    if (arguments.choices.cards < 2)
        return badInput(std::ranges::find(arguments.words, "--gpus") == arguments.words.end()
                            ? "--gpus: expected how many cards to lay the script over, 2 or more"
                            : "--gpus stands behind the script and is taken for an argument of the script: put --gpus "
                              "before the script");
    ASSIGN_OR_RETURN(const std::vector<ShardOption> options, shardOptions(arguments.choices));
    if (options.size() > 1 && arguments.vary.empty())
        std::cerr << "torch-headroom: options reach the script in SHARD_REPLICATE, SHARD_SHARD, SHARD_TP, "
                     "SHARD_RESHARD and SHARD_BATCH; --vary sets arguments of the script\n";
    ASSIGN_OR_RETURN(const int jobs,
                     arguments.jobs.empty() ? processesAtOnce() : parseInteger("--jobs", arguments.jobs, 1, 1024));
    ASSIGN_OR_RETURN(const std::string python, pythonWithPackage());
    std::vector<Recording> recordings;
    std::vector<StepProcess> processes;
    for (const ShardOption& option : options) {
        recordings.push_back(recordingOf(arguments, python, option, folder));
        std::error_code ignored;
        std::filesystem::remove(recordings.back().output, ignored); // of an earlier run
        processes.push_back(recordings.back().process);
    }
    runProcesses(processes, jobs, {}, [](const StepProcess& process) {
        // Without the suffixes of the step file and of the messages.
        std::cerr << "recording " << process.output.stem().stem().string() << '\n';
    });
    std::vector<ShardRow> rows;
    for (std::size_t i = 0; i < recordings.size(); ++i) {
        ShardRow row;
        row.option = options[i];
        // A step that ran out of memory is written, too, as a row like others.
        if (!std::filesystem::exists(recordings[i].output))
            row.failure = lastLine(recordings[i].process.messages);
        rows.push_back(row.failure.empty() ? rowOf(recordings[i].output.string(), row.option, arguments, 1) : row);
    }
    return rows;
}

/// Returns the option as JSON; the values are null if a recorded job does not say the mesh.
Json optionJson(const ShardRow& row)
{
    const ShardOption& option = row.option;
    if (row.unknownMesh > 0)
        return {{"replicate", nullptr}, {"shard", nullptr},
                {"tp", nullptr},        {"reshard_after_forward", nullptr},
                {"batch", nullptr},     {"world_size", row.unknownMesh},
                {"step", row.step}};
    return {{"replicate", option.replicate},
            {"shard", option.shard},
            {"tp", option.tensor},
            {"reshard_after_forward", option.reshard},
            {"batch", option.batch},
            {"world_size", option.replicate * option.shard * option.tensor},
            {"step", row.step}};
}

/// Returns the option as cells of the table; "-" stands for null.
std::vector<std::string> optionCells(const ShardRow& row)
{
    const ShardOption& option = row.option;
    if (row.unknownMesh > 0)
        return {std::to_string(row.unknownMesh), "-", "-", "-", "-", "-"};
    return {std::to_string(option.replicate * option.shard * option.tensor),
            std::to_string(option.replicate),
            std::to_string(option.shard),
            std::to_string(option.tensor),
            option.reshard ? "always" : "never",
            option.batch > 0 ? std::to_string(option.batch) : "-"};
}

Json toJson(const ShardRow& row)
{
    Json json = optionJson(row);
    if (!row.failure.empty()) {
        json["failure"] = row.failure;
        return json;
    }
    json["fits"] = row.fits;
    json["peak_bytes"] = row.peak;
    json["usable_bytes"] = row.usable;
    json["assumptions"] = row.assumptions;
    json["reserved_peak_bytes"] = row.reserved > 0 ? Json(row.reserved) : Json();
    if (!row.shortage.empty())
        json["reason"] = row.shortage;
    json["step_ms"] = row.stepMs;
    json["exposed_ms"] = row.exposedMs;
    json["samples_per_second"] = row.samplesPerSecond;
    json["recompute_ms"] = row.plan ? row.plan->plan.recomputeMs : 0;
    json["calculated"] = row.calculated;
    return json;
}

void print(const std::vector<ShardRow>& rows, std::ostream& out)
{
    using enum Table::Align;
    Table table({{"Ranks", right},
                 {"Replicate", right},
                 {"Shard", right},
                 {"TP", right},
                 {"Reshard"},
                 {"Batch", right},
                 {"Peak", right},
                 {"Reserved", right},
                 {"Fits"},
                 {"Recompute", right},
                 {"Exposed", right},
                 {"Step", right},
                 {"Samples/s", right},
                 {"Step file"}});
    bool calculated = false;
    std::vector<std::string> assumed;
    for (const ShardRow& row : rows) {
        std::ranges::copy(row.assumptions, std::back_inserter(assumed));
        std::vector<std::string> cells = optionCells(row);
        if (row.failure.empty())
            cells.insert(cells.end(),
                         {formatBytes(row.peak), row.reserved > 0 ? formatBytes(row.reserved) : "-",
                          !row.fits      ? "no"
                              : row.plan ? "with a plan"
                                         : "yes",
                          row.plan ? formatMs(row.plan->plan.recomputeMs) : "-", formatMs(row.exposedMs),
                          formatMs(row.stepMs),
                          row.samplesPerSecond > 0 ? formatNumber(row.samplesPerSecond, 2) : "-"});
        else
            cells.insert(cells.end(), {"-", "-", "failed", "-", "-", "-", "-"});
        cells.push_back(std::filesystem::path(row.step).stem().string());
        table.addRow(std::move(cells));
        calculated = calculated || row.calculated;
    }
    table.print(out);
    printAssumptions(assumed, out);
    if (!rows.empty() && rows.front().failure.empty())
        out << "\nThe card gives " << exactBytes(rows.front().usable)
            << " to PyTorch; a peak that does not fit is the least that a plan reaches.\n";
    if (calculated)
        out << "\nCalculated from a step of one card: parameters, gradients and optimizer state by the share of a "
               "rank,\nwithout gathered parameters, buffers of collectives and time of collectives. To count all, "
               "record the\nscript with --nproc-per-node, or name the script here.\n";
    for (const ShardRow& row : rows)
        if (!row.shortage.empty())
            out << '\n'
                << (row.unknownMesh > 0 ? std::filesystem::path(row.step).stem().string() : nameOf(row.option))
                << " does not fit, although the tensors fit: " << row.shortage << '\n';
    for (const ShardRow& row : rows)
        if (!row.failure.empty())
            out << '\n' << nameOf(row.option) << " failed: " << row.failure << '\n';
}

Result<int> run(const CLI::App& command, ShardArguments arguments)
{
    if (arguments.words.empty())
        return badInput("expected step files, or a training script with arguments");
    if (arguments.words.front().starts_with('-'))
        return badInput(arguments.words.front()
                        + " is no option of torch-headroom shard: expected a script or a step file "
                          "before what is the script's");
    for (const std::string& value : arguments.reshard) {
        if (value != "always" && value != "never")
            return badInput("--reshard " + value + ": expected always or never");
        arguments.choices.reshard.push_back(value == "always");
    }
    const bool steps = !arguments.module && isStep(arguments.words.front());
    if (const auto other = std::ranges::find_if_not(arguments.words, isStep); steps && other != arguments.words.end())
        return badInput("`" + *other + "` stands behind step files: expected options before, and only step files");
    if (steps)
        RETURN_IF_ERROR(refuse(
            command, {"--gpus-per-node", "--replicate", "--tp", "--reshard", "--batch", "--vary", "--jobs", "--keep"},
            "says how a script is recorded, and " + arguments.words.front()
                + " is recorded: expected a script in place of step files"));
    std::optional<TemporaryFolder> temporary;
    ASSIGN_OR_RETURN(const std::filesystem::path folder, recordingFolder(steps ? "." : arguments.folder, temporary));
    ASSIGN_OR_RETURN(std::vector<ShardRow> rows,
                     steps ? rowsOfSteps(command, arguments) : rowsOfScript(arguments, folder));
    sortRows(rows);
    const ShardRow& best = rows.front();
    if (arguments.torchtitan && best.unknownMesh > 0)
        return badInput("--torchtitan: " + best.step
                        + " does not record the device mesh of the job: name the script, and options to try");
    if (arguments.torchtitan) {
        if (!best.failure.empty() || !best.fits)
            return Error{ErrorKind::infeasible,
                         best.failure.empty() ? "no option fits the card: the least peak is " + formatBytes(best.peak)
                                              : best.failure};
        ASSIGN_OR_RETURN(const StepTracePtr step, readStep(best.step, arguments.times));
        std::cout << "# predicted: peak " << exactBytes(best.peak) << ", step " << formatMs(best.stepMs) << '\n'
                  << torchtitanConfig(step, best);
    } else if (arguments.json) {
        Json list = Json::array();
        for (const ShardRow& row : rows)
            list.push_back(toJson(row));
        printJson({{"rows", std::move(list)}});
    } else {
        print(rows, std::cout);
    }
    return best.failure.empty() && best.fits ? 0 : static_cast<int>(ErrorKind::infeasible);
}

} // namespace

void addShard(CLI::App& program, Action& chosen)
{
    const auto arguments = std::make_shared<ShardArguments>();
    CLI::App* command = addCommand(program, "shard",
                                   "How to lay a model over several cards: what fits, and what is fastest, as a table");
    command->add_flag("-m", arguments->module, "The script is a module, as in `python -m`");
    const auto atLeastOne = CLI::Range(1, 1 << 20).description("");
    command->add_option("--gpus", arguments->choices.cards, "Cards of the whole job")
        ->check(atLeastOne)
        ->type_name("N");
    command->add_option("--gpus-per-node", arguments->choices.perNode, "Cards of a node (default 8)")
        ->check(atLeastOne)
        ->type_name("N");
    const auto addList = [&](const char* name, auto& values, const char* description, const char* type = "N,…") {
        return command->add_option(name, values, description)->delimiter(',')->allow_extra_args(false)->type_name(type);
    };
    addList("--replicate", arguments->choices.replicate, "Degrees of replication to try: HSDP above 1 (default 1)");
    addList("--tp", arguments->choices.tensor, "Degrees of tensor parallelism to try (default 1)");
    addList("--reshard", arguments->reshard, "reshard_after_forward to try: always, never (default always)", "WHAT,…");
    addList("--batch", arguments->choices.batch, "Samples a rank to try (default: the script's own)")
        ->check(atLeastOne);
    command
        ->add_option("--vary", arguments->vary,
                     "Arguments that set the option in the script, with {replicate}, {shard}, {tp}, {reshard} and "
                     "{batch}; torchtitan: the arguments of torchtitan. The variables SHARD_REPLICATE, SHARD_SHARD, "
                     "SHARD_TP, SHARD_RESHARD and SHARD_BATCH are always set")
        ->type_name("ARGUMENTS");
    command->add_option("--jobs", arguments->jobs, "Recordings at once (default: a core and 4 GiB of memory for each)")
        ->type_name("N");
    command->add_option("--keep", arguments->folder, "Folder that keeps the recorded steps")->type_name("FOLDER");
    addTimeArguments(*command, arguments->times);
    addCardArguments(*command, arguments->onCard,
                     "The GPU of each rank, by name, or a size: memory for the caching allocator (default: the GPU of "
                     "the recording)");
    command->add_flag("--torchtitan", arguments->torchtitan,
                      "Print the fastest option that fits as torchtitan's configuration");
    addJsonFlag(*command, arguments->json);
    // The words behind the script are the script's own arguments.
    command->prefix_command();
    command->footer("Behind the options: step files; or a training script with arguments, recorded under each option.");
    command->callback([=, &chosen] {
        arguments->words = command->remaining();
        chosen = [=] { return run(*command, *arguments); };
    });
}

} // namespace headroom::cli
