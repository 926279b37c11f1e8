// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/arguments.h"
#include "app/cli/command.h"
#include "app/cli/table.h"
#include "core/allocator/replay.h"
#include "core/base/atomic_write.h"
#include "core/base/printable_text.h"
#include "core/base/try.h"
#include "core/policy/card.h"
#include "core/predict/predict.h"
#include "core/snapshot/import.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <optional>

namespace headroom::cli {

namespace {

struct AllocatorArguments
{
    std::string file;
    std::string settings;
    bool settingsGiven = false;
    std::string gpu;
    std::string capacity;
    std::string output;
    TimeChoice times;
    SnapshotArguments snapshot;
    bool json = false;
};

/// A step, and the snapshot that the step was read from, if any.
struct Source
{
    StepTracePtr step;
    std::optional<ImportedSnapshot> snapshot;
};

Result<Source> readSource(const AllocatorArguments& arguments)
{
    ASSIGN_OR_RETURN(const ImportRequest request, importRequest(arguments.snapshot, {arguments.file}));
    if (isSnapshotFile(arguments.file)) {
        ASSIGN_OR_RETURN(ImportedSnapshot imported, importSnapshot(arguments.file, request));
        ASSIGN_OR_RETURN(StepTracePtr step, withTimesOf(imported.step, arguments.file, arguments.times));
        return Source{std::move(step), std::move(imported)};
    }
    ASSIGN_OR_RETURN(StepTracePtr step, readStep(arguments.file, arguments.times, StepKind::snapshot));
    return Source{std::move(step), std::nullopt};
}

/// The card of --gpu, or a card without name and workspaces, with the memory of --capacity if given.
Result<Card> cardOf(const AllocatorArguments& arguments, const StepTrace& step)
{
    const std::string settings = arguments.settingsGiven ? arguments.settings : recordedAllocatorSettings(step.info);
    Card card;
    if (arguments.gpu.empty()) {
        ASSIGN_OR_RETURN(card.rules, withAllocatorSettings({}, settings));
    } else {
        ASSIGN_OR_RETURN(const DeviceSpec gpu, findDeviceSpec(arguments.gpu));
        ASSIGN_OR_RETURN(card, cardFor(gpu, step, settings));
    }
    if (!arguments.capacity.empty()) {
        const Result<Bytes> capacity = parseBytes(arguments.capacity);
        if (!capacity)
            return badInput("--capacity: " + capacity.error().message);
        if (*capacity == 0)
            return badInput("--capacity 0: expected more than no memory");
        if (*capacity <= card.workspaces.keptBytes())
            return badInput("--capacity " + arguments.capacity
                            + " leaves nothing for tensors: cuBLAS's workspaces take "
                            + formatBytes(card.workspaces.keptBytes()) + "; expected more");
        card.rules.capacity = *capacity;
    }
    return card;
}

Json recordedJson(const ImportedSnapshot& imported)
{
    const SnapshotReplay replay = replaySnapshot(imported.history);
    Json json;
    json["settings"] = imported.snapshot->settings;
    json["reserved_peak_bytes"] = replay.recordedPeak;
    json["events"] = replay.events;
    json["same_reserved"] = replay.sameReserved;
    json["allocations"] = replay.allocations;
    json["same_address"] = replay.samePlace;
    return json;
}

Json toJson(const Source& source, const Card& card, const AllocatorRun& run, const std::string& note)
{
    const AllocatorSample& peak = run.atPeak;
    const AllocatorRules& rules = card.rules;
    Json json;
    json["settings"] = allocatorSettings(rules);
    json["capacity_bytes"] = rules.capacity - card.workspaces.keptBytes(); // for tensors
    json["requested_peak_bytes"] = run.stats.requestedPeak;
    json["allocated_peak_bytes"] = run.stats.allocatedPeak;
    json["active_peak_bytes"] = run.stats.activePeak;
    json["reserved_peak_bytes"] = run.stats.reservedPeak;
    json["at_reserved_peak"] = {{"requested", peak.requested},
                                {"allocated", peak.allocated},
                                {"active", peak.active},
                                {"reserved", peak.reserved},
                                {"inactive_split", peak.inactiveSplit}};
    if (!card.name.empty()) {
        json["workspace_bytes"] = card.workspaces.keptBytes();
        json["convolution_workspace_bytes"] = card.workspaces.mostDuringAnOp();
        json["kernel_scratch_bytes"] = card.workspaces.mostScratch();
    }
    json["segments"] = run.stats.segments;
    json["retries"] = run.stats.retries;
    json["out_of_memory"] = run.failure ? outOfMemoryJson(*source.step, *run.failure) : Json();
    json["recorded"] = source.snapshot ? recordedJson(*source.snapshot) : Json();
    if (!note.empty())
        json["active_note"] = note;
    return json;
}

void printAllocator(const Json& json, std::ostream& out)
{
    const auto bytes = [&](const char* key) { return exactBytes(json[key].get<Bytes>()); };
    const auto text = json["settings"].get<std::string>();
    out << "Settings    " << (text.empty() ? "PyTorch's defaults" : text) << '\n';
    if (json["capacity_bytes"].get<Bytes>() > 0)
        out << "Device      " << bytes("capacity_bytes") << '\n';
    if (json.contains("workspace_bytes"))
        out << "Workspaces  " << bytes("workspace_bytes") << " of cuBLAS; cuDNN's take at most "
            << formatBytes(json["convolution_workspace_bytes"].get<Bytes>())
            << " (estimated), kernels' scratch memory at most "
            << formatBytes(json["kernel_scratch_bytes"].get<Bytes>()) << '\n';
    const Json& peak = json["at_reserved_peak"];
    out << "Requested   " << bytes("requested_peak_bytes") << " at most\nAllocated   " << bytes("allocated_peak_bytes")
        << " in blocks\nActive      " << bytes("active_peak_bytes")
        << (json.contains("active_note") ? " (" + json["active_note"].get<std::string>() + ")" : std::string())
        << "\nReserved    " << bytes("reserved_peak_bytes") << " in segments\nUnused then "
        << exactBytes(peak["reserved"].get<Bytes>() - peak["active"].get<Bytes>()) << ", of which "
        << formatBytes(peak["inactive_split"].get<Bytes>()) << " lie in segments in use (fragmentation)\n";
    if (json["retries"].get<std::int64_t>() > 0)
        out << "Retries     " << json["retries"] << " times the device was full, and unused segments went back\n";
    if (const Json& recorded = json["recorded"]; !recorded.is_null())
        out << "Recorded    " << exactBytes(recorded["reserved_peak_bytes"].get<Bytes>())
            << " reserved; the simulation has the recorded bytes after "
            << groupedDigits(recorded["same_reserved"].get<std::int64_t>()) << " of "
            << groupedDigits(recorded["events"].get<std::int64_t>()) << " events\n";
    if (const Json& failure = json["out_of_memory"]; !failure.is_null())
        out << "Does not fit: " << printableText(failure["reason"].get<std::string>()) << '\n';
}

/// Returns a line for each change of memory.
std::string samplesCsv(const Timeline& timeline, const AllocatorRun& run)
{
    std::string csv = "ms,requested_bytes,allocated_bytes,active_bytes,reserved_bytes,inactive_split_bytes\r\n";
    const auto add = [&](double ms, const AllocatorSample& sample) {
        char instant[48];
        std::snprintf(instant, sizeof(instant), "%.6f", ms);
        csv += instant;
        for (const Bytes bytes :
             {sample.requested, sample.allocated, sample.active, sample.reserved, sample.inactiveSplit})
            csv += "," + std::to_string(bytes);
        csv += "\r\n";
    };
    add(0, run.start);
    for (std::size_t i = 0; i < run.samples.size(); ++i)
        add(timeline.changes[i].ms, run.samples[i]);
    return csv;
}

Result<int> run(const AllocatorArguments& arguments)
{
    ASSIGN_OR_RETURN(const Source source, readSource(arguments));
    ASSIGN_OR_RETURN(const Card card, cardOf(arguments, *source.step));
    ASSIGN_OR_RETURN(const Timeline timeline, predict(*source.step, {}));
    const AllocatorRun result = simulateAllocator(*source.step, timeline, card.rules, card.workspaces);
    if (!arguments.output.empty()) {
        RETURN_IF_ERROR(writeAtomically(arguments.output, samplesCsv(timeline, result)));
    }
    const Json json = toJson(source, card, result, noteOnActive(timeline));
    if (arguments.json)
        printJson(json);
    else
        printAllocator(json, std::cout);
    if (const std::string note = noteOnRules(card.rules); !note.empty())
        std::cerr << "torch-headroom: note: " << note << '\n';
    return result.failure ? static_cast<int>(ErrorKind::infeasible) : 0;
}

} // namespace

void addAllocator(CLI::App& program, Action& chosen)
{
    const auto arguments = std::make_shared<AllocatorArguments>();
    CLI::App* command = addCommand(
        program, "allocator", "What PyTorch's caching allocator reserves for a step, under settings and on a card");
    command->add_option("step", arguments->file, "Step file, or a memory snapshot")->required();
    CLI::Option* settings = command->add_option("--settings", arguments->settings,
                                                "As in PYTORCH_CUDA_ALLOC_CONF: expandable_segments:True,…");
    command
        ->add_option("--gpu", arguments->gpu, "Card on which the step has to run (`torch-headroom record --gpu list`)")
        ->transform(gpuName);
    command->add_option("--capacity", arguments->capacity,
                        "Memory for the allocator, such as 21GiB; with --gpu, instead of what that card gives");
    command->add_option("-o,--output", arguments->output, "CSV of all bytes over time");
    addSnapshotArguments(*command, arguments->snapshot);
    addTimeArguments(*command, arguments->times, false);
    addJsonFlag(*command, arguments->json);
    command->callback([=, &chosen] {
        arguments->settingsGiven = settings->count() > 0;
        chosen = [=] { return run(*arguments); };
    });
}

} // namespace headroom::cli
