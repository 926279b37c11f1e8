// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/cli/command_line.h"
#include "core/base/error.h"

#include <nlohmann/json.hpp>

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace headroom::cli {

/// Key order of documents is the contract's, not the alphabet's.
using Json = nlohmann::ordered_json;

/// What a subcommand will do once the whole command line was understood. Returns the exit code; an error is printed by
/// the caller, as one line.
using Action = std::function<Result<int>()>;

/// Each subcommand adds itself to the program and, when it is the one named, leaves its action in `chosen`, which must
/// outlive `program`.
void addInfo(CLI::App& program, Action& chosen);
void addModules(CLI::App& program, Action& chosen);
void addOps(CLI::App& program, Action& chosen);
void addPlan(CLI::App& program, Action& chosen);
void addFrontier(CLI::App& program, Action& chosen);
void addOpsPlan(CLI::App& program, Action& chosen);
void addOpsFrontier(CLI::App& program, Action& chosen);
void addOpPolicy(CLI::App& program, Action& chosen);
void addExport(CLI::App& program, Action& chosen);
void addCalibrate(CLI::App& program, Action& chosen);
void addImport(CLI::App& program, Action& chosen);
void addAllocator(CLI::App& program, Action& chosen);
void addRecord(CLI::App& program, Action& chosen);
void addVerify(CLI::App& program, Action& chosen);
void addShard(CLI::App& program, Action& chosen);
void addDoctor(CLI::App& program, Action& chosen);
void addScreenshot(CLI::App& program, Action& chosen, const OpenWindow& openWindow);

/// A subcommand with --help and --version, which every level of the program has.
CLI::App* addCommand(CLI::App& program, const std::string& name, const std::string& description);

/// Prints one document on stdout. Text that is not UTF-8 (a file name) is shown with replacement characters.
void printJson(const Json& document);

/// Prints `torch-headroom: MESSAGE` on stderr, line ends taken out.
void printError(const std::string& message);

} // namespace headroom::cli
