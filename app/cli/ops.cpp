// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/arguments.h"
#include "app/cli/command.h"
#include "app/cli/live_set.h"
#include "app/cli/table.h"
#include "core/base/try.h"
#include "core/compare/step_comparison.h"
#include "core/cost/time_model.h"
#include "core/predict/predict.h"

#include <CLI/CLI.hpp>

#include <iostream>
#include <optional>

namespace headroom::cli {

namespace {

/// Returns for each op whether autograd saves a tensor that the op creates.
std::vector<bool> savedForBackward(const StepTrace& trace)
{
    std::vector<bool> packed(trace.storages.size(), false);
    for (const StorageId storage : trace.packs.storage) {
        if (storage)
            packed[storage.value] = true;
    }
    std::vector<bool> saved(trace.ops.size(), false);
    for (std::uint32_t row = 0; row < trace.ops.size(); ++row) {
        for (const StorageId output : trace.ops.outputs[OpId(row)]) {
            if (output && trace.storages.creator[output] == OpId(row) && packed[output.value])
                saved[row] = true;
        }
    }
    return saved;
}

/// Returns the ops of a module and of the modules inside; all ops if `selected` is invalid. `range`: only the ops that
/// run there; null: all.
std::vector<OpId> selectOps(const StepTrace& trace, ModuleId selected, const RangeSummary* range)
{
    std::vector<bool> inside(trace.modules.size(), !selected.valid());
    if (selected)
        inside[selected.value] = true;
    // Modules come depth first: a parent is decided before the children.
    for (std::uint32_t module = 0; module < trace.modules.size(); ++module) {
        const ModuleId parent = trace.modules.parent[ModuleId(module)];
        if (parent && inside[parent.value])
            inside[module] = true;
    }
    std::vector<OpId> ops;
    for (std::uint32_t row = 0; row < trace.ops.size(); ++row) {
        const ModuleId module = trace.ops.module[OpId(row)];
        if ((module ? inside[module.value] : !selected.valid()) && (!range || range->runs[row]))
            ops.emplace_back(row);
    }
    return ops;
}

/// Adds the sums of both steps, in all and by module.
void addComparison(Json& json, const StepTrace& trace, const StepComparison& beside)
{
    Json& sums = json["comparison"];
    sums = {{"ops_in_both", beside.pairs},
            {"predicted_ms", beside.predictedMs},
            {"measured_ms", beside.measuredMs},
            {"predicted_peak_bytes", beside.predictedPeak}};
    if (beside.hasMemory)
        sums["measured_peak_bytes"] = beside.measuredPeak;
    if (const auto& measured = beside.measured->info.measured) {
        sums["step_ms"] = measured->stepMs;
        sums["gpu_busy_ms"] = measured->busyMs;
        sums["kernels"] = measured->kernels;
    }
    sums["note"] = beside.note;
    sums["modules"] = Json::array();
    for (std::uint32_t i = 0; i < beside.modules.size(); ++i)
        if (beside.modules[i].measured)
            sums["modules"].push_back({{"module", trace.moduleFqn(ModuleId(i))},
                                       {"predicted_ms", beside.modules[i].predictedMs},
                                       {"measured_ms", beside.modules[i].measuredMs}});
}

void printComparison(const StepComparison& beside, std::ostream& out)
{
    out << "\nOps       " << groupedDigits(static_cast<std::int64_t>(beside.pairs)) << " of "
        << groupedDigits(static_cast<std::int64_t>(beside.measuredOp.size())) << " are in both\nTime      "
        << formatMs(beside.predictedMs) << " predicted, " << formatMs(beside.measuredMs) << " measured\nPeak      "
        << exactBytes(beside.predictedPeak) << " predicted, "
        << (beside.hasMemory ? exactBytes(beside.measuredPeak) + " measured" : "not measured") << '\n';
    if (!beside.note.empty())
        out << beside.note << '\n';
}

/// `beside` may be null.
Json toJson(const StepTrace& trace, const std::vector<OpId>& ops, const StepComparison* beside)
{
    const std::vector<bool> saved = savedForBackward(trace);
    const SourceLines lines(trace);
    Json json;
    json["ops"] = Json::array();
    for (const OpId op : ops) {
        const std::uint16_t flags = trace.ops.flags[op];
        const OpWork work = workOf(trace, op);
        json["ops"].push_back({{"name", trace.opName(op)},
                               {"phase", phaseName(trace.ops.phase[op])},
                               {"module", trace.moduleFqn(trace.ops.module[op])},
                               {"dtype", dtypeName(trace.ops.dtype[op])},
                               {"bytes", trace.ops.bytes[op]},
                               {"flops", trace.ops.flops[op]},
                               {"ms", trace.ops.ms[op]},
                               {"class", workClassName(work.kind)},
                               {"executed_flops", work.flops},
                               {"read_bytes", work.read},
                               {"written_bytes", work.written},
                               {"kernels", work.kernels},
                               {"view", (flags & opView) != 0},
                               {"in_place", (flags & opInPlace) != 0},
                               {"random", (flags & opRandom) != 0},
                               {"in_subclass", (flags & opInSubclass) != 0},
                               {"saved_for_backward", static_cast<bool>(saved[op.value])}});
        addLine(json["ops"].back(), trace, lines, lines.lineOf(op));
        if (beside && beside->measuredMsOf(op) >= 0)
            json["ops"].back()["measured_ms"] = beside->measuredMsOf(op);
    }
    if (beside)
        addComparison(json, trace, *beside);
    return json;
}

void print(const StepTrace& trace, const std::vector<OpId>& ops, const StepComparison* beside, std::ostream& out)
{
    using enum Table::Align;
    const std::vector<bool> saved = savedForBackward(trace);
    const SourceLines lines(trace);
    std::vector<Table::Heading> headings{{"Phase"}, {"Op"}, {"Bytes", right}, {"Flops", right}, {"ms", right}};
    if (beside)
        headings.push_back({"Measured", right});
    headings.insert(headings.end(), {{"Facts"}, {"Module"}});
    if (hasSourceLines(trace))
        headings.push_back({"Line"});
    Table table(std::move(headings));
    for (const OpId op : ops) {
        const std::uint16_t flags = trace.ops.flags[op];
        std::string facts;
        const auto add = [&](bool holds, const char* fact) {
            if (holds)
                facts += std::string(facts.empty() ? "" : ", ") + fact;
        };
        add((flags & opView) != 0, "view");
        add((flags & opInPlace) != 0, "in-place");
        add((flags & opRandom) != 0, "random");
        add((flags & opRecomputed) != 0, "recomputed");
        add((flags & opInSubclass) != 0, "in a subclass");
        add(saved[op.value], "saved");
        std::vector<std::string> row{std::string(phaseName(trace.ops.phase[op])), std::string(trace.opName(op)),
                                     groupedDigits(trace.ops.bytes[op]), formatNumber(trace.ops.flops[op], 0),
                                     formatNumber(trace.ops.ms[op], 5)};
        if (beside)
            row.push_back(beside->measuredMsOf(op) < 0 ? "" : formatNumber(beside->measuredMsOf(op), 5));
        row.insert(row.end(), {facts, std::string(trace.moduleFqn(trace.ops.module[op]))});
        if (hasSourceLines(trace))
            row.push_back(lines.text(op));
        table.addRow(std::move(row));
    }
    table.print(out);
    if (beside)
        printComparison(*beside, out);
}

struct OpsTableArguments
{
    std::string file;
    std::string module;
    RangeArguments range;
    TimeChoice times;
    std::string measured;
    std::string profileStep;
    bool json = false;
};

/// Compares the step with that of --measured; null without --measured.
Result<StepComparisonPtr> comparisonOf(const StepTrace& trace, const OpsTableArguments& arguments,
                                       const ProfileRequest& profile)
{
    if (arguments.measured.empty())
        return StepComparisonPtr();
    ASSIGN_OR_RETURN(const StepTracePtr measured, readMeasured(arguments.measured, profile));
    ASSIGN_OR_RETURN(const Timeline timeline, predict(trace, {}));
    return compareSteps(trace, timeline, measured, arguments.measured);
}

Result<int> run(const OpsTableArguments& arguments)
{
    const auto& [file, fqn, within, times, measured, profileStep, json] = arguments;
    ASSIGN_OR_RETURN(const ProfileRequest profile, profileRequest(profileStep, {file, measured}));
    ASSIGN_OR_RETURN(const StepTracePtr trace, readStep(file, times, StepKind::any, profile));
    ModuleId selected;
    if (!fqn.empty()) {
        const Result<ModuleId> module = findModule(*trace, fqn);
        if (!module)
            return badInput(file + ": " + module.error().message);
        selected = *module;
    }
    ASSIGN_OR_RETURN(const StepComparisonPtr beside, comparisonOf(*trace, arguments, profile));
    std::optional<RangeSummary> summary;
    if (!within.from.empty() || !within.to.empty()) {
        ASSIGN_OR_RETURN(const Timeline timeline, predict(*trace, {}));
        ASSIGN_OR_RETURN(const std::optional<TimeRange> range, rangeOf(within, timeline));
        summary = summaryOf(*trace, timeline, *range);
    }
    const std::vector<OpId> ops = selectOps(*trace, selected, summary ? &*summary : nullptr);
    if (json)
        printJson(toJson(*trace, ops, beside.get()));
    else
        print(*trace, ops, beside.get(), std::cout);
    return 0;
}

} // namespace

void addOps(CLI::App& program, Action& chosen)
{
    const auto arguments = std::make_shared<OpsTableArguments>();
    CLI::App* command = addCommand(program, "ops", "Every op of a recorded step, in order");
    command->add_option("step", arguments->file, "Step file")->required();
    command->add_option("--module", arguments->module, "Only ops of this module and of modules inside")
        ->type_name("FQN");
    addRangeArguments(*command, arguments->range, "Only ops that run");
    addTimeArguments(*command, arguments->times);
    addMeasuredArgument(*command, arguments->measured);
    addProfileArgument(*command, arguments->profileStep);
    addJsonFlag(*command, arguments->json);
    command->callback([=, &chosen] { chosen = [=] { return run(*arguments); }; });
}

} // namespace headroom::cli
