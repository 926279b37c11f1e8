// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace headroom {

struct WindowOptions;

/// Opens the window and runs until the window is closed: runWindow().
using OpenWindow = std::function<int(int& argc, char** argv, const WindowOptions&)>;

/// Runs the program. `torch-headroom [FILE]` opens the window; subcommands need no display. Results go to stdout,
/// messages to stderr, each error as a single line `torch-headroom: …`. Returns the exit code (ErrorKind).
int runCommandLine(int argc, char** argv, const OpenWindow& openWindow);

/// Calls `use` with the program's commands and options, to parse command lines without running a command. Tests check
/// the manual's commands in this way.
void withCommandLine(const std::function<void(CLI::App&)>& use);

} // namespace headroom
