// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace headroom {

struct WindowOptions;

/// Opens the window and runs until it is closed: runWindow().
using OpenWindow = std::function<int(int& argc, char** argv, const WindowOptions&)>;

/// The program: `torch-headroom [FILE]` opens the window, every subcommand runs without a display. Answers go
/// to stdout, messages to stderr, each error as one line `torch-headroom: …`. Returns the exit code (ErrorKind).
int runCommandLine(int argc, char** argv, const OpenWindow& openWindow);

/// The commands of the program with their options, to be parsed without being run: what documents name is checked by
/// it.
void withCommandLine(const std::function<void(CLI::App&)>& use);

} // namespace headroom
