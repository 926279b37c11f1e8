// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/cli/command_line.h"
#include "core/base/error.h"

#include <nlohmann/json.hpp>

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace headroom::cli {

/// JSON output, with keys in the order of insertion.
using Json = nlohmann::ordered_json;

/// The function of a subcommand, called after the whole command line was parsed. Returns the exit code; the caller
/// prints an error as a single line.
using Action = std::function<Result<int>()>;

/// Each function adds a subcommand to the program. If the command line names the subcommand, parsing sets `chosen` to
/// the subcommand's action. `chosen` must outlive `program`.
void addInfo(CLI::App& program, Action& chosen);
void addModules(CLI::App& program, Action& chosen);
void addOps(CLI::App& program, Action& chosen);
void addPlan(CLI::App& program, Action& chosen);
void addFrontier(CLI::App& program, Action& chosen);
void addOpsPlan(CLI::App& program, Action& chosen);
void addOpsFrontier(CLI::App& program, Action& chosen);
void addOpPolicy(CLI::App& program, Action& chosen);
void addCompare(CLI::App& program, Action& chosen);
void addExport(CLI::App& program, Action& chosen);
void addCalibrate(CLI::App& program, Action& chosen);
void addImport(CLI::App& program, Action& chosen);
void addAllocator(CLI::App& program, Action& chosen);
void addRecord(CLI::App& program, Action& chosen);
void addVerify(CLI::App& program, Action& chosen);
void addShard(CLI::App& program, Action& chosen);
void addFit(CLI::App& program, Action& chosen);
void addDoctor(CLI::App& program, Action& chosen);
void addReport(CLI::App& program, Action& chosen);
void addScreenshot(CLI::App& program, Action& chosen, const OpenWindow& openWindow);

/// Adds a subcommand with --help and --version.
CLI::App* addCommand(CLI::App& program, const std::string& name, const std::string& description);

/// Adds --json.
void addJsonFlag(CLI::App& command, bool& json);

/// Returns whether `verify` with these arguments is about a recorded step (step.hrs, --executed), in place of a model
/// for torch-headroom-record.
bool comparesSteps(char** arguments);

/// Returns the words behind `torch-headroom fit` in an order that CLI11 reads: fit's options, each one word with its
/// value, and then the program's words. Of the words behind a script, those before the first that is none of fit's
/// options are fit's, unless fit's options stand before the script, too.
std::vector<std::string> fitWords(const std::vector<std::string>& words);

/// Prints JSON on stdout, with replacement characters where text (a file name) is not UTF-8.
void printJson(const Json& document);

/// Prints `torch-headroom: MESSAGE` on stderr, without newlines inside the message.
void printError(const std::string& message);

} // namespace headroom::cli
