// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/snapshot/import.h"
#include "app/cli/arguments.h"
#include "app/cli/command.h"
#include "app/cli/table.h"
#include "core/base/try.h"
#include "core/predict/predict.h"
#include "core/trace/step_file.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>

namespace headroom::cli {

namespace {

Json toJson(const ImportedSnapshot& imported, const Timeline& timeline, const std::string& output)
{
    Json json;
    json["step"] = output;
    json["device"] = imported.step->info.device;
    json["events"] = imported.history.events.size();
    json["events_in_file"] = imported.snapshot->eventCount;
    json["step_ms"] = timeline.durationMs;
    json["peak_bytes"] = timeline.peak;
    const auto& reserved = imported.step->reserved.bytes;
    json["reserved_peak_bytes"] = reserved.empty() ? 0 : *std::ranges::max_element(reserved);
    json["modules"] = imported.step->modules.size();
    json["settings"] = imported.snapshot->settings;
    return json;
}

void printImport(const Json& json, std::ostream& out)
{
    out << json["step"].get<std::string>() << ": " << json["device"].get<std::string>() << ", "
        << groupedDigits(json["events"].get<std::int64_t>()) << " of "
        << groupedDigits(json["events_in_file"].get<std::int64_t>()) << " events, "
        << formatMs(json["step_ms"].get<double>()) << "\nPeak      " << exactBytes(json["peak_bytes"].get<Bytes>())
        << " in blocks\nReserved  " << exactBytes(json["reserved_peak_bytes"].get<Bytes>()) << " in segments\n";
}

struct ImportArguments
{
    std::string file;
    std::string output;
    SnapshotArguments snapshot;
    bool json = false;
};

Result<int> run(const ImportArguments& arguments)
{
    ASSIGN_OR_RETURN(const ImportRequest request, importRequest(arguments.snapshot, {arguments.file}));
    ASSIGN_OR_RETURN(const ImportedSnapshot imported, importSnapshot(arguments.file, request));
    ASSIGN_OR_RETURN(const Timeline timeline, predict(*imported.step, {}));
    RETURN_IF_ERROR(writeStepTrace(*imported.step, arguments.output));
    const Json json = toJson(imported, timeline, arguments.output);
    if (arguments.json)
        printJson(json);
    else
        printImport(json, std::cout);
    return 0;
}

} // namespace

void addImport(CLI::App& program, Action& chosen)
{
    const auto arguments = std::make_shared<ImportArguments>();
    CLI::App* command
        = addCommand(program, "import", "Make a step file of a memory snapshot (torch.cuda.memory._dump_snapshot)");
    command->add_option("snapshot", arguments->file, "Pickle of a memory snapshot")->required();
    command->add_option("-o,--output", arguments->output, "Step file to write")->required();
    addSnapshotArguments(*command, arguments->snapshot);
    addJsonFlag(*command, arguments->json);
    command->callback([=, &chosen] { chosen = [=] { return run(*arguments); }; });
}

} // namespace headroom::cli
