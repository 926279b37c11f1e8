// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/cli/command.h"
#include "core/timeline/live_tree.h"
#include "core/timeline/range_summary.h"

#include <iosfwd>
#include <optional>
#include <string>

namespace headroom::cli {

/// A range of a step's time, as given.
struct RangeArguments
{
    std::string from; ///< ms since the step began; empty: the step's begin
    std::string to; ///< empty: the step's end
};
/// Adds --from MS and --to MS; `what` is the begin of the descriptions.
void addRangeArguments(CLI::App& command, RangeArguments& arguments, const std::string& what);
/// Returns the range; nullopt: neither option is given. Error (badInput): no such times, a range that is empty or
/// reaches beyond the step; the sentence has the step's end.
Result<std::optional<TimeRange>> rangeOf(const RangeArguments& arguments, const Timeline& timeline);
/// Returns the sums, and the bytes made by module and by line.
Json rangeJson(const StepTrace& trace, const RangeSummary& summary);
void printRange(const StepTrace& trace, const RangeSummary& summary, std::ostream& out);

/// The memory that a step holds at an instant.
struct LiveSet
{
    double ms = 0; ///< since the step began
    bool isPeak = false;
    CategoryBytes bytes{};
    std::vector<ModuleHolding> modules;
    std::vector<LineHolding> lines; ///< empty for a step without source lines
    std::vector<UnitMemory> units; ///< units of FSDP with unsharded memory at this instant
    bool hasUnits = false; ///< whether the step has units with unsharded memory at any instant
};

LiveSet atPeak(const StepTrace& trace, const Timeline& timeline);
/// Returns the memory at `instant`: "peak", or milliseconds since the step began. Error (badInput): neither, or after
/// the step's end.
Result<LiveSet> atInstant(const StepTrace& trace, const Timeline& timeline, const std::string& instant);

/// Returns bytes by category, module and unit.
Json toJson(const StepTrace& trace, const LiveSet& set);
/// Adds a line of source code to an object: "line", the text, and "frames", the line's frames with "file", "line" and
/// "function"; nothing for SourceLines::none.
void addLine(Json& object, const StepTrace& trace, const SourceLines& lines, std::uint32_t line);
Json linesJson(const StepTrace& trace, const LiveSet& set);
Json unitsJson(const StepTrace& trace, const LiveSet& set);

void print(const StepTrace& trace, const LiveSet& set, std::ostream& out);
/// Prints a table of the lines of source code that hold most; nothing for a step without source lines.
void printLines(const StepTrace& trace, const LiveSet& set, std::ostream& out);
/// Prints a table of FSDP's unsharded memory by unit; nothing for a step without units.
void printUnits(const StepTrace& trace, const LiveSet& set, std::ostream& out);

} // namespace headroom::cli
