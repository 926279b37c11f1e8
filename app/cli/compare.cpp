// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/arguments.h"
#include "app/cli/command.h"
#include "app/cli/table.h"
#include "core/base/atomic_write.h"
#include "core/base/printable_text.h"
#include "core/base/try.h"
#include "core/compare/peak_comparison.h"
#include "core/compare/peak_rows.h"
#include "core/predict/predict.h"
#include "core/profile/profile_reader.h"
#include "views/export/export_tables.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <span>

namespace headroom::cli {

namespace {

constexpr std::size_t mostComparedRows = 12; ///< of a printed table

struct CompareArguments
{
    std::string a;
    std::string b;
    std::string key; ///< empty: module, or category for files without modules
    std::string allow; ///< a size; empty: any difference is allowed
    SnapshotArguments snapshot;
    std::string profileStep;
    std::string output; ///< a .csv; empty: none
    bool json = false;
};

/// The parts of the files to compare.
struct Parts
{
    ImportRequest snapshot;
    ProfileRequest profile;
};

/// Reads one file of the comparison; the first bytes decide what the file is.
Result<PeakSide> readSide(const std::string& file, const std::string& name, const Parts& parts)
{
    if (isSnapshotFile(file)) {
        ASSIGN_OR_RETURN(SnapshotPtr snapshot, readSnapshot(file, parts.snapshot.range));
        ASSIGN_OR_RETURN(const SnapshotPart part, partOf(std::move(snapshot), file, parts.snapshot));
        ASSIGN_OR_RETURN(PeakSide side, peakSideOf(part, name));
        RETURN_IF_ERROR(part.snapshot->file->unchanged()); // names are read from the file until here
        return side;
    }
    ASSIGN_OR_RETURN(const StepTracePtr step, readMeasured(file, parts.profile));
    const Result<Timeline> timeline = predict(*step, {});
    if (!timeline)
        return badInput(file + ": " + timeline.error().message);
    return peakSideOf(*step, *timeline, name);
}

Result<std::optional<Bytes>> allowedBytes(const std::string& text)
{
    if (text.empty())
        return std::optional<Bytes>();
    const Result<Bytes> bytes = parseBytes(text.starts_with('+') ? text.substr(1) : text);
    if (!bytes)
        return badInput("--allow: " + bytes.error().message);
    return std::optional<Bytes>(*bytes);
}

std::string_view keyName(PeakKey key)
{
    return key == PeakKey::module ? "module" : key == PeakKey::line ? "line" : "category";
}

/// Returns how far the peak of `b` is above what is allowed; 0 or less: not above.
Bytes beyondAllowed(const PeakSide& a, const PeakSide& b, const std::optional<Bytes>& allowed)
{
    return allowed ? b.peak - a.peak - *allowed : 0;
}

Json sideJson(const std::string& file, const PeakSide& side)
{
    return {{"file", file},
            {"source", side.source.empty() ? "step" : side.source},
            {"peak_bytes", side.peak},
            {"non_pytorch_bytes", side.nonPyTorch},
            {"instant", side.instant.ms},
            {"phase", side.instant.phase},
            {"op", side.instant.op},
            {"module", side.instant.module}};
}

Json toJson(const CompareArguments& arguments, const PeakSide& a, const PeakSide& b, const PeakComparison& comparison,
            const OpChanges& ops, const std::optional<Bytes>& allowed)
{
    Json json;
    json["a"] = sideJson(arguments.a, a);
    json["b"] = sideJson(arguments.b, b);
    json["difference_bytes"] = b.peak - a.peak;
    json["cause"] = comparison.cause;
    json["notes"] = comparison.notes;
    if (!ops.note.empty())
        json["notes"].push_back(ops.note);
    json["by"] = keyName(comparison.key);
    json["rows"] = Json::array();
    for (const PeakRow& row : comparison.rows)
        json["rows"].push_back({{"name", row.name},
                                {"kind", row.ofCategory ? std::string_view("category") : keyName(comparison.key)},
                                {"a_bytes", row.a},
                                {"b_bytes", row.b},
                                {"difference_bytes", row.difference()},
                                {"a_blocks", row.blocksA},
                                {"b_blocks", row.blocksB}});
    json["paired_ops"] = ops.pairs;
    json["ops"] = Json::array();
    for (const OpChange& change : ops.changes)
        json["ops"].push_back({{"change", changeName(change.change)},
                               {"op", change.kind.name},
                               {"module", change.kind.module},
                               {"phase", phaseName(change.kind.phase)},
                               {"count", change.count},
                               {"a_bytes", change.a},
                               {"b_bytes", change.b}});
    if (allowed) {
        json["allowed_bytes"] = *allowed;
        json["is_allowed"] = beyondAllowed(a, b, allowed) <= 0;
    }
    return json;
}

/// Returns all rows as CSV, as toJson().
std::string toCsv(const PeakComparison& comparison)
{
    std::string csv = "name,kind,a_bytes,b_bytes,difference_bytes,a_blocks,b_blocks\r\n";
    for (const PeakRow& row : comparison.rows) {
        csv += csvField(row.name) + "," + (row.ofCategory ? "category" : std::string(keyName(comparison.key)));
        for (const std::int64_t number : {row.a, row.b, row.difference(), row.blocksA, row.blocksB})
            csv += "," + std::to_string(number);
        csv += "\r\n";
    }
    return csv;
}

std::string difference(Bytes bytes)
{
    return (bytes > 0 ? "+" : "") + groupedDigits(bytes);
}

std::string placeText(const StepInstant& instant)
{
    std::string text = instant.phase == "start" ? std::string("before the first op") : instant.phase;
    if (!instant.op.empty())
        text += ", " + instant.op;
    if (!instant.module.empty())
        text += " of " + instant.module;
    return printableText(text);
}

void printRows(const PeakComparison& comparison, std::ostream& out)
{
    using enum Table::Align;
    const std::string heading = comparison.key == PeakKey::module ? "Module"
        : comparison.key == PeakKey::line                         ? "Line"
                                                                  : "Category";
    Table table({{heading}, {"A", right}, {"B", right}, {"Difference", right}});
    PeakRow rest;
    PeakRow sum;
    std::size_t restRows = 0;
    for (std::size_t i = 0; i < comparison.rows.size(); ++i) {
        const PeakRow& row = comparison.rows[i];
        sum.a += row.a;
        sum.b += row.b;
        if (i < mostComparedRows) {
            const std::string name = row.name.empty() ? "(root module)" : printableText(row.name);
            table.addRow({row.ofCategory && comparison.key != PeakKey::category ? "(" + name + ")" : name,
                          groupedDigits(row.a), groupedDigits(row.b), difference(row.difference())});
            continue;
        }
        rest.a += row.a;
        rest.b += row.b;
        ++restRows;
    }
    if (restRows > 0)
        table.addRow({std::to_string(restRows) + " more", groupedDigits(rest.a), groupedDigits(rest.b),
                      difference(rest.difference())});
    table.addRow({"Sum", groupedDigits(sum.a), groupedDigits(sum.b), difference(sum.difference())});
    table.print(out);
    if (restRows > 0)
        out << "--json has all rows.\n";
}

void printOps(const OpChanges& ops, std::ostream& out)
{
    if (!ops.note.empty())
        out << '\n' << printableText(ops.note) << '\n';
    if (ops.changes.empty()) {
        if (ops.note.empty() || ops.pairs > 0)
            out << "\nAll ops that allocate, " << groupedDigits(ops.pairs) << ", are in both with the same sizes.\n";
        return;
    }
    std::map<OpChange::Change, std::int64_t> counts;
    for (const OpChange& change : ops.changes)
        counts[change.change] += change.count;
    using enum OpChange::Change;
    out << "\nOps that allocate: " << groupedDigits(counts[isNew]) << " new, " << groupedDigits(counts[gone])
        << " gone, " << groupedDigits(counts[larger]) << " larger, " << groupedDigits(counts[smaller]) << " smaller; "
        << groupedDigits(ops.pairs) << " are in both.\n\n";
    using enum Table::Align;
    Table table(
        {{"Change"}, {"Ops", right}, {"Op"}, {"Phase"}, {"Allocated in A", right}, {"in B", right}, {"Module"}});
    for (const OpChange& change : std::span(ops.changes).first(std::min(mostComparedRows, ops.changes.size())))
        table.addRow({std::string(changeName(change.change)), groupedDigits(change.count),
                      printableText(change.kind.name), std::string(phaseName(change.kind.phase)),
                      groupedDigits(change.a), groupedDigits(change.b), printableText(change.kind.module)});
    table.print(out);
    if (ops.changes.size() > mostComparedRows)
        out << "and " << ops.changes.size() - mostComparedRows << " rows more: --json has all\n";
}

void print(const PeakSide& a, const PeakSide& b, const PeakComparison& comparison, const OpChanges& ops,
           std::ostream& out)
{
    Table sides({{""}, {"File"}, {"Peak"}, {"At"}});
    sides.addRow({"A", printableText(a.name), exactBytes(a.peak), placeText(a.instant)});
    sides.addRow({"B", printableText(b.name), exactBytes(b.peak), placeText(b.instant)});
    sides.print(out);
    out << '\n' << printableText(comparison.cause) << '\n';
    for (const std::string& note : comparison.notes)
        out << printableText(note) << '\n';
    out << '\n';
    printRows(comparison, out);
    printOps(ops, out);
}

Result<int> run(const CompareArguments& arguments)
{
    static const std::map<std::string, PeakKey> keys{
        {"", PeakKey::module}, {"module", PeakKey::module}, {"line", PeakKey::line}, {"category", PeakKey::category}};
    ASSIGN_OR_RETURN(const std::optional<Bytes> allowed, allowedBytes(arguments.allow));
    Parts parts;
    ASSIGN_OR_RETURN(parts.snapshot, importRequest(arguments.snapshot, {arguments.a, arguments.b}));
    ASSIGN_OR_RETURN(parts.profile, profileRequest(arguments.profileStep, {arguments.a, arguments.b}));
    if (!arguments.output.empty() && !arguments.output.ends_with(".csv"))
        return badInput("-o " + arguments.output + ": a comparison is written as a table; expected a name with .csv");
    // Files of the same name are told apart by their folders.
    std::string nameA = std::filesystem::path(arguments.a).filename().string();
    std::string nameB = std::filesystem::path(arguments.b).filename().string();
    if (nameA == nameB) {
        nameA = arguments.a;
        nameB = arguments.b;
    }
    ASSIGN_OR_RETURN(const PeakSide a, readSide(arguments.a, nameA, parts));
    ASSIGN_OR_RETURN(const PeakSide b, readSide(arguments.b, nameB, parts));
    const PeakComparison comparison = comparePeaks(a, b, keys.at(arguments.key));
    const OpChanges ops = opChanges(a, b);
    if (!arguments.output.empty()) {
        RETURN_IF_ERROR(writeAtomically(arguments.output, toCsv(comparison)));
    }
    if (arguments.json)
        printJson(toJson(arguments, a, b, comparison, ops, allowed));
    else
        print(a, b, comparison, ops, std::cout);
    const Bytes beyond = beyondAllowed(a, b, allowed);
    if (beyond <= 0)
        return 0;
    std::cout.flush();
    printError("the peak of " + b.name + " is " + exactBytes(b.peak - a.peak) + " above that of " + a.name + ", "
               + exactBytes(beyond) + " more than --allow permits");
    return static_cast<int>(ErrorKind::infeasible);
}

} // namespace

void addCompare(CLI::App& program, Action& chosen)
{
    const auto arguments = std::make_shared<CompareArguments>();
    CLI::App* command = addCommand(program, "compare", "Why the peaks of two steps, snapshots or traces differ");
    command->add_option("A", arguments->a, "Step file, memory snapshot or trace of torch.profiler")->required();
    command->add_option("B", arguments->b, "The same, after a change")->required();
    command
        ->add_option("--by", arguments->key,
                     "Rows by module (default), by line of source code, or by category of memory")
        ->check(CLI::IsMember({"module", "line", "category"}))
        ->type_name("module|line|category");
    command
        ->add_option("--allow", arguments->allow,
                     "Exit code 3 if B's peak is above A's by more than this size, as 50MiB or 0")
        ->type_name("SIZE");
    command->add_option("-o,--output", arguments->output, "Write the rows as a table: .csv")->type_name("FILE");
    addSnapshotArguments(*command, arguments->snapshot);
    addProfileArgument(*command, arguments->profileStep);
    addJsonFlag(*command, arguments->json);
    command->callback([=, &chosen] { chosen = [=] { return run(*arguments); }; });
}

} // namespace headroom::cli
