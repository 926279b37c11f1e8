// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/command.h"
#include "app/cli/table.h"
#include "app/recording/recorder_program.h"
#include "core/base/json_reader.h"

#include <CLI/CLI.hpp>

#include <QCoreApplication>
#include <QProcess>

#include <cstdlib>
#include <glpk.h>
#include <iostream>

namespace headroom::cli {

namespace {

std::string displayName()
{
    const auto given = [](const char* variable) {
        const char* value = std::getenv(variable);
        return value != nullptr && *value != '\0';
    };
    if (given("WAYLAND_DISPLAY"))
        return "wayland";
    return given("DISPLAY") ? "x11" : "";
}

/// Returns the document of `torch-headroom-record doctor --json`; null, and advice, if the recorder does not answer.
Json askRecorder(const std::filesystem::path& recorder, Json& advice)
{
    QProcess process;
    process.start(QString::fromStdString(recorder.string()), {QStringLiteral("doctor"), QStringLiteral("--json")});
    const bool finished = process.waitForFinished(60'000);
    if (finished && process.exitStatus() == QProcess::NormalExit && process.exitCode() == 0) {
        const auto report = json::parse(process.readAllStandardOutput().toStdString(), recorder.string());
        if (report && report->is_object())
            return *report;
    }
    const QByteArray complaint = process.readAllStandardError().trimmed().split('\n').last();
    advice.push_back(
        "torch-headroom-record does not answer"
        + (complaint.isEmpty() ? std::string() : " (" + complaint.toStdString() + ")")
        + ": steps cannot be recorded; run packaging/run.sh to install torch and build torch-headroom-record.");
    return {};
}

Json report()
{
    Json advice = Json::array();
    Json json;
    json["headroom"] = HEADROOM_VERSION;
    json["qt"] = qVersion();
    json["glpk"] = glp_version();
    const std::string display = displayName();
    json["display"] = display.empty() ? Json() : Json(display);
    if (display.empty())
        advice.push_back("No display: every subcommand works; for the window, set DISPLAY or WAYLAND_DISPLAY.");

    const auto recorder = recorderProgram();
    json["recorder"] = recorder ? Json(recorder->string()) : Json();
    Json machine;
    if (recorder)
        machine = askRecorder(*recorder, advice);
    else
        advice.push_back("No torch-headroom-record beside this program: steps cannot be recorded; build Headroom with "
                         "HEADROOM_RECORDER=ON (needs torch).");
    for (const char* key : {"torch", "cuda_driver", "cupti", "confinement"})
        json[key] = machine.is_object() ? machine.value(key, Json()) : Json();
    json["gpus"] = machine.is_object() ? machine.value("gpus", Json::array()) : Json::array();
    if (machine.is_object()) {
        for (const Json& sentence : machine.value("advice", Json::array()))
            advice.push_back(sentence);
    }
    json["advice"] = std::move(advice);
    return json;
}

void printReport(const Json& report, std::ostream& out)
{
    for (const auto& [title, key] : {std::pair{"Headroom     ", "headroom"},
                                     {"Qt           ", "qt"},
                                     {"GLPK         ", "glpk"},
                                     {"Display      ", "display"},
                                     {"Recorder     ", "recorder"},
                                     {"torch        ", "torch"},
                                     {"CUDA driver  ", "cuda_driver"},
                                     {"CUPTI        ", "cupti"},
                                     {"Confinement  ", "confinement"}}) {
        const Json& value = report[key];
        out << title << (value.is_null() ? "not there" : value.get<std::string>()) << '\n';
    }
    if (report["gpus"].empty())
        out << "GPU          none\n";
    for (const Json& gpu : report["gpus"])
        out << "GPU          " << gpu.value("name", "") << ", " << exactBytes(gpu.value("memory_bytes", Bytes{0}))
            << '\n';
    if (report["advice"].empty())
        out << "\nNothing is missing.\n";
    else
        out << '\n';
    for (const Json& sentence : report["advice"])
        out << sentence.get<std::string>() << '\n';
}

Result<int> run(bool json)
{
    // QProcess needs an application object.
    int count = 0;
    char* none = nullptr;
    const QCoreApplication application(count, &none);
    const Json found = report();
    if (json)
        printJson(found);
    else
        printReport(found, std::cout);
    return 0;
}

} // namespace

void addDoctor(CLI::App& program, Action& chosen)
{
    const auto json = std::make_shared<bool>(false);
    CLI::App* command
        = addCommand(program, "doctor", "What this machine has, and what to do about each thing that is missing");
    addJsonFlag(*command, *json);
    command->callback([=, &chosen] { chosen = [=] { return run(*json); }; });
}

} // namespace headroom::cli
