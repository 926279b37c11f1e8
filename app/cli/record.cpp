// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/command.h"

#include <CLI/CLI.hpp>

namespace headroom::cli {

namespace {

// Where headroom-record is there, runCommandLine() has become it before the command line is read; what is left for here
// is the place in --help, and the error.
CLI::App* addOfRecorder(CLI::App& program, Action& chosen, const char* name, const char* description)
{
    CLI::App* command = addCommand(program, name, description);
    command->prefix_command();
    command->callback([&chosen] {
        chosen = [] {
            return Error{ErrorKind::internal,
                         "headroom-record is not beside this program: build it with HEADROOM_RECORDER=ON, or install "
                         "it in the same folder"};
        };
    });
    return command;
}

} // namespace

void addRecord(CLI::App& program, Action& chosen)
{
    addOfRecorder(program, chosen, "record",
                  "Run one training step of a model or a training script and write it to a step file")
        ->footer("A training script: headroom record [--gpu NAME] [--steps N] [-o step.hrs] train.py [its arguments],\n"
                 "which runs python3 -m headroom.record. A model needs headroom-record, which is not installed\n"
                 "beside this program.");
}

void addVerify(CLI::App& program, Action& chosen)
{
    addOfRecorder(program, chosen, "verify",
                  "Run a training step with a policy and compare it with what was predicted (headroom-record)")
        ->footer("The options are those of headroom-record, which is not installed beside this program.");
}

} // namespace headroom::cli
