// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/arguments.h"
#include "app/cli/command.h"
#include "app/cli/table.h"
#include "core/base/try.h"
#include "core/sac/step_statistics.h"
#include "core/trace/source_lines.h"

#include <CLI/CLI.hpp>

#include <iostream>
#include <map>
#include <string_view>

namespace headroom::cli {

namespace {

void print(const StepTrace& trace, const ModuleInfo& info, std::ostream& out)
{
    using enum Table::Align;
    const SourceLines lines(trace);
    const std::vector<std::uint32_t> most = linesOfModules(trace, lines);
    std::map<std::string_view, std::uint32_t> lineOf;
    for (std::uint32_t module = 0; module < most.size(); ++module)
        lineOf.emplace(trace.moduleFqn(ModuleId(module)), most[module]);
    std::vector<Table::Heading> headings{{"Module"},
                                         {"Parameters", right},
                                         {"Gradients", right},
                                         {"Activations", right},
                                         {"Forward ms", right},
                                         {"Backward ms", right},
                                         {"SAC bytes", right},
                                         {"SAC ms", right},
                                         {"Segments", right}};
    if (hasSourceLines(trace))
        headings.push_back({"Line that makes most"});
    Table table(std::move(headings));
    for (const ModuleStats& stats : info.stats) {
        std::vector<std::string> row{stats.fqn,
                                     groupedDigits(stats.paramBytes),
                                     groupedDigits(stats.gradBytes),
                                     groupedDigits(stats.activationForward),
                                     formatNumber(stats.forwardMs, 4),
                                     formatNumber(stats.backwardMs, 4),
                                     stats.isLeaf ? "-" : groupedDigits(stats.sacMemory),
                                     stats.isLeaf ? "-" : formatNumber(stats.sacRuntimeMs, 4),
                                     stats.isLeaf ? "-" : std::to_string(stats.slopes.size())};
        if (hasSourceLines(trace))
            row.push_back(lines.text(lineOf.contains(stats.fqn) ? lineOf[stats.fqn] : SourceLines::none));
        table.addRow(std::move(row));
    }
    table.print(out);
}

Result<int> run(const std::string& file, const TimeChoice& times, bool json)
{
    ASSIGN_OR_RETURN(const StepTracePtr trace, readStep(file, times));
    ASSIGN_OR_RETURN(const ModuleInfo info, moduleInfo(*trace));
    if (json)
        std::cout << toJson(info) << '\n';
    else
        print(*trace, info, std::cout);
    return 0;
}

} // namespace

void addModules(CLI::App& program, Action& chosen)
{
    struct Arguments
    {
        std::string file;
        TimeChoice times{TimeModel::roofline, {}, "auto"}; ///< as in PyTorch's document
        bool json = false;
    };
    const auto arguments = std::make_shared<Arguments>();
    CLI::App* command = addCommand(program, "modules",
                                   "Memory, time and trade-off curve of every module (--json: PyTorch's ModuleInfo)");
    command->add_option("step", arguments->file, "Step file")->required();
    addTimeArguments(*command, arguments->times);
    command->add_flag("--json", arguments->json, "Print the ModuleInfo document");
    command->callback(
        [=, &chosen] { chosen = [=] { return run(arguments->file, arguments->times, arguments->json); }; });
}

} // namespace headroom::cli
