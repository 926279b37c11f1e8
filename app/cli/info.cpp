// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/arguments.h"
#include "app/cli/command.h"
#include "app/cli/live_set.h"
#include "app/cli/step_lines.h"
#include "app/cli/table.h"
#include "core/allocator/private_pools.h"
#include "core/allocator/replay.h"
#include "core/base/printable_text.h"
#include "core/base/try.h"
#include "core/compare/peak_side.h"
#include "core/cost/card_memory.h"
#include "core/policy/card.h"
#include "core/policy/causes.h"
#include "core/predict/predict.h"
#include "core/sac/record_summary.h"
#include "core/timeline/timeline.h"
#include "core/trace/out_of_memory.h"
#include "core/trace/phase_times.h"
#include "core/trace/remarks.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <optional>

namespace headroom::cli {

namespace {

/// Returns the op that runs at the peak; invalid: none.
OpId peakOp(const Timeline& timeline)
{
    return timeline.peakChange == Timeline::npos ? OpId() : timeline.changes[timeline.peakChange].op;
}

/// The setting that says how often, and first where, the program decided by a placeholder value.
constexpr std::string_view placeholderDecisions = "invented decisions";

/// Returns whether the script's own checkpoints ran as plain calls in the recording.
bool leavesOutCheckpoints(const StepInfo& info)
{
    return info.setting("checkpointing") == "left out";
}

const char* sourceName(bool isMeasured)
{
    return isMeasured ? "measured" : "replayed";
}

/// Returns the source of bytes of a step that ran on a real device, as the end of a line.
std::string sourceText(const StepTrace& trace, bool isMeasured)
{
    return trace.info.simulated ? std::string() : std::string(" (") + sourceName(isMeasured) + ")";
}

/// The card of the recording.
struct OwnCard
{
    DeviceSpec spec;
    Card card;
    std::optional<CardRun> run; ///< nullopt: the step itself ran on the card
};

/// Returns the card with the run on it; nullopt: the card is unknown, as of a snapshot.
std::optional<OwnCard> ownCard(const StepTrace& trace, const Timeline& timeline, const OwnAllocator& own)
{
    const Result<DeviceSpec> spec = findDeviceSpec(trace.info.gpu);
    if (!spec || trace.info.source == "snapshot")
        return std::nullopt;
    const Result<Card> card = cardFor(*spec, trace, own.leftOut.empty() ? own.settings : std::string());
    if (!card)
        return std::nullopt;
    OwnCard found{*spec, *card, {}};
    if (!own.reservedMeasured)
        found.run = runOnCard(*card, trace, timeline);
    return found;
}

/// Returns what the step needs of the card of the recording; null if the card is unknown.
Json cardJson(const StepTrace& trace, const Timeline& timeline, const OwnAllocator& own,
              const std::optional<OwnCard>& found)
{
    if (!found)
        return nullptr;
    const auto& [spec, card, onCard] = *found;
    const CardMemory memory = cardMemory(spec, trace);
    AllocatorRun run;
    if (!onCard) {
        // The step ran on the card, and the blocks include the workspaces.
        run.stats = own.stats;
        run.mostHeld = own.stats.activePeak;
    } else {
        run = simulateAllocator(trace, timeline, own.rules, card.workspaces);
    }
    const bool fits = !onCard || onCard->runs;
    // The run above knows no capacity; on the card the allocator returns unused segments before the card is full.
    const Bytes reserved
        = onCard && fits ? std::min(run.stats.reservedPeak, card.rules.capacity) : run.stats.reservedPeak;
    return {{"total_bytes", memory.total},
            {"context_bytes", memory.context},
            {"workspace_bytes", memory.workspaces},
            {"communicators", memory.nccl.communicators},
            {"nccl_bytes", memory.nccl.bytes},
            {"convolution_workspace_bytes", card.workspaces.mostDuringAnOp()},
            {"kernel_scratch_bytes", card.workspaces.mostScratch()},
            {"allocated_peak_bytes", run.stats.allocatedPeak},
            {"reserved_peak_bytes", run.stats.reservedPeak},
            {"needed_bytes", run.mostHeld + memory.context + memory.nccl.bytes},
            {"used_bytes", reserved + memory.context + memory.nccl.bytes},
            {"fits", fits}};
}

/// Returns why the step takes its memory.
std::vector<Cause> causes(const StepTrace& trace, const Timeline& timeline, const std::optional<OwnCard>& card)
{
    return causesOf(trace, timeline, card && trace.info.source.empty() ? card->run : std::nullopt);
}

Json toJson(const StepTrace& trace, const Timeline& timeline, const OwnAllocator& allocator)
{
    const StepInstant peak = instantOf(trace, timeline, timeline.peakChange);
    const std::optional<OwnCard> own = ownCard(trace, timeline, allocator);
    Json json;
    json["model"] = trace.info.model;
    json["gpu"] = trace.info.gpu;
    json["device"] = trace.info.device;
    json["torch"] = trace.info.torch;
    json["steps"] = trace.info.steps;
    json["peak_bytes"] = timeline.peak;
    json["remarks"] = remarks(trace);
    json["causes"] = Json::array();
    for (const Cause& cause : causes(trace, timeline, own))
        json["causes"].push_back({{"cause", causeName(cause.kind)},
                                  {"bytes", cause.bytes},
                                  {"sentence", cause.sentence},
                                  {"line", cause.line}});
    json["peak"] = {{"phase", peak.phase}, {"op", peak.op}, {"module", peak.module}, {"instant", peak.ms}};
    const SourceLines lines(trace);
    addLine(json["peak"], trace, lines, lines.lineOf(peakOp(timeline)));
    addAccount(json, trace.info, timeline);
    json["active_peak_bytes"] = allocator.stats.activePeak;
    json["reserved_peak_bytes"] = allocator.stats.reservedPeak;
    if (!trace.info.simulated) {
        json["active_source"] = sourceName(allocator.activeMeasured);
        json["reserved_source"] = sourceName(allocator.reservedMeasured);
    }
    if (const std::string note = noteOnActive(timeline); !note.empty())
        json["active_note"] = note;
    if (!allocator.settings.empty())
        json["allocator_settings"] = allocator.settings;
    if (const Bytes pools = privatePoolBytes(trace.info); pools > 0)
        json["private_pool_bytes"] = pools;
    if (!allocator.leftOut.empty())
        json["allocator_settings_left_out"] = allocator.leftOut;
    if (Json card = cardJson(trace, timeline, allocator, own); !card.is_null())
        json["card"] = std::move(card);
    json["ops"] = trace.ops.size();
    json["step_ms"] = timeline.durationMs;
    json["fallbacks"] = fallbacksJson(trace);
    if (const double ms = recomputedMs(trace); ms > 0)
        json["script_recompute_ms"] = ms;
    if (leavesOutCheckpoints(trace.info))
        json["without_checkpointing"] = true;
    addOutOfMemory(json, trace, trace.ops.ms.rows);
    json["invented_values"] = trace.info.placeholderValues;
    if (const std::string_view decisions = trace.info.setting(placeholderDecisions); !decisions.empty())
        json["invented_decisions"] = decisions;
    return json;
}

std::string inModule(const StepTrace& trace, const OutOfMemory& failure)
{
    const std::string_view module = trace.moduleFqn(trace.ops.module[failure.op]);
    return module.empty() ? std::string() : " in " + printableText(module);
}

/// Prints how the step was recorded.
void printHow(const StepInfo& info, std::ostream& out)
{
    out << printableText(info.model) << ": ";
    if (info.source == "snapshot") {
        out << "memory snapshot of " << info.device << "\n\n";
        return;
    }
    if (info.source == "profile") {
        out << "trace of torch.profiler, " << (info.gpu.empty() ? info.device : info.gpu) << " (measured)\n\n";
        for (const std::string& note : info.measured->notes)
            out << printableText(note) << '\n';
        out << '\n';
        return;
    }
    if (info.batch > 0)
        out << "batch " << info.batch << ", ";
    if (info.sequence > 0)
        out << "sequence " << info.sequence << ", ";
    out << printableText(info.dtype) << ", " << printableText(info.optimizer) << ", " << printableText(info.gpu)
        << (info.simulated ? " (simulated)" : " (measured)") << ", torch " << printableText(info.torch) << ", step "
        << info.steps;
    if (info.distributed)
        out << ", rank " << info.distributed->rank << " of " << info.distributed->worldSize;
    out << "\n\n";
}

void printCategories(const Timeline& timeline, std::ostream& out)
{
    using enum Table::Align;
    std::vector<Table::Heading> headings{{"Bytes", left}, {"at the peak", right}};
    std::vector<CategoryBytes> columns{timeline.atPeak};
    for (const Timeline::Snapshot& snapshot : timeline.snapshots) {
        headings.push_back({std::string(markName(snapshot.mark)), right});
        std::ranges::replace(headings.back().title, '_', ' ');
        columns.push_back(snapshot.bytes);
    }
    Table table(std::move(headings));
    for (std::size_t category = 0; category < categoryCount; ++category) {
        if (std::ranges::all_of(columns, [&](const CategoryBytes& bytes) { return bytes[category] == 0; }))
            continue;
        std::vector<std::string> cells{std::string(categoryName(static_cast<Category>(category)))};
        for (const CategoryBytes& bytes : columns)
            cells.push_back(groupedDigits(bytes[category]));
        table.addRow(std::move(cells));
    }
    std::vector<std::string> totals{"total"};
    for (const CategoryBytes& bytes : columns)
        totals.push_back(groupedDigits(total(bytes)));
    table.addRow(std::move(totals));
    table.print(out);
}

void printCauses(const std::vector<Cause>& causes, std::ostream& out)
{
    for (const Cause& cause : causes) {
        out << "Cause     " << printableText(cause.sentence) << '\n';
        if (!cause.line.empty())
            out << "          at " << cause.line << '\n';
    }
}

void print(const StepTrace& trace, const Timeline& timeline, const OwnAllocator& allocator, const std::string& clock,
           std::ostream& out)
{
    const std::optional<OwnCard> own = ownCard(trace, timeline, allocator);
    const std::vector<Cause> found = causes(trace, timeline, own);
    printCauses(found, out);
    printHow(trace.info, out);
    const StepInstant peak = instantOf(trace, timeline, timeline.peakChange);
    out << "Peak      " << exactBytes(timeline.peak) << " at " << formatMs(peak.ms) << " of "
        << formatMs(timeline.durationMs) << axisNote(trace) << ", " << peak.phase;
    if (!peak.op.empty())
        out << ", " << printableText(peak.op) << " in " << printableText(peak.module);
    if (const std::string line = SourceLines(trace).text(peakOp(timeline)); !line.empty())
        out << "\n          " << line;
    out << "\nActive    " << exactBytes(allocator.stats.activePeak) << " in the caching allocator's blocks"
        << sourceText(trace, allocator.activeMeasured);
    if (const std::string note = noteOnActive(timeline); !note.empty())
        out << " (" << note << ")";
    out << "\nReserved  " << exactBytes(allocator.stats.reservedPeak) << " in segments"
        << sourceText(trace, allocator.reservedMeasured);
    if (const Bytes pools = privatePoolBytes(trace.info); pools > 0)
        out << ", with " << exactBytes(pools) << " in private pools of CUDA graphs";
    if (!allocator.settings.empty() && !allocator.reservedMeasured)
        out << (allocator.leftOut.empty() ? ", with " : ", without ") << "the program's " << allocator.settings
            << (allocator.leftOut.empty() ? "" : ": ") << allocator.leftOut;
    const Json card = cardJson(trace, timeline, allocator, own);
    const std::string nccl
        = card.is_null() ? std::string() : ncclText({card["communicators"], card["nccl_bytes"].get<Bytes>()});
    if (!card.is_null())
        out << "\nCard      " << exactBytes(card["used_bytes"].get<Bytes>()) << " of "
            << formatBytes(card["total_bytes"].get<Bytes>()) << (card["fits"].get<bool>() ? "" : ": out of memory")
            << "\n          " << exactBytes(card["reserved_peak_bytes"].get<Bytes>())
            << " reserved with cuBLAS's workspaces (" << formatBytes(card["workspace_bytes"].get<Bytes>())
            << "), cuDNN's (estimated, at most " << formatBytes(card["convolution_workspace_bytes"].get<Bytes>())
            << ") and kernels' scratch memory (at most " << formatBytes(card["kernel_scratch_bytes"].get<Bytes>())
            << "), CUDA's context (" << formatBytes(card["context_bytes"].get<Bytes>()) << ")"
            << (nccl.empty() ? "" : ", and " + nccl) << "\n          " << exactBytes(card["needed_bytes"].get<Bytes>())
            << " at least, without free blocks of the allocator";
    for (const std::string& remark : remarks(trace))
        if (std::ranges::find(found, remark, &Cause::remark) == found.end())
            out << "\nRemark    " << remark;
    out << "\nOps       " << groupedDigits(static_cast<std::int64_t>(trace.ops.size()));
    if (trace.info.source != "snapshot")
        out << "\nTimes     " << timesTitle(trace.info);
    if (!clock.empty())
        out << "\nStep      " << clock;
    out << "\n\n";
    printCategories(timeline, out);
    if (leavesOutCheckpoints(trace.info))
        out << "\nThe script's own checkpoints were left out (--without-checkpointing).\n";
    if (const double ms = recomputedMs(trace); ms > 0)
        out << "\nA plan starts from " << ownCheckpoints(ms, "\n") << '\n';
    if (const Json fallbacks = fallbacksJson(trace); !fallbacks.empty()) {
        out << "\nThese ops have no simulated kernel; shapes were learned from a run on zeros:\n";
        Table table({{"Op"}, {"Module"}, {"Count", Table::Align::right}});
        for (const Json& fallback : fallbacks)
            table.addRow({fallback["op"].get<std::string>(), fallback["module"].get<std::string>(),
                          groupedDigits(fallback["count"].get<std::int64_t>())});
        table.print(out);
    }
    for (const OutOfMemory& failure : outOfMemoryEvents(trace))
        out << "\nOut of memory at " << formatMs(failure.ms) << inModule(trace, failure) << ". "
            << whyOutOfMemory(trace, failure) << '\n';
    if (trace.info.placeholderValues > 0)
        out << "\nThe model read " << groupedDigits(trace.info.placeholderValues)
            << " placeholder values: a simulated device computes no numbers.\n";
    // Step files of older versions have no remarks.
    const std::string_view decisions = trace.info.setting(placeholderDecisions);
    if (trace.info.remarks.empty() && !decisions.empty())
        out << "The program asked " << decisions
            << " whether something is true; on the card the step may go another way there.\n";
}

struct InfoArguments
{
    std::string file;
    std::string profileStep; ///< of a trace; empty: the last whole step
    TimeChoice times;
    std::string at; ///< an instant; empty: none
    RangeArguments range;
    bool json = false;
};

Result<int> run(const InfoArguments& arguments)
{
    ASSIGN_OR_RETURN(const ProfileRequest profile, profileRequest(arguments.profileStep, {arguments.file}));
    ASSIGN_OR_RETURN(const StepTracePtr read, readStep(arguments.file, arguments.times, StepKind::any, profile));
    const StepTrace& trace = *read;
    ASSIGN_OR_RETURN(const Timeline timeline, predict(trace, {}));
    std::optional<LiveSet> asked;
    if (!arguments.at.empty()) {
        ASSIGN_OR_RETURN(asked, atInstant(trace, timeline, arguments.at));
    }
    ASSIGN_OR_RETURN(const std::optional<TimeRange> range, rangeOf(arguments.range, timeline));
    const std::optional<RangeSummary> inRange
        = range ? std::optional(summaryOf(trace, timeline, *range)) : std::nullopt;
    const LiveSet peak = atPeak(trace, timeline);
    const OwnAllocator allocator = ownAllocator(trace, timeline);
    if (arguments.json) {
        Json document = toJson(trace, timeline, allocator);
        if (!peak.lines.empty())
            document["lines_at_peak"] = linesJson(trace, peak);
        if (peak.hasUnits)
            document["unsharded_at_peak"] = unitsJson(trace, peak);
        if (asked)
            document["at"] = toJson(trace, *asked);
        if (inRange)
            document["range"] = rangeJson(trace, *inRange);
        RETURN_IF_ERROR(addClock(document, trace, {}));
        printJson(document);
        return 0;
    }
    std::string clock;
    if (hasClock(trace)) {
        ASSIGN_OR_RETURN(clock, clockText(trace, {}));
    }
    print(trace, timeline, allocator, clock, std::cout);
    if (inRange)
        printRange(trace, *inRange, std::cout);
    if (asked)
        print(trace, *asked, std::cout);
    else if (!inRange) {
        printLines(trace, peak, std::cout);
        printUnits(trace, peak, std::cout);
    }
    RETURN_IF_ERROR(printCommunication(trace, std::cout));
    return 0;
}

} // namespace

void addInfo(CLI::App& program, Action& chosen)
{
    const auto arguments = std::make_shared<InfoArguments>();
    CLI::App* command
        = addCommand(program, "info", "Where the memory of a recorded step goes: peak, phases, categories");
    command->add_option("step", arguments->file, "Step file")->required();
    command->add_option("--at", arguments->at,
                        "What is held, by module, so many ms after the step began, or at the `peak`");
    addRangeArguments(*command, arguments->range, "Also what is made and freed");
    addProfileArgument(*command, arguments->profileStep);
    addTimeArguments(*command, arguments->times);
    addJsonFlag(*command, arguments->json);
    command->callback([=, &chosen] { chosen = [=] { return run(*arguments); }; });
}

} // namespace headroom::cli
