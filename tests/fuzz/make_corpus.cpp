// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/step_file.h"
#include "tests/core/synthetic_step.h"

#include <cstdio>
#include <filesystem>
#include <string>

/// Writes small steps into the folder that is named: where fuzzing starts.
int main(int argc, char** argv)
{
    using namespace headroom;
    if (argc != 2) {
        std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    std::filesystem::create_directories(argv[1]);
    for (int blocks = 0; blocks < 3; ++blocks) {
        SyntheticOptions options;
        options.blocks = blocks;
        options.elementwise = blocks;
        const auto path = std::filesystem::path(argv[1]) / ("step" + std::to_string(blocks) + ".hrs");
        if (const Status status = writeStepTrace(*makeSyntheticStep(options), path); !status) {
            std::fprintf(stderr, "%s\n", status.error().message.c_str());
            return 1;
        }
    }
    return 0;
}
