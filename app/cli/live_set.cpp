// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/live_set.h"

#include "app/cli/arguments.h"
#include "app/cli/table.h"
#include "core/base/try.h"
#include "core/timeline/timeline.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <ostream>
#include <span>

namespace headroom::cli {

namespace {

constexpr std::size_t mostRows = 12; ///< of a printed table

/// Returns what is held after the first `count` changes of the timeline.
LiveSet afterChanges(const StepTrace& trace, const Timeline& timeline, std::size_t count, double ms)
{
    const StorageOwners owners(trace);
    const std::vector<LiveBlock> blocks = liveBlocks(trace, timeline, count);
    LiveSet set;
    set.ms = ms;
    for (const LiveBlock& block : blocks)
        set.bytes[static_cast<std::size_t>(block.category)] += block.bytes;
    set.modules = heldByModule(owners, blocks);
    if (hasSourceLines(trace))
        set.lines = heldByLine(SourceLines(trace), blocks);
    if (owners.anyUnit())
        set.units = unshardedByUnit(owners, blocks);
    set.hasUnits = owners.anyUnit();
    return set;
}

std::string nameOf(const StepTrace& trace, ModuleId module)
{
    return module.valid() ? std::string(trace.moduleFqn(module)) : "-";
}

std::string when(const LiveSet& set)
{
    return set.isPeak ? "at the peak" : "at " + formatMs(set.ms);
}

void printRest(std::size_t rows, const char* what, std::ostream& out)
{
    if (rows > mostRows)
        out << "and " << rows - mostRows << ' ' << what << " more: --json has all\n";
}

/// Returns milliseconds since the step began; `absent` without a text. Error (badInput): no time of the step.
Result<double> timeOf(const char* option, const std::string& text, double absent, const Timeline& timeline)
{
    if (text.empty())
        return absent;
    const std::optional<double> ms = parseNumber(text);
    const std::string end = formatNumber(timeline.durationMs, 2);
    if (ms && *ms > timeline.durationMs && formatNumber(*ms, 2) == end)
        return timeline.durationMs; // as printed
    if (!ms || !(*ms >= 0 && *ms <= timeline.durationMs))
        return badInput(std::string(option) + ' ' + text + ": expected milliseconds from 0 to " + end
                        + ", where the step ends");
    return *ms;
}

} // namespace

void addRangeArguments(CLI::App& command, RangeArguments& arguments, const std::string& what)
{
    command.add_option("--from", arguments.from, what + " after so many ms of the step; by default from the begin")
        ->type_name("MS");
    command.add_option("--to", arguments.to, what + " up to so many ms of the step; by default to the end")
        ->type_name("MS");
}

Result<std::optional<TimeRange>> rangeOf(const RangeArguments& arguments, const Timeline& timeline)
{
    if (arguments.from.empty() && arguments.to.empty())
        return std::optional<TimeRange>();
    ASSIGN_OR_RETURN(const double begin, timeOf("--from", arguments.from, 0, timeline));
    ASSIGN_OR_RETURN(const double end, timeOf("--to", arguments.to, timeline.durationMs, timeline));
    if (begin >= end)
        return badInput("The range from " + formatNumber(begin, 2) + " ms to " + formatNumber(end, 2)
                        + " ms is empty: expected --from below --to, and --to at most "
                        + formatNumber(timeline.durationMs, 2) + ", where the step ends");
    return std::optional(TimeRange{begin, end});
}

namespace {

/// Returns rows of bytes made, each with what `name` adds.
template <class Id, class Name>
Json sharesJson(const std::vector<RangeSummary::Share<Id>>& shares, Name name)
{
    Json rows = Json::array();
    for (const RangeSummary::Share<Id>& share : shares) {
        rows.push_back({{"bytes", share.bytes}, {"blocks", share.blocks}});
        name(rows.back(), share.id);
    }
    return rows;
}

template <class Id, class Name>
void printShares(const char* title, const char* rows, const std::vector<RangeSummary::Share<Id>>& shares, Name name,
                 std::ostream& out)
{
    using enum Table::Align;
    if (shares.empty())
        return;
    out << '\n';
    Table table({{title}, {"Bytes made", right}, {"Blocks", right}});
    for (const RangeSummary::Share<Id>& share : std::span(shares).first(std::min(mostRows, shares.size())))
        table.addRow({name(share.id), groupedDigits(share.bytes), groupedDigits(share.blocks)});
    table.print(out);
    printRest(shares.size(), rows, out);
}

} // namespace

Json rangeJson(const StepTrace& trace, const RangeSummary& summary)
{
    Json json = {{"from", summary.range.beginMs},      {"to", summary.range.endMs},
                 {"ms", summary.range.ms()},           {"bytes_at_begin", summary.atBegin},
                 {"bytes_at_end", summary.atEnd},      {"peak_bytes", summary.peak},
                 {"made_bytes", summary.made},         {"freed_bytes", summary.freed},
                 {"kept_bytes", summary.kept},         {"ops", summary.ops},
                 {"collectives", summary.collectives}, {"collective_bytes", summary.collectiveBytes}};
    json["modules"]
        = sharesJson(summary.modules, [&](Json& row, ModuleId module) { row["module"] = trace.moduleFqn(module); });
    if (summary.source)
        json["lines"] = sharesJson(summary.lines,
                                   [&](Json& row, std::uint32_t line) { addLine(row, trace, *summary.source, line); });
    return json;
}

void printRange(const StepTrace& trace, const RangeSummary& summary, std::ostream& out)
{
    out << "\nRange     " << formatMs(summary.range.beginMs) << " to " << formatMs(summary.range.endMs) << ", "
        << formatMs(summary.range.ms()) << " long\nMade      " << exactBytes(summary.made) << ", "
        << exactBytes(summary.kept) << " alive at the end\nFreed     " << exactBytes(summary.freed) << "\nHeld      "
        << exactBytes(summary.atBegin) << " at the begin, " << exactBytes(summary.atEnd) << " at the end, "
        << exactBytes(summary.peak) << " at most\nOps       " << groupedDigits(static_cast<std::int64_t>(summary.ops));
    if (summary.collectives > 0)
        out << ", with " << groupedDigits(static_cast<std::int64_t>(summary.collectives)) << " collectives of "
            << exactBytes(summary.collectiveBytes);
    out << '\n';
    printShares(
        "Module", "modules", summary.modules, [&](ModuleId module) { return nameOf(trace, module); }, out);
    printShares(
        "Line", "lines", summary.lines,
        [&](std::uint32_t line) { return line == SourceLines::none ? std::string("-") : summary.source->text(line); },
        out);
}

LiveSet atPeak(const StepTrace& trace, const Timeline& timeline)
{
    const bool atStart = timeline.peakChange == Timeline::npos;
    LiveSet set = afterChanges(trace, timeline, atStart ? 0 : timeline.peakChange + 1,
                               atStart ? 0 : timeline.changes[timeline.peakChange].ms);
    set.isPeak = true;
    return set;
}

Result<LiveSet> atInstant(const StepTrace& trace, const Timeline& timeline, const std::string& instant)
{
    if (instant == "peak")
        return atPeak(trace, timeline);
    const std::optional<double> ms = parseNumber(instant);
    if (!ms || !(*ms >= 0 && *ms <= timeline.durationMs))
        return badInput("--at " + instant + ": expected `peak`, or milliseconds from 0 to "
                        + formatNumber(timeline.durationMs, 2) + ", where the step ends");
    const auto after = std::ranges::upper_bound(timeline.changes, *ms, {}, &MemoryChange::ms);
    return afterChanges(trace, timeline, static_cast<std::size_t>(after - timeline.changes.begin()), *ms);
}

Json unitsJson(const StepTrace& trace, const LiveSet& set)
{
    Json units = Json::array();
    for (const UnitMemory& unit : set.units)
        units.push_back({{"unit", trace.moduleFqn(unit.unit)},
                         {"unsharded_parameter", unit.parameters},
                         {"unsharded_gradient", unit.gradients},
                         {"communication", unit.communication}});
    return units;
}

Json toJson(const StepTrace& trace, const LiveSet& set)
{
    Json json;
    json["instant"] = set.ms;
    json["bytes"] = headroom::toJson(trace.info, set.bytes);
    json["modules"] = Json::array();
    for (const ModuleHolding& holding : set.modules)
        json["modules"].push_back({{"module", trace.moduleFqn(holding.module)},
                                   {"category", categoryName(holding.category)},
                                   {"bytes", holding.bytes},
                                   {"blocks", holding.blocks}});
    if (!set.lines.empty())
        json["lines"] = linesJson(trace, set);
    if (set.hasUnits)
        json["unsharded"] = unitsJson(trace, set);
    return json;
}

void print(const StepTrace& trace, const LiveSet& set, std::ostream& out)
{
    using enum Table::Align;
    out << "\nHeld " << when(set) << ": " << exactBytes(total(set.bytes)) << "\n\n";
    Table table({{"Module"}, {"Category"}, {"Bytes", right}, {"Blocks", right}});
    for (const ModuleHolding& holding : std::span(set.modules).first(std::min(mostRows, set.modules.size())))
        table.addRow({nameOf(trace, holding.module), std::string(categoryName(holding.category)),
                      groupedDigits(holding.bytes), groupedDigits(holding.blocks)});
    table.print(out);
    printRest(set.modules.size(), "rows", out);
    printLines(trace, set, out);
    printUnits(trace, set, out);
}

void addLine(Json& object, const StepTrace& trace, const SourceLines& lines, std::uint32_t line)
{
    if (line == SourceLines::none)
        return;
    object["line"] = lines.text(line);
    object["frames"] = Json::array();
    for (const FrameId frame : {lines[line].own, lines[line].library})
        if (frame.valid())
            object["frames"].push_back({{"file", trace.strings[trace.frames.file[frame]]},
                                        {"line", trace.frames.line[frame]},
                                        {"function", trace.strings[trace.frames.function[frame]]}});
}

Json linesJson(const StepTrace& trace, const LiveSet& set)
{
    const SourceLines lines(trace);
    Json rows = Json::array();
    for (const LineHolding& holding : set.lines) {
        Json row = {{"category", categoryName(holding.category)}, {"bytes", holding.bytes}, {"blocks", holding.blocks}};
        addLine(row, trace, lines, holding.line);
        rows.push_back(std::move(row));
    }
    return rows;
}

void printLines(const StepTrace& trace, const LiveSet& set, std::ostream& out)
{
    if (set.lines.empty())
        return;
    using enum Table::Align;
    const SourceLines lines(trace);
    out << '\n';
    Table table({{"Line, " + when(set)}, {"Category"}, {"Bytes", right}, {"Blocks", right}});
    for (const LineHolding& holding : std::span(set.lines).first(std::min(mostRows, set.lines.size())))
        table.addRow({holding.line == SourceLines::none ? "-" : lines.text(holding.line),
                      std::string(categoryName(holding.category)), groupedDigits(holding.bytes),
                      groupedDigits(holding.blocks)});
    table.print(out);
    printRest(set.lines.size(), "lines", out);
}

void printUnits(const StepTrace& trace, const LiveSet& set, std::ostream& out)
{
    if (!set.hasUnits)
        return;
    if (set.units.empty()) {
        out << "\nFSDP has nothing unsharded " << when(set) << ".\n";
        return;
    }
    using enum Table::Align;
    out << '\n';
    Table table({{"Unsharded " + when(set)},
                 {"Parameters", right},
                 {"Gradients", right},
                 {"Communication", right},
                 {"Total", right}});
    for (const UnitMemory& unit : std::span(set.units).first(std::min(mostRows, set.units.size())))
        table.addRow({nameOf(trace, unit.unit), groupedDigits(unit.parameters), groupedDigits(unit.gradients),
                      groupedDigits(unit.communication), groupedDigits(unit.total())});
    table.print(out);
    printRest(set.units.size(), "units", out);
}

} // namespace headroom::cli
