// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/cli/command.h"

#include <iosfwd>
#include <span>
#include <string_view>

namespace headroom::cli {

/// A module whose checkpoints are restricted, and why.
struct Obstacle
{
    std::string_view module;
    std::string_view reason;
};

/// The reason of a module that a plan recomputes as a whole or not at all.
inline constexpr std::string_view wholeOnlyReason
    = "ops run inside of tensor subclasses there, where PyTorch's selective checkpointing keeps no single ones";

/// Print the first module, and the number of the others. printNotCheckpointable() is for modules that no plan may
/// checkpoint, although that would free memory.
void printNotCheckpointable(std::span<const Obstacle> modules, std::ostream& out);
void printWholeOnly(std::span<const Obstacle> modules, std::ostream& out);

/// Adds the modules as `key`, if there are any.
void addObstacles(Json& json, const char* key, std::span<const Obstacle> modules);

} // namespace headroom::cli
