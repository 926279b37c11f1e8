// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/command.h"
#include "app/recording/recorder_program.h"

#include <CLI/CLI.hpp>

namespace headroom::cli {

// Where torch-headroom-record is there, runCommandLine() has become it before the command line is read; what is left
// for here is the place in --help, and the error.
void addRecord(CLI::App& program, Action& chosen)
{
    CLI::App* command = addCommand(program, "record",
                                   "Run one training step of a model or a training script and write it to a step file");
    command->prefix_command();
    command->callback([&chosen] { chosen = [] { return Error{ErrorKind::internal, missingRecorder}; }; });
    command->footer(
        "A training script: torch-headroom record [--gpu NAME] [--steps N] [-o step.hrs] train.py [its arguments],\n"
        "which runs python3 -m torch_headroom.record. A model needs torch-headroom-record, which is not installed\n"
        "beside this program.");
}

} // namespace headroom::cli
