// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/arguments.h"
#include "app/cli/command.h"
#include "app/cli/table.h"
#include "core/base/try.h"
#include "core/sac/step_statistics.h"

#include <CLI/CLI.hpp>

#include <iostream>

namespace headroom::cli {

namespace {

void print(const ModuleInfo& info, std::ostream& out)
{
    using enum Table::Align;
    Table table({{"Module"},
                 {"Parameters", right},
                 {"Gradients", right},
                 {"Activations", right},
                 {"Forward ms", right},
                 {"Backward ms", right},
                 {"SAC bytes", right},
                 {"SAC ms", right},
                 {"Segments", right}});
    for (const ModuleStats& stats : info.stats) {
        table.addRow({stats.fqn, groupedDigits(stats.paramBytes), groupedDigits(stats.gradBytes),
                      groupedDigits(stats.activationForward), formatNumber(stats.forwardMs, 4),
                      formatNumber(stats.backwardMs, 4), stats.isLeaf ? "-" : groupedDigits(stats.sacMemory),
                      stats.isLeaf ? "-" : formatNumber(stats.sacRuntimeMs, 4),
                      stats.isLeaf ? "-" : std::to_string(stats.slopes.size())});
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
        print(info, std::cout);
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
