// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/cli/command.h"

#include <iosfwd>
#include <span>
#include <string_view>

namespace headroom::cli {

/// A module that no plan may checkpoint, although it has something to give.
struct NotCheckpointable
{
    std::string_view module;
    std::string_view reason;
};

/// A module that a plan recomputes as a whole or not at all: ops run inside of tensor subclasses there.
struct WholeOnly
{
    std::string_view module;
};

/// The first of them, and how many more there are.
void print(std::span<const NotCheckpointable> modules, std::ostream& out);
void print(std::span<const WholeOnly> modules, std::ostream& out);
/// A key of the answer that is there when there are some.
void addTo(Json& json, std::span<const NotCheckpointable> modules);
void addTo(Json& json, std::span<const WholeOnly> modules);

} // namespace headroom::cli
