// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/cli/command.h"

#include <iosfwd>
#include <span>
#include <string_view>

namespace headroom::cli {

/// A module that no plan may checkpoint, although that would free memory.
struct NotCheckpointable
{
    std::string_view module;
    std::string_view reason;
};

/// A module that a plan recomputes as a whole or not at all, since ops of tensor subclasses run in it.
struct WholeOnly
{
    std::string_view module;
};

/// Prints the first modules, and the number of the others.
void print(std::span<const NotCheckpointable> modules, std::ostream& out);
void print(std::span<const WholeOnly> modules, std::ostream& out);
/// Adds a key with the modules, if there are any.
void addTo(Json& json, std::span<const NotCheckpointable> modules);
void addTo(Json& json, std::span<const WholeOnly> modules);

} // namespace headroom::cli
