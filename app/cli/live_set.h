// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/cli/command.h"
#include "core/timeline/storage_owners.h"

#include <iosfwd>
#include <string>

namespace headroom::cli {

/// What a step holds at one of its instants.
struct LiveSet
{
    double ms = 0;
    bool isPeak = false;
    CategoryBytes bytes{};
    std::vector<ModuleHolding> modules;
    std::vector<UnitMemory> units; ///< none: FSDP has nothing unsharded then
    bool hasUnits = false; ///< anywhere in the step
};

LiveSet atPeak(const StepTrace& trace, const Timeline& timeline);
/// `instant`: "peak", or milliseconds since the step began. Errors (badInput): neither, or after the step's end.
Result<LiveSet> atInstant(const StepTrace& trace, const Timeline& timeline, const std::string& instant);

/// "at": bytes by category, module and unit.
Json toJson(const StepTrace& trace, const LiveSet& set);
Json unitsJson(const StepTrace& trace, const LiveSet& set);

void print(const StepTrace& trace, const LiveSet& set, std::ostream& out);
/// A table of what FSDP has unsharded, by unit; nothing where it has none.
void printUnits(const StepTrace& trace, const LiveSet& set, std::ostream& out);

} // namespace headroom::cli
