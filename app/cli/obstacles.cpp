// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/obstacles.h"

#include <ostream>

namespace headroom::cli {
namespace {

void print(std::span<const Obstacle> modules, const char* title, const char* restriction, const char* others,
           std::ostream& out)
{
    if (modules.empty())
        return;
    out << title << modules.front().module << restriction << modules.front().reason << '\n';
    if (modules.size() > 1)
        out << "              " << modules.size() - 1 << others << "; --json names all.\n";
}

} // namespace

void printNotCheckpointable(std::span<const Obstacle> modules, std::ostream& out)
{
    print(modules, "Left out      ", " cannot be checkpointed: ", " more cannot either", out);
}

void printWholeOnly(std::span<const Obstacle> modules, std::ostream& out)
{
    print(modules, "Whole only    ", " is recomputed as a whole or not at all: ", " more are, too", out);
}

} // namespace headroom::cli
