// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/arguments.h"

#include "app/cli/command.h"
#include "app/cli/table.h"
#include "core/base/try.h"
#include "core/cost/device_specs.h"
#include "core/cost/step_times.h"
#include "core/policy/step_planner.h"
#include "core/profile/import.h"
#include "core/profile/profile_reader.h"
#include "core/trace/step_file.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <limits>
#include <numeric>
#include <set>
#include <string_view>

namespace headroom::cli {

namespace {

/// Returns Levenshtein's distance: the number of characters to replace, insert or delete.
std::size_t editDistance(std::string_view from, std::string_view to)
{
    std::vector<std::size_t> row(to.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= from.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= to.size(); ++j) {
            const std::size_t substituted = diagonal + (from[i - 1] == to[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
        }
    }
    return row.back();
}

template <class Number>
std::optional<Number> parse(std::string_view text)
{
    Number number = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    return problem == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

} // namespace

std::optional<double> parseNumber(std::string_view text)
{
    return parse<double>(text);
}

Result<int> parseInteger(std::string_view option, std::string_view text, int least, int most)
{
    const std::optional<int> number = parse<int>(text);
    if (!number || *number < least || *number > most)
        return badInput(std::string(option) + " `" + std::string(text) + "`: expected a whole number from "
                        + std::to_string(least) + " to " + std::to_string(most));
    return *number;
}

Result<double> parseFraction(std::string_view option, std::string_view text)
{
    const std::optional<double> number = parse<double>(text);
    if (!number || !(*number >= 0 && *number <= 1)) // NaN is refused, too
        return badInput(std::string(option) + " `" + std::string(text)
                        + "`: expected a share from 0 (keep nothing) to 1 (keep everything), as 0.5");
    return *number;
}

Result<ModuleId> findModule(const StepTrace& trace, std::string_view fqn)
{
    std::vector<std::string_view> known;
    for (std::uint32_t module = 0; module < trace.modules.size(); ++module) {
        known.push_back(trace.moduleFqn(ModuleId(module)));
        if (known.back() == fqn)
            return ModuleId(module);
    }
    std::string message = "no module is named `" + std::string(fqn) + "`";
    const auto nearest
        = std::ranges::min_element(known, {}, [&](std::string_view name) { return editDistance(fqn, name); });
    if (nearest != known.end())
        message += "; the nearest name is `" + std::string(*nearest) + "`";
    return badInput(message + "; `torch-headroom modules` lists all names");
}

bool isAny(std::span<const std::string> files, bool (*kind)(const std::filesystem::path&))
{
    return std::ranges::any_of(files, [&](const std::string& file) {
        std::error_code ignored;
        return !file.empty() && (kind(file) || !std::filesystem::exists(file, ignored));
    });
}

void needsOneOf(CLI::Option* option, const std::vector<CLI::Option*>& others)
{
    std::string names;
    for (const CLI::Option* other : others)
        names += (names.empty() ? "" : " or ") + other->get_name();
    // CLI11 checks values when all words are read.
    option->check([others, names](const std::string&) {
        const bool has = std::ranges::any_of(others, [](const CLI::Option* other) { return other->count() > 0; });
        return has ? std::string() : "would be ignored without " + names;
    });
}

Status refuse(const CLI::App& command, std::initializer_list<const char*> options, const std::string& why)
{
    for (const char* option : options)
        if (command.get_option(option)->count() > 0)
            return badInput(std::string(option) + ' ' + why);
    return {};
}

void addTimeArguments(CLI::App& command, TimeChoice& choice, bool withCard)
{
    static const std::map<std::string, TimeModel> models{{"kernel", TimeModel::kernel},
                                                         {"roofline", TimeModel::roofline}};
    command
        .add_option_function<std::string>(
            "--time-model", [&choice](const std::string& name) { choice.model = models.at(name); },
            std::string("Who says how long an op takes: kernel, what kernels reach on real cards; roofline, PyTorch's "
                        "RuntimeEstimator (default: ")
                + std::string(timeModelName(choice.model)) + ")")
        ->check(CLI::IsMember({"kernel", "roofline"}))
        ->type_name("kernel|roofline");
    if (withCard) {
        command.add_option("--gpu", choice.gpu, "Card for the times of ops (default: the card of the recording)")
            ->transform(gpuName)
            ->type_name("NAME");
        command
            .add_option("--topology", choice.topology,
                        "How the GPUs of a distributed step are connected, for the time of collectives: a name, or a "
                        "file from `torch-headroom calibrate` (default: as the card is mostly sold)")
            ->type_name("NAME|FILE");
    }
    command
        .add_option("--calibration", choice.calibration,
                    "Measured times of ops: auto (default), what `torch-headroom calibrate` learned of the card; none; "
                    "or a file")
        ->type_name("auto|none|FILE");
}

void excludeTimes(CLI::App& command, CLI::Option* document)
{
    for (const char* option : {"--time-model", "--gpu", "--topology", "--calibration"})
        command.get_option(option)->excludes(document);
}

CLI::Option* addCardArguments(CLI::App& command, CardArguments& arguments, const std::string& description)
{
    CLI::Option* card
        = command.add_option("--card", arguments.card, description)->transform(gpuName)->type_name("NAME|SIZE");
    command
        .add_option("--settings", arguments.settings,
                    "--card: as in PYTORCH_CUDA_ALLOC_CONF (default: the recorded program's)")
        ->needs(card)
        ->type_name("KEY:VALUE,…");
    command.add_option("--margin", arguments.margin, "--card: memory to leave free (default: none)")
        ->needs(card)
        ->type_name("SIZE");
    return card;
}

Result<std::optional<Card>> cardOf(const CardArguments& arguments, const StepTrace& step)
{
    if (arguments.card.empty())
        return std::optional<Card>();
    ASSIGN_OR_RETURN(Card card, cardFor(arguments.card, step, arguments.settings));
    if (!arguments.margin.empty()) {
        const Result<Bytes> margin = parseBytes(arguments.margin);
        if (!margin)
            return badInput("--margin: " + margin.error().message);
        if (*margin >= card.given())
            return badInput("--margin " + arguments.margin + " leaves nothing of the card, which gives "
                            + formatBytes(card.given()) + " for the allocator: expected less");
        card.margin = *margin;
    }
    return std::optional<Card>(std::move(card));
}

void printAssumptions(std::span<const std::string> sentences, std::ostream& out)
{
    std::set<std::string_view> printed;
    for (const std::string& sentence : sentences)
        if (printed.insert(sentence).second)
            out << "Assumed       " << sentence << '\n';
}

std::string runCell(const CardRun& run)
{
    return run.runs ? formatBytes(run.left) + " left" : "out of memory";
}

void addMeasuredArgument(CLI::App& command, std::string& file)
{
    command
        .add_option("--measured", file,
                    "A measured step, a memory snapshot or a trace of torch.profiler to lay beside the step")
        ->type_name("FILE");
}

void addProfileArgument(CLI::App& command, std::string& step)
{
    command
        .add_option("--profile-step", step,
                    "Of a trace of torch.profiler the step ProfilerStep#N, or, without such labels, the N-th (default: "
                    "the last whole step)")
        ->type_name("N");
}

Result<ProfileRequest> profileRequest(const std::string& step, std::initializer_list<std::string> files)
{
    ProfileRequest request;
    if (step.empty())
        return request;
    ASSIGN_OR_RETURN(request.step, parseInteger("--profile-step", step, 0, std::numeric_limits<int>::max()));
    if (!isAny(files, isProfileFile))
        return badInput("--profile-step chooses a step of a trace of torch.profiler: expected such a trace");
    return request;
}

void addSnapshotArguments(CLI::App& command, SnapshotArguments& arguments)
{
    command.add_option("--device", arguments.device, "GPU of the snapshot (default: the GPU with most events)");
    command.add_option("--from", arguments.from, "Begin so many ms after the snapshot's first event");
    command.add_option("--to", arguments.to, "End so many ms after the snapshot's first event");
}

Result<ImportRequest> importRequest(const SnapshotArguments& arguments, std::initializer_list<std::string> files)
{
    ImportRequest request;
    if (!arguments.device.empty()) {
        ASSIGN_OR_RETURN(const int device, parseInteger("--device", arguments.device, 0, 4095));
        request.device = static_cast<std::size_t>(device);
    }
    for (const auto& [option, text, ms] :
         {std::tuple{"--from", &arguments.from, &request.range.fromMs}, {"--to", &arguments.to, &request.range.toMs}}) {
        if (text->empty())
            continue;
        const std::optional<double> number = parseNumber(*text);
        if (!number || !std::isfinite(*number) || *number < 0)
            return badInput(std::string(option) + " `" + *text
                            + "`: expected a number of milliseconds, 0 or more, from the first event");
        *ms = *number;
    }
    if (arguments.any() && !isAny(files, isSnapshotFile))
        return badInput("--device, --from and --to choose a part of a memory snapshot: expected a snapshot");
    return request;
}

Result<StepTracePtr> readStep(const std::string& file, const TimeChoice& times, StepKind kind,
                              const ProfileRequest& profile)
{
    ASSIGN_OR_RETURN(StepTracePtr step,
                     kind == StepKind::recorded       ? readStepTrace(file)
                         : kind == StepKind::snapshot ? readStepOrSnapshot(file)
                                                      : readMeasured(file, profile));
    if (!times.topology.empty() && !step->info.distributed)
        return badInput("--topology would be ignored, since " + file
                        + " is of a single process: expected a step of a distributed job (record --nproc-per-node)");
    return withTimesOf(std::move(step), file, times);
}

Result<StepTracePtr> withTimesOf(StepTracePtr step, const std::string& file, const TimeChoice& times)
{
    Result<TimedStep> timed = withTimes(std::move(step), times);
    if (!timed)
        return badInput(file + ": " + timed.error().message);
    if (timed->times.calibrated)
        std::cerr << "torch-headroom: note: times were measured on " << timed->times.gpu << ", of "
                  << timed->times.file.string() << '\n';
    else if (timed->step->info.cpuFactor > 0)
        std::cerr << "torch-headroom: note: the CPU's time was measured beside " << timed->times.gpu << ", of "
                  << timed->times.file.string() << '\n';
    return timed->step;
}

void addPlanArguments(CLI::App& command, PlanArguments& arguments)
{
    command.add_option("step", arguments.stepFile, "Step file of `torch-headroom record`");
    CLI::Option* document = command.add_option("--module-info", arguments.moduleInfoFile,
                                               "ModuleInfo document in place of a step file, PyTorch's own included");
    command.add_option("--formulation", arguments.formulation,
                       "exact (default): memory is everything on the device, optimizer state included; each plan was "
                       "predicted on the step and fits to the byte. piecewise: PyTorch's sac_milp, solved to its "
                       "optimum; the only formulation for a ModuleInfo document");
    command.add_option("--world-size", arguments.worldSize,
                       "Number of ranks over which FSDP shards parameters (default 1)");
    const auto addNames = [&](const char* option, std::vector<std::string>& names, const char* description) {
        // A single name for each option: otherwise `--ac-unit NAME step.hrs` would take the file for a name.
        return command.add_option(option, names, description)->allow_extra_args(false)->type_name("FQN");
    };
    addNames("--ac-unit", arguments.acUnits, "Only these modules may be checkpointed (default: any with children)");
    addNames("--fsdp-unit", arguments.fsdpUnits, "Modules that FSDP shards (default: the root)");
    CLI::Option* pin
        = addNames("--pin", arguments.pins, "FQN=save, FQN=recompute or FQN=offload: decides for a module");
    CLI::Option* offload = addOffloadArguments(
        command, arguments.toHost,
        "Saved tensors may also go to pinned host memory, and come back in time for backward", {pin});
    command
        .add_flag("--no-recompute", arguments.noRecompute,
                  "With --offload: recompute only modules with --pin FQN=recompute")
        ->needs(offload);
    addTimeArguments(command, arguments.times);
    excludeTimes(command, document);
    addJsonFlag(command, arguments.json);
}

bool plansExactly(const PlanArguments& arguments)
{
    return arguments.moduleInfoFile.empty() && arguments.formulation != "piecewise";
}

std::string countedMemory(bool exact)
{
    return exact ? "everything on the device, optimizer state included"
                 : "parameters, gradients and activations, as PyTorch's sac_milp does";
}

std::string ownCheckpoints(double ms, const std::string& lineEnd)
{
    return "the script's own checkpoints: " + formatMs(ms) + " of recomputation that stays in the step." + lineEnd
        + "To let the plan choose freely, turn checkpoints off in the script (gradient_checkpointing) and record"
        + lineEnd + "again; torch-headroom record --without-checkpointing train.py shows what would be possible.";
}

CLI::Option* addOffloadArguments(CLI::App& command, OffloadArguments& arguments, const std::string& description,
                                 std::vector<CLI::Option*> others)
{
    CLI::Option* offload = command.add_flag("--offload", arguments.offload, description);
    command
        .add_option("--host-memory", arguments.hostMemory, "The most pinned host memory for --offload; default: any")
        ->type_name("SIZE")
        ->needs(offload);
    others.insert(others.begin(), offload);
    needsOneOf(command
                   .add_option("--host-bandwidth", arguments.hostBandwidth,
                               "GB/s of copies to and from pinned host memory; default: of the GPU, from "
                               "resources/devices.json")
                   ->type_name("TO[,FROM]"),
               others);
    return offload;
}

Result<Bytes> hostMemoryOf(const OffloadArguments& arguments)
{
    if (arguments.hostMemory.empty())
        return 0;
    const Result<Bytes> host = parseBytes(arguments.hostMemory);
    if (!host)
        return badInput("--host-memory " + host.error().message);
    if (*host == 0)
        return badInput("--host-memory " + arguments.hostMemory + ": expected at least 1 B");
    return host;
}

Result<StepTracePtr> withHostBandwidth(const StepTracePtr& step, const OffloadArguments& arguments)
{
    const std::string& text = arguments.hostBandwidth;
    if (text.empty())
        return step;
    const std::size_t comma = text.find(',');
    const double to = parseNumber(std::string_view(text).substr(0, comma)).value_or(0);
    const double from
        = comma == std::string::npos ? to : parseNumber(std::string_view(text).substr(comma + 1)).value_or(0);
    if (!std::isfinite(to) || !std::isfinite(from) || to <= 0 || from <= 0)
        return badInput("--host-bandwidth `" + text
                        + "`: expected GB/s of copies to the host, and after a comma of copies from there, as 53 or "
                          "170,416");
    const auto own = std::make_shared<StepTrace>(*step);
    own->info.toHost = to;
    own->info.fromHost = from;
    return StepTracePtr(own);
}

Result<PlanSource> readPlanSource(const PlanArguments& arguments)
{
    if (!arguments.formulation.empty() && arguments.formulation != "exact" && arguments.formulation != "piecewise")
        return badInput("--formulation `" + arguments.formulation + "`: expected `exact` or `piecewise`");
    if (arguments.stepFile.empty() == arguments.moduleInfoFile.empty())
        return badInput("expected either a step file or --module-info FILE.json");
    if (arguments.formulation == "exact" && arguments.stepFile.empty())
        return badInput("--formulation exact predicts on a recorded step: expected a step file in place of "
                        "--module-info");
    PlanSource source;
    if (!arguments.moduleInfoFile.empty()) {
        ASSIGN_OR_RETURN(ModuleInfo info, readModuleInfo(arguments.moduleInfoFile));
        source.info = std::make_shared<const ModuleInfo>(std::move(info));
        return source;
    }
    ASSIGN_OR_RETURN(StepTracePtr trace, readStep(arguments.stepFile, arguments.times));
    ASSIGN_OR_RETURN(trace, withHostBandwidth(trace, arguments.toHost));
    if (const Status can = plannable(*trace); !can && (plansExactly(arguments) || !trace->info.measured))
        return badInput(arguments.stepFile + ": " + can.error().message);
    const auto& job = trace->info.distributed;
    if (job && arguments.worldSize != "1" && arguments.worldSize != std::to_string(job->worldSize))
        return badInput(arguments.stepFile + " was recorded in a job of " + std::to_string(job->worldSize)
                        + " ranks, and --world-size cannot change that: record the job again with --nproc-per-node and "
                          "--nnodes for "
                        + arguments.worldSize);
    ASSIGN_OR_RETURN(ModuleInfo info, modulesToPlan(StepModel(trace)));
    source.trace = std::move(trace);
    source.info = std::make_shared<const ModuleInfo>(std::move(info));
    return source;
}

PlanRequest asRecorded(PlanRequest request, const PlanSource& source)
{
    if (source.trace && source.trace->info.distributed)
        request.worldSize = 1;
    return request;
}

Result<PlanRequest> planRequest(const PlanArguments& arguments)
{
    PlanRequest request;
    ASSIGN_OR_RETURN(request.worldSize, parseInteger("--world-size", arguments.worldSize, 1, 1 << 20));
    request.acUnits = arguments.acUnits;
    request.fsdpUnits = arguments.fsdpUnits;
    ASSIGN_OR_RETURN(request.pins, parsePins(arguments.pins));
    request.offload = arguments.toHost.offload;
    request.recompute = !arguments.noRecompute;
    ASSIGN_OR_RETURN(request.hostMemory, hostMemoryOf(arguments.toHost));
    if (!arguments.toHost.hostBandwidth.empty() && !request.mayOffload())
        return badInput("--host-bandwidth would be ignored without --offload or a pin FQN=offload");
    if (request.mayOffload() && (!plansExactly(arguments) || request.worldSize > 1))
        return badInput("--offload and --pin FQN=offload need a recorded step, planned to the byte: expected a step "
                        "file, and no --formulation piecewise or --world-size (record a rank of several GPUs with "
                        "--nproc-per-node)");
    return request;
}

} // namespace headroom::cli
